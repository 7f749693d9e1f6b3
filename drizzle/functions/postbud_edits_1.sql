-- Counts the single-letter changes between two names (Levenshtein).
create or replace function postbud_edits_1(one text, other text) returns int language plpgsql immutable as $$
declare
  costs int[] := array(select generate_series(0, length(other)));
  row int[];
begin
  for i in 1..length(one) loop
    row := array[i];
    for j in 1..length(other) loop
      row[j + 1] := least(
        row[j] + 1, costs[j + 1] + 1, costs[j] + (substr(one, i, 1) <> substr(other, j, 1))::int);
    end loop;
    costs := row;
  end loop;
  return costs[length(other) + 1];
end
$$;
