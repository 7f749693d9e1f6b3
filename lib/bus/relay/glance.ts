import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { sleep } from '../../platform/time.ts';
import { boundsOf } from '../deliveries/bounds.ts';

/**
 * Watches a database for work, without looking for it: a glance costs it a tenth of a turn. It sees that an event waits for
 * its place, and that an exception has become due. Some are due for long, since nobody has a handler for them. The lanes of a
 * relay that died are left to the next look.
 */
export function glancesAt(db: Database) {
  /** When the exception became due that was the last to do so, in epoch milliseconds of the database. */
  let newestDue = -Infinity;

  const seesWork = async () => {
    const [row] = await run<{ awaits: boolean; due: number | null }>(driverOf(db), {
      name: 'glance',
      text: GLANCE,
      values: [boundsOf(db).textFor(null)],
      limitMs: TURN_LIMIT_MS,
      isTurn: true,
    });
    const due = row!.due ?? -Infinity;
    const isNew = due > newestDue;
    newestDue = due;
    return row!.awaits || isNew;
  };

  /** Returns when there may be work, when the time has come, or when the signal aborts. @throws the driver's error */
  return async (everyMs: number, until: number, stop: AbortSignal | undefined) => {
    for (;;) {
      await sleep(Math.min(everyMs, until - Date.now()), stop);
      if (Date.now() >= until || stop?.aborted || (await seesWork())) return;
    }
  };
}

// Of each topic it reads one marker, and of each lane with exceptions that have a time the last one that is due.
const GLANCE = `
  with recursive troubled as (
    (select lane from exceptions where due_at is not null order by lane limit 1)
    union all
    select (
      select lane from exceptions where due_at is not null and lane > troubled.lane order by lane limit 1
    ) from troubled where lane is not null
  )
  select exists (
      select from catalog_topics, lateral (
        select from awaiting
        where awaiting.topic = catalog_topics.topic
          and created_at >= coalesce(($1::text::jsonb ->> catalog_topics.topic)::timestamptz, '-infinity') limit 1
      ) as marker
    ) as awaits, (
      select extract(epoch from max((
        select due_at from exceptions
        where exceptions.lane = troubled.lane and due_at <= now() order by due_at desc limit 1
      )))::float8 * 1000 from troubled
    ) as due`;
