/**
 * Selects the next delivery of a lane of a whole topic, or of a key in trouble, and counts the open ones in the lane. Relays
 * find it by `postbud_next_2`, but there may be thousands of lanes, and each call costs as much as ten such deliveries.
 *
 * @param lane the alias of the row of `lanes`, which is not shared by keys.
 * @param counted how many are counted at most. Without bitmap scans, or the planner may read and sort all of a lane.
 */
export const headOf = (lane: string, counted: number | string = 1) => `
      select *, count(*) over () as open from (
        (
          select ${COLUMNS} from deliveries
          where ${lane}.home_id is null and (lane_id, position) > (${lane}.id, ${lane}.head) and lane_id = ${lane}.id
            and coalesce(state in ('pending', 'failing'), false)
          order by lane_id, position limit ${counted}
        )
        union all
        (
          -- The row is compared as the index of keys has it: that of the primary key would read those of all other keys.
          select ${COLUMNS} from deliveries
          where (lane_id, lane_key, position) > (${lane}.home_id, ${lane}.held_key, ${lane}.head)
            and lane_id = ${lane}.home_id and lane_key = ${lane}.held_key
            and coalesce(state in ('pending', 'failing'), false)
          order by lane_id, lane_key, position limit ${counted}
        )
      ) as next
      order by position limit 1`;

const COLUMNS = 'position, event_id, attempted_at, attempt_log, state';
