import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';

// Parts of statements about the dead letters that halt their lane or, in one with ordering keys, their key.

/** Lanes of a subscription that operators are shown a number of; more say no more. */
export const LANES_COUNTED = 2000;

/** Selects the dead letter that halts each lane or key, with its subscription and stream; of each lane so many at most. */
export const HALTING = blocking('dead_lettered');

/** Selects the failing delivery that holds back what comes after it, likewise. */
export const FAILING = blocking('failing');

function blocking(state: 'dead_lettered' | 'failing'): string {
  return `
    select lane.topic, lane.subscriber, lane.stream, lane.slot, lane.head, lane.tail, first.*
    from lane_heads as lane, lateral (
      select distinct on (ordering_key) * from (
        select * from exceptions where exceptions.lane = lane.id and is_open and state = '${state}'
        order by exceptions.lane, state, exceptions.ordering_key, position limit ${LANES_COUNTED}
      ) as open
      order by ordering_key, position
    ) as first
    -- Whoever asked for a smoke test sees what became of it.
    where lane.topic <> '${SMOKE_TEST.topic}'`;
}

/**
 * Counts the unfinished deliveries of a lane, or of a key, from one on.
 *
 * @param from the alias of its row, with the columns of `HALTING`. @param limit in SQL; null to count all.
 */
export const waitingBehind = (from: string, limit: number | string) => `(
      select least(open.number + case when ${from}.slot = 0
        then postbud_beyond_head_1(${from}.stream, ${from}.subscriber, ${from}.head, ${from}.tail)
        else (
          select count(*) from (
            select from log as beyond
            where beyond.stream = ${from}.stream and ordering_key = ${from}.ordering_key and ordering_key <> ''
              and beyond.position > ${from}.head and ${from}.subscriber = any ((
                select subscribers from audiences
                where audiences.stream = beyond.stream and audiences.position <= beyond.position
                order by audiences.position desc limit 1
              )::text[])
            order by beyond.stream, ordering_key, beyond.position limit ${limit}
          ) as beyond
        ) end, ${limit})
      from (
        -- Two indexes are read, and no row of the table.
        select (
          select count(*) from (
            select from exceptions as behind
            where behind.lane = ${from}.lane and behind.ordering_key = ${from}.ordering_key and is_open
              and behind.position >= ${from}.position
            order by behind.lane, behind.ordering_key, behind.position limit ${limit}
          ) as behind
        ) - (
          select count(*) from exceptions as dead
          where dead.lane = ${from}.lane and dead.ordering_key = ${from}.ordering_key and is_open
            and state = 'dead_lettered' and dead.position >= ${from}.position
        ) as number
      ) as open
    )`;
