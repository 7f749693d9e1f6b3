/**
 * The CTEs from `change` to `regrouped`, with which a statement that has changed deliveries changes what counts them: their
 * events, the error groups, the backlog and the hours, in the order of locks.ts.
 *
 * They read `changed`, a row for each delivery: event_id, topic, subscriber, error_group (null where that stays as it is),
 * and what it adds to its event's open, failing and dead.
 *
 * @param at the SQL of the moment.
 */
export const recounted = (at: string) => `
  change as materialized (
    select event_id, sum(open)::int as open, sum(failing)::int as failing, sum(dead)::int as dead
    from changed group by event_id
  ),
  locked_event as materialized (
    select id, topic, change.open, change.failing, change.dead, state as was from events join change on id = event_id
    order by id for update of events
  ),
  changed_event as (
    update events set open = events.open + locked_event.open, failing = events.failing + locked_event.failing,
      dead_lettered = dead_lettered + dead
    from locked_event where events.id = locked_event.id
    returning postbud_event_moved(locked_event.topic, was, state) as moved
  ),
  changed_group as materialized (
    select key, own.dead from error_groups join (
      select error_group, sum(dead) as dead from changed where error_group is not null group by error_group
    ) as own on error_group = key
    where (select count(*) from changed_event) >= 0 order by key for update of error_groups
  ),
  counted as materialized (
    select postbud_count_2(array(
      select row(topic, subscriber, sum(open - failing), sum(failing), sum(dead), 0, 0, 0, null, null)::postbud_change_1
      from changed group by topic, subscriber
      union all
      select moved from changed_event
    ), ${at})::text as done
    where exists (select from changed) and (select count(*) from changed_group) >= 0
  ),
  regrouped as (
    update error_groups set dead_lettered = dead_lettered + dead
    from changed_group where error_groups.key = changed_group.key and (select count(done) from counted) >= 0
  )`;
