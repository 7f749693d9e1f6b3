import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

import { readMigrationFiles } from 'drizzle-orm/migrator';
import pg from 'pg';
import { describe, expect, inject, onTestFinished } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, rows, START } from '../support/bus.ts';
import { createEmptyDatabase } from '../support/postgres.ts';
import { structureOf } from '../support/structure.ts';

/**
 * The rows that release 1.5 left in each table, as JSON: deliveries that are open, failing, halted, dead, dismissed, skipped,
 * replayed and backfilled, in lanes with and without keys; keys in trouble; a paused subscription; lanes whose relay died;
 * events that wait for fan-out; a timer; and what was set aside.
 */
const RELEASE_1 = new URL('../fixtures/release-1.json.gz', import.meta.url);

const MIGRATIONS = new URL('../../drizzle/migrations', import.meta.url);
const FUNCTIONS = new URL('../../drizzle/functions/', import.meta.url);

type Tables = Readonly<Record<string, readonly object[]>>;

/** When the last migration of release 1.5 was written, by Drizzle's journal. */
const LAST_OF_1 = 1_795_879_851_207;

/** Makes a database as release 1.5 left it. */
async function databaseOfRelease1(): Promise<{ readonly db: Database; readonly client: pg.Client }> {
  const url = await createEmptyDatabase(inject('postgresUrl'));
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('create schema drizzle');
  await client.query(
    'create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)',
  );
  await client.query('set check_function_bodies = off');
  for (const name of ['postbud_slot', 'postbud_require_transaction_1', 'refuse_change'])
    await client.query(readFileSync(new URL(`${name}.sql`, FUNCTIONS), 'utf8'));
  const all = readMigrationFiles({ migrationsFolder: fileURLToPath(MIGRATIONS) });
  for (const { sql, hash, folderMillis } of all.filter((one) => one.folderMillis <= LAST_OF_1)) {
    for (const statement of sql) await client.query(statement);
    await client.query('insert into drizzle.__drizzle_migrations (hash, created_at) values ($1, $2)', [
      hash,
      folderMillis,
    ]);
  }
  const tables = JSON.parse(gunzipSync(readFileSync(RELEASE_1)).toString()) as Tables;
  await client.query('set session_replication_role = replica');
  for (const [table, stored] of Object.entries(tables)) {
    const columns = Object.keys(stored[0]!)
      .filter((name) => !(table === 'events' && name === 'state'))
      .join();
    await client.query(
      `insert into ${table} (${columns}) overriding system value
       select ${columns} from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
      [JSON.stringify(stored)],
    );
  }
  await client.query(`select setval(pg_get_serial_sequence('events', 'seq'), max(seq)) from events`);
  await client.query('set session_replication_role = origin');
  const { db, close } = await connect(url);
  onTestFinished(close);
  return { db, client };
}

/** What each delivery had, and its order in its lane. */
const BEFORE = `
  create table before as
  select event_id, lanes.topic, lanes.subscriber, state::text, attempts, attempted_at, duration_ms, next_attempt_at, delivered_at,
    dead_lettered_at, dismissed_at, replayed_at, replays, backfilled, error_group, attempt_log, lane_id, deliveries.position, lane_key
  from deliveries join lanes on lanes.id = lane_id`;

const AFTER = 'create table after as select * from deliveries';

/** Those that differ now. */
const DIFFERENT = `
  select before.*, to_json(record) as now
  from before full join after as record using (event_id, subscriber)
  where (before.state, before.attempts, before.duration_ms, before.next_attempt_at, before.dead_lettered_at,
      before.dismissed_at, before.replayed_at, before.replays, before.backfilled, before.error_group, before.attempt_log)
    is distinct from (record.state::text, record.attempts, record.duration_ms, record.next_attempt_at, record.dead_lettered_at,
      record.dismissed_at, record.replayed_at, record.replays, record.backfilled, record.error_group, record.attempt_log)
    -- The journal has whole milliseconds.
    or abs(extract(epoch from before.delivered_at - record.delivered_at)) > 0.001
    or abs(extract(epoch from before.attempted_at - record.attempted_at)) > 0.002
    or (before.delivered_at is null) <> (record.delivered_at is null)
  limit 3`;

const TOTALS_BEFORE = `
  select topic, subscriber, sum(failing)::int as failing, sum(dead_lettered)::int as dead_lettered, sum(delivered_total)::int as delivered_total,
    sum(failed_total)::int as failed_total, sum(dead_lettered_total)::int as dead_lettered_total
  from backlog where subscriber <> '' group by 1, 2 order by 1, 2`;
const TOTALS_AFTER = `
  select topic, subscriber, failing::int, dead_lettered::int, delivered_total::int, failed_total::int, dead_lettered_total::int
  from subscription_counts order by 1, 2`;

/** Pairs of the same lane, or of the same key of a lane, whose order has changed. */
const REORDERED = `
  select before.event_id, later.event_id from before
    join after as record using (event_id, subscriber)
    join before as later on later.lane_id = before.lane_id and later.position > before.position
      and later.lane_key is not distinct from before.lane_key
    join after as later_record on later_record.event_id = later.event_id and later_record.subscriber = later.subscriber
  where record.lane <> later_record.lane or record.position >= later_record.position limit 3`;

test('a database of release 1.5 becomes what a new one is', async ({ bus }) => {
  const { db } = await databaseOfRelease1();
  await migrate(db);
  expect(await structureOf(db)).toEqual(await structureOf(bus.db));
});

test('each delivery has the state, the attempts, the times and the order that it had', async () => {
  const { db } = await databaseOfRelease1();
  await rows(db, BEFORE);
  const totals = await rows(db, TOTALS_BEFORE);
  await migrate(db);
  expect(await contradictions(db)).toEqual([]);
  expect(await rows(db, TOTALS_AFTER)).toEqual(totals);
  const states = await rows<{ state: string }>(
    db,
    'select distinct state || case when dismissed_at is null then $1 else $2 end as state from before order by 1',
    ['', ' and dismissed'],
  );
  expect(states.map(({ state }) => state)).toEqual([
    'dead_lettered',
    'dead_lettered and dismissed',
    'delivered',
    'failing',
    'pending',
  ]);
  await rows(db, AFTER);
  expect(await rows(db, DIFFERENT)).toEqual([]);
  expect(await rows(db, REORDERED)).toEqual([]);
});

test('ten thousand keys are taken over as one is', async () => {
  const { db } = await databaseOfRelease1();
  await rows(db, MORE_KEYS);
  await rows(db, BEFORE);
  await migrate(db);
  expect(await contradictions(db)).toEqual([]);
  expect(await rows(db, 'select count(distinct ordering_key)::int as keys from log')).toEqual([
    { keys: expect.closeTo(10_300, -2) as number },
  ]);
  await rows(db, AFTER);
  expect(await rows(db, DIFFERENT)).toEqual([]);
});

/** Events of ten thousand more keys, delivered to one subscriber and waiting for the others. */
const MORE_KEYS = `
  with pattern as (
    select events.*, deliveries.lane_key as key_was from events join deliveries on event_id = id
      join lanes on lanes.id = lane_id where lane_key is not null and subscriber = 'ledger' order by id limit 1
  ),
  event as (
    insert into events (id, topic, payload, version, created_at, ordering_key, producer, correlation_id, subscribers, open)
    select gen_random_uuid(), topic, payload, version, created_at + number * interval '1 ms', 'more ' || number, producer, correlation_id,
      subscribers, open
    from pattern, generate_series(1, 10000) as number
    returning *
  )
  insert into deliveries (lane_id, position, event_id, lane_key, payload_bytes, state, attempts, attempted_at, duration_ms, delivered_at)
  select home_lanes.lane_id, 1000000 + row_number() over (order by created_at), id, ordering_key, 100,
    case when subscriber = 'ledger' then 'delivered' else 'pending' end::delivery_state, (subscriber = 'ledger')::int,
    case when subscriber = 'ledger' then now() end, case when subscriber = 'ledger' then 3 end, case when subscriber = 'ledger' then now() + interval '3 ms' end
  from event join home_lanes on home_lanes.topic = event.topic and home_lanes.slot = postbud_slot(ordering_key)
    and subscriber = any (subscribers)
  order by created_at`;

describe('what was open', () => {
  test('is delivered in order, and nothing twice', async () => {
    const { db } = await databaseOfRelease1();
    const open = await rows<{ count: number }>(
      db,
      `select count(*)::int from deliveries where state in ('pending', 'failing')`,
    );
    await rows(
      db,
      'create table waiting as select event_id from awaiting_fan_out union all select id from timers',
    );
    const halted = await rows<{ count: number }>(
      db,
      `select count(*)::int from halts join deliveries using (lane_id, position) where dead_lettered_at is not null`,
    );
    await rows(db, BEFORE);
    await migrate(db);
    await rows(db, 'delete from pauses');
    const handed: { readonly order: string; readonly seq: number }[] = [];
    const names = [
      ...new Set([...catalog['payment.captured'].subscribers, ...catalog['payment.failed'].subscribers]),
    ];
    const subscribers: AttachedSubscriber[] = names.map((name) =>
      attach(
        name,
        Object.fromEntries(
          (['payment.captured', 'payment.failed'] as const)
            .filter((topic) => (catalog[topic].subscribers as readonly string[]).includes(name))
            .map((topic) => [
              topic,
              ({ orderingKey, seq }: BusEvent) =>
                void handed.push({ order: `${name} ${topic} ${orderingKey}`, seq }),
            ]),
        ),
      ),
    );
    for (const later of [HOUR, DAY, 2 * DAY, 3 * DAY]) await drain(db, subscribers, { now: START + later });
    const left = await rows<{ count: number }>(
      db,
      `select count(*)::int from deliveries where state in ('pending', 'failing')`,
    );
    const waited = await rows<{ count: number }>(
      db,
      'select sum(cardinality(subscribers))::int as count from events join waiting on event_id = id',
    );
    expect(left[0]!.count).toBeGreaterThan(0);
    expect(halted[0]!.count).toBe(2);
    expect(handed).toHaveLength(open[0]!.count + waited[0]!.count - left[0]!.count);
    for (const order of new Set(handed.map((one) => one.order))) {
      const seqs = handed.filter((one) => one.order === order).map(({ seq }) => seq);
      expect(seqs).toEqual(seqs.toSorted((one, other) => one - other));
    }
    expect(await contradictions(db)).toEqual([]);
  });
});

test('a database of a release before 1.0 is refused with the way to go, and nothing has changed', async () => {
  const { db, client } = await databaseOfRelease1();
  await client.query('update drizzle.__drizzle_migrations set created_at = created_at - 100000000000');
  await expect(migrate(db)).rejects.toThrow('run npm run migrate of release 1.1 there first');
  expect(
    await rows(db, 'select count(*)::int as tables from pg_class where relname = $1', ['home_lanes']),
  ).toEqual([{ tables: 1 }]);
});
