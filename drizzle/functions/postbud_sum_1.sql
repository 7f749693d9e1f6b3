create or replace aggregate postbud_sum_1(bigint[]) (
  sfunc = postbud_add_1, stype = bigint[], initcond = '{}', parallel = safe
);
