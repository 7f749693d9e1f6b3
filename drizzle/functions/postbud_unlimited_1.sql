-- The names of subscriptions, topic and subscriber, without those of subscribers with a limit. During an outage these are
-- kept: the outage holds them back, and one probes.
create or replace function postbud_unlimited_1(names text[]) returns text[] language sql stable as $$
  select array_agg(
    case when exists (select from subscriber_limits where subscriber = split_part(name, ' ', 2))
      and not exists (select from outages where subscriber = split_part(name, ' ', 2) and recovered_at is null)
    then '' else name end order by turn)
  from unnest(names) with ordinality as asked(name, turn)
$$;
