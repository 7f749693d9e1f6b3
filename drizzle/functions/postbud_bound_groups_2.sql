-- Gives the dead letters among these attempts the group of the rest where their own would be one too many: a subscriber
-- that answers in other words each time would make a group of each dead letter. Settlements side by side may each add one.
create or replace function postbud_bound_groups_2(exceptional jsonb) returns jsonb language sql as $$
  with attempt as (
    select number, entry, entry -> 'error_group' as own, lanes.topic, lanes.subscriber
    from jsonb_array_elements(exceptional) with ordinality as attempt(entry, number)
      join lanes on lanes.id = (entry ->> 'lane')::int
  ),
  ranked as (
    select *, dense_rank() over (partition by topic, subscriber, is_new order by own ->> 'key') as place
    from attempt, lateral (
      select own ? 'rest' and not exists (select from error_groups where key = own ->> 'key') as is_new
    ) as known
  )
  select jsonb_agg(case when is_new and place + (
      select count(*) from error_groups
      where error_groups.topic = ranked.topic and error_groups.subscriber = ranked.subscriber
        and exists (select from exceptions where error_group = error_groups.key limit 1)
    ) > 100 then entry || jsonb_build_object('error_group', own -> 'rest') else entry end order by number)
  from ranked
$$;
