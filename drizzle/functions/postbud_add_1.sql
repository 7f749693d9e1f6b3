-- Adds two histograms, bucket by bucket; a shorter one counts as zero at its end.
create or replace function postbud_add_1(one bigint[], other bigint[]) returns bigint[]
language sql immutable parallel safe as $$
  select array(
    select coalesce(a, 0) + coalesce(b, 0) from unnest(one, other) with ordinality as bucket(a, b, number) order by number
  )
$$;
