import { expect } from 'vitest';

import { readEvent } from '../../lib/console/event/read.ts';
import { readEvents } from '../../lib/console/events/read.ts';
import { eventsQuery } from '../../lib/console/events/fields.ts';
import { readTimers, timersQuery } from '../../lib/console/timers/views.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { payloadOf, rows } from '../support/bus.ts';
import { explainAll, watch } from '../support/plans.ts';

const COMMON = 'booking.reminder.due';
const RARE = 'payment.captured';

/** Over thirty days, in no order; one in a hundred in one and the same second. Each has a key, which is its number. */
const STORE_A_MILLION = `
  insert into timers (id, topic, timer_key, due_at, payload, version, producer, ordering_key, correlation_id, set_at, refused_at)
  select (lpad(to_hex((extract(epoch from due_at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8'
      || substr(hash, 4, 15))::uuid,
    case when number % 100000 = 0 then '${RARE}' else '${COMMON}' end, 'key ' || number, due_at, $1::text::jsonb, 1,
    'bookings', '', '', now(), case when number % 50000 = 0 then now() end
  from (
    select number, md5(number::text) as hash, date_trunc('second', now()) + interval '1 day'
      + interval '2.6 seconds' * case when number % 100 = 1 then 0 else number::bigint * 7919 % 1000003 end as due_at
    from generate_series(1, 1000000) as number
  ) as timer`;

/** Ten for each of 51 rows: a row is read through an index of four levels, in one or two tables. All would be over 20,000. */
const FEW_BLOCKS = 510;

test(
  'timers are found among a million by their indexes, before the table was ever analysed and after',
  { timeout: 5 * MINUTE },
  async ({ bus }) => {
    await rows(bus.db, 'alter table timers set (autovacuum_enabled = off)');
    await rows(bus.db, STORE_A_MILLION, [JSON.stringify(payloadOf(COMMON))]);
    await explainAll(bus);
    const [found] = await rows<{ id: string; burst: string }>(
      bus.db,
      `select (select id::text from timers where timer_key = 'key 77') as id,
         (select left(id::text, 8) from timers where timer_key = 'key 101') as burst`,
    );
    const { id, burst } = found!;
    const list = async (db: Database, query: Readonly<Record<string, string>>) =>
      (await readTimers(db, timersQuery.parse(query))).items.length;
    const search = async (db: Database, q: string) =>
      (await readEvents(db, eventsQuery.parse({ q }))).items.length;
    const { nextCursor: behind } = await readTimers(bus.db, timersQuery.parse({ topic: COMMON }));
    const searches: readonly [words: string, count: number, find: (db: Database) => Promise<number>][] = [
      ['the list', 50, (db) => list(db, {})],
      ['its next page', 50, (db) => list(db, { cursor: behind! })],
      ['a topic with many', 50, (db) => list(db, { topic: COMMON })],
      ['their next page', 50, (db) => list(db, { topic: COMMON, cursor: behind! })],
      ['a topic with few', 10, (db) => list(db, { topic: RARE })],
      ['a topic with none', 0, (db) => list(db, { topic: 'payment.failed' })],
      ['a key', 1, (db) => list(db, { timerKey: 'key 4711' })],
      ['a key of a topic', 1, (db) => list(db, { timerKey: 'key 4711', topic: COMMON })],
      ['a key of another topic', 0, (db) => list(db, { timerKey: 'key 4711', topic: RARE })],
      ['an event, by its id', 1, (db) => search(db, id)],
      ['events, by the beginning of the ids of ten thousand', 50, (db) => search(db, burst)],
      ['an event, by its timer’s key', 1, (db) => search(db, 'key 4711')],
      [
        'why it has not happened',
        1,
        async (db) => (await readEvent(db, id, { attached: [] }))!.deliveries.length,
      ],
    ];
    for (const statistics of ['none', 'analysed']) {
      if (statistics === 'analysed') await rows(bus.db, 'analyze timers');
      const connection = await watch(bus.url);
      for (const [words, count, find] of searches) {
        connection.takeWork();
        expect([words, await find(connection.db)]).toEqual([words, count]);
        const work = [...connection.takeWork()].filter(([, { blocks }]) => blocks > FEW_BLOCKS);
        expect([statistics, words, work]).toEqual([statistics, words, []]);
      }
      await connection.close();
    }
  },
);
