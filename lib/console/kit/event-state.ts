/**
 * A call that finds the `stream` and the `position` of an event, in SQL.
 *
 * @param event the alias of its row in `events`.
 */
export const placeOf = (event: string) =>
  `postbud_find_place_1(${event}.id, ${event}.topic, ${event}.ordering_key, ${event}.created_at, ${event}.seq)`;

/**
 * The state of an event, in SQL: the worst of its deliveries'. A dismissed dead letter is as good as delivered; an event
 * that awaits its place is pending, if it is for anybody.
 *
 * @param event the alias of its row in `events`.
 */
export const eventState = (event: string) => `(
    select coalesce(max(case when dismissed_at is null then state else 'delivered' end),
      case when place.position is null and ${event}.subscribers <> '{}' then 'pending' else 'delivered' end::delivery_state)
    from ${placeOf(event)} as place left join deliveries
      on lane = any (array(select id from lanes where lanes.stream = place.stream))
        and deliveries.position = place.position
    group by place.position
  )`;
