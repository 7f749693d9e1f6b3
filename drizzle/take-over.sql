-- Takes over a database of release 0.3, the last before 1.0: what that release kept for those before it goes. `migrate` then
-- makes the functions as the baseline has them.
do $$
declare
  left_over record;
begin
  drop function if exists postbud_turn_3, postbud_settle_alone_2, postbud_lanes_1, postbud_count_1,
    postbud_refuse_lane_of_key;
  -- It returns other columns now.
  drop function if exists postbud_fan_out_3;
  drop type if exists postbud_outcome_1;

  -- Release 0.1 did not record whom an event is for. What is fanned out went to those that have a delivery of it; what
  -- waits goes to the subscribers in the catalog of release 0.3.
  update awaiting_fan_out as marker
  set subscribers = catalog_topics.subscribers, open = cardinality(catalog_topics.subscribers)
  from catalog_topics where marker.topic = catalog_topics.topic and marker.subscribers is null;
  select topic, count(*) as events into left_over
  from awaiting_fan_out where subscribers is null group by topic order by topic limit 1;
  if found then
    raise exception '% events of % do not say whom they are for, and the catalog has no such topic: add it, or delete the events',
      left_over.events, left_over.topic;
  end if;
  update events set subscribers = marker.subscribers, open = marker.open
  from awaiting_fan_out as marker where events.id = marker.event_id and events.subscribers is null;
  update events set subscribers = known.subscribers
  from (
    select event_id, array_agg(distinct subscriber order by subscriber) as subscribers
    from events join deliveries on deliveries.event_id = events.id join lanes on lanes.id = lane_id
    where subscribers is null group by event_id
  ) as known
  where events.id = known.event_id;
  update events set subscribers = '{}' where subscribers is null;
  alter table events alter column subscribers set not null;
  drop index awaiting_fan_out_unaddressed;
  alter table awaiting_fan_out alter column subscribers set not null;

  alter table lanes drop column needed_version, drop column next_look_at, drop constraint lanes_pkey;
  create table home_lanes (
    topic text not null, subscriber text not null, slot smallint not null, lane_id bigint not null,
    constraint home_lanes_topic_subscriber_slot_pk primary key (topic, subscriber, slot)
  );
  insert into home_lanes select topic, subscriber, coalesce(slot, 0), id from lanes where home_id is null;
  drop index lanes_subscription_key, lanes_slots, lanes_in_trouble;
  alter table lanes replica identity full;
  alter table leases replica identity full;
  alter table last_pass replica identity full;
  alter table reserved_positions replica identity full;
  create index lanes_id on lanes (id);
  create index lanes_subscription_key on lanes (topic, subscriber, ordering_key);
  create index lanes_slots on lanes (topic, subscriber, slot, held_key) where slot is not null;
  create unique index lanes_in_trouble on lanes (home_id, held_key) where home_id is not null;
  alter table role_grants rename constraint role_grants_pkey to role_grants_role_may_producer_pk;

  update deliveries set attempt_log = (
    select jsonb_agg(case entry ->> 'outcome' when 'hurried' then entry || '{"outcome": "retried_early"}' else entry end
      order by place)
    from jsonb_array_elements(attempt_log) with ordinality as log(entry, place)
  )
  where attempt_log @? '$[*] ? (@.outcome == "hurried")';
end
$$;
