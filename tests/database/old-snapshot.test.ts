import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { examine } from '../../lib/console/doctor/read.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { oldSnapshotOf } from '../../lib/console/overview/old-snapshot.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { OLDEST_SNAPSHOT } from '../../lib/console/overview/snapshot.ts';
import type * as snapshots from '../../lib/console/overview/snapshot.ts';
import { test } from '../support/bus-test.ts';
import { drain, emitPayments, openTransaction, payment, rows, storeBacklog } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { createRole } from '../support/roles.ts';

// Those of these tests are old at once, and no other.
vi.mock('../../lib/console/overview/snapshot.ts', async (original) => ({
  ...(await original<typeof snapshots>()),
  isOld: ({ name }: snapshots.FoundSnapshot) => name === 'nightly report',
}));

const ONE_SUBSCRIBER = 'booking.waitlist.offered' satisfies TopicName;

/** Opens a transaction whose snapshot is taken, with one that has begun since. */
async function holdSnapshot(bus: Bus): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: bus.url, application_name: 'nightly report' });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('begin isolation level repeatable read');
  await client.query('select count(*) from events');
  await emitPayments(bus.db, 1, 1);
  return client;
}

/** Other files of the run use the same server: what has begun there first is older for as long as it takes. */
const PATIENT = { timeout: 30_000 };

describe('a transaction that holds the oldest snapshot', () => {
  test('is shown by the overview, the doctor and the metrics until it ends', async ({ bus }) => {
    const client = await holdSnapshot(bus);
    const shown = async () => (await readOverview(bus.db, [])).oldestSnapshot;
    await expect.poll(shown, PATIENT).toMatchObject({
      heldBy: 'session',
      name: 'nightly report',
      role: 'postgres',
      pid: (client as unknown as { processID: number }).processID,
      state: 'idle in transaction',
      since: expect.stringMatching(/Z$/),
      seconds: expect.any(Number),
      text: expect.stringMatching(
        /^nightly report of the role postgres \(process \d+, idle in transaction\) has held a snapshot for \d+ s\. .+ If nobody needs it, end it: select pg_terminate_backend\(\d+\)\.$/,
      ),
    });
    const { settings, findings } = await examine(bus.db, 10);
    expect(findings).toEqual([]);
    expect(settings).toEqual([expect.stringMatching(/^nightly report of the role postgres /)]);
    const metrics = await readMetrics(bus.db, []);
    expect(Number(/^postbud_oldest_snapshot_age_seconds (.+)$/m.exec(metrics)![1])).toBeGreaterThan(0);
    await client.query('commit');
    expect(await shown()).toBeNull();
    expect((await examine(bus.db, 10)).settings).toEqual([]);
  });

  test('is named with its role and process to a role that may not see its age', async ({ bus }) => {
    await holdSnapshot(bus);
    const role = await createRole(bus.url, 'watcher');
    onTestFinished(role.drop);
    const watcher = new pg.Client(role.url);
    await watcher.connect();
    const found = async () => (await watcher.query(`select (${OLDEST_SNAPSHOT}) as found`)).rows[0].found;
    await expect.poll(found, PATIENT).toMatchObject({ name: 'nightly report' });
    expect(oldSnapshotOf(await found())).toMatchObject({
      role: 'postgres',
      since: null,
      seconds: null,
      text: expect.stringContaining('(its age is not known: only members of pg_read_all_stats see it)'),
    });
    await watcher.end();
  });
});

describe('a prepared transaction that nobody ended', () => {
  test('is named with the statements that end it', async ({ bus }) => {
    const { client, emit } = await openTransaction(bus.url);
    await emit('payment.captured', payment(1));
    await client.query("prepare transaction 'nightly report'");
    await client.end();
    onTestFinished(
      async () => void (await rows(bus.db, "rollback prepared 'nightly report'").catch(() => [])),
    );
    await rows(bus.db, 'select pg_current_xact_id()');
    const shown = async () => (await readOverview(bus.db, [])).oldestSnapshot;
    await expect.poll(shown, PATIENT).toMatchObject({
      heldBy: 'prepared_transaction',
      pid: null,
      seconds: expect.any(Number),
      text: expect.stringContaining(
        "End it: rollback prepared 'nightly report' or commit prepared 'nightly report'.",
      ),
    });
    await rows(bus.db, "rollback prepared 'nightly report'");
    expect(await shown()).toBeNull();
  });
});

describe('beside an old snapshot', () => {
  // Once the table is analysed, planning a release of a lane, which is done each time, reads the ends of the index. On a busy
  // machine autovacuum analyses it before the test that counts its blocks.
  test.beforeAll(async ({ database }) => {
    await rows(database.db, 'alter table lanes set (autovacuum_enabled = off)');
  });

  test('a turn reads none of the events that were fanned out, however many topics there are', async ({
    bus,
    ledger,
  }) => {
    await holdSnapshot(bus);
    // With many topics the planner prefers the index that has all of one topic before what is new.
    await rows(
      bus.db,
      `insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, payload_bytes, subscribers)
       select 'topic ' || number % 500, now(), number, gen_random_uuid(), '', 1, 1, '{}' from generate_series(1, 5000) as number`,
    );
    await rows(bus.db, 'analyze awaiting_fan_out');
    await rows(bus.db, `delete from awaiting_fan_out where topic like 'topic %'`);
    await storeBacklog(bus.db, 'payment.captured', 20_000);
    await drain(bus.db, [ledger()]);
    const client = await connectTo(bus);
    const fanOutOne = turnsOf(bus, client);
    expect(await fanOutOne()).toBe(1);
    const blocks = await blocksRead(client, 'awaiting_fan_out', async () => {
      for (let event = 0; event < 20; event += 1) expect(await fanOutOne()).toBe(1);
    });
    expect(blocks).toBeLessThan(20 * 50);
  });

  test('a turn that changes a lane reads none of its dead versions, and no tidying does', async ({ bus }) => {
    await holdSnapshot(bus);
    const client = await connectTo(bus);
    await client.query('set enable_seqscan = off');
    const claimOne = turnsOf(bus, client, `${ONE_SUBSCRIBER} ${catalog[ONE_SUBSCRIBER].subscribers[0]}`);
    await claimOne();
    const [lane] = await rows<{ id: string }>(
      bus.db,
      'select id from lanes where topic = $1 and lease_token is not null',
      [ONE_SUBSCRIBER],
    );
    const release = () =>
      client.query(
        `update lanes set lease_token = null, head = tail
         where ctid = (select ctid from lanes where id >= $1 and id <= $1 order by id desc limit 1)`,
        [lane!.id],
      );
    await release();
    await client.query(
      `do $$
       declare
         address tid := (select ctid from lanes where id = ${lane!.id});
       begin
         for event in 1..20000 loop
           update lanes set tail = tail where ctid = address returning ctid into address;
         end loop;
         -- Folded counters, of 40 seconds ago.
         insert into backlog (topic, subscriber, shard, pending, failing, dead_lettered)
         select 'topic ' || number, '', (extract(epoch from clock_timestamp())::bigint / 4 - 10) * 64, 0, 0, 0
         from generate_series(1, 20000) as number;
         delete from backlog where topic like 'topic %';
       end $$`,
    );
    // A page has the versions of some 70 turns: each new one is an entry in all indexes.
    const blocks = await blocksRead(client, 'lanes', async () => {
      for (let event = 0; event < 150; event += 1) {
        expect(await claimOne()).toBe(1);
        await release();
      }
    });
    expect(blocks / 150).toBeLessThan(20);
    const tidied = () =>
      client.query("select postbud_tidy_1(null, clock_timestamp() - interval '5 seconds')");
    for (const table of ['lanes', 'backlog'])
      expect(await blocksRead(client, table, tidied)).toBeLessThan(50);
  });
});

async function connectTo(bus: Bus): Promise<pg.Client> {
  const client = new pg.Client(bus.url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Turns that each fan out one event, and claim it for a subscription. @returns how many events each has fanned out. */
function turnsOf(bus: Bus, client: pg.Client, subscription = '') {
  let memory: object | null = null;
  return async () => {
    await storeBacklog(bus.db, ONE_SUBSCRIBER, 1);
    const { rows: found } = await client.query<{ answer: { memory: object | null; placed: number } }>(
      `select postbud_turn_4(null, null, null, null, null, null, null, null, $1, gen_random_uuid(), $2::text,
         case $2 when '' then '{}' else '{1}' end, case $2 when '' then '{}' else '{30000}' end,
         case $2 when '' then '{}' else '{f}' end, 1, 1, true, 10, false, null, null) as answer`,
      [memory, subscription],
    );
    memory = found[0]!.answer.memory ?? memory;
    return found[0]!.answer.placed;
  };
}

/** The blocks of a table and its indexes that are read meanwhile. */
async function blocksRead(client: pg.Client, table: string, run: () => Promise<unknown>): Promise<number> {
  const readSoFar = async () => {
    await client.query('select pg_stat_force_next_flush()');
    const { rows: found } = await client.query<{ blocks: number }>(
      `select (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int as blocks
       from pg_statio_user_tables where relname = $1`,
      [table],
    );
    return found[0]!.blocks;
  };
  const before = await readSoFar();
  await run();
  return (await readSoFar()) - before;
}
