-- The names of subscriptions, topic and subscriber, without those of subscribers with a limit.
create or replace function postbud_unlimited_1(names text[]) returns text[] language sql stable as $$
  select array_agg(
    case when exists (select from subscriber_limits where subscriber = split_part(name, ' ', 2)) then '' else name end
    order by turn)
  from unnest(names) with ordinality as asked(name, turn)
$$;
