import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';

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

test('a turn beside an old snapshot reads none of the events that were fanned out, however many topics there are', async ({
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
  const client = new pg.Client(bus.url);
  await client.connect();
  onTestFinished(() => client.end());
  let memory: object | null = null;
  const fanOutOne = async () => {
    await emitPayments(bus.db, 1, 1);
    const { rows: found } = await client.query<{ answer: { memory: object | null; fannedOut: number } }>(
      `select postbud_turn_4(null, null, null, null, null, null, null, null, $1, gen_random_uuid(), '', '{}', '{}', '{}',
         1, 1, true, 10, false, null, null) as answer`,
      [memory],
    );
    memory = found[0]!.answer.memory ?? memory;
    return found[0]!.answer.fannedOut;
  };
  const blocksRead = async () => {
    await client.query('select pg_stat_force_next_flush()');
    const { rows: found } = await client.query<{ blocks: number }>(
      `select sum(idx_blks_hit + idx_blks_read)::int as blocks from pg_statio_user_indexes
       where relname = 'awaiting_fan_out'`,
    );
    return found[0]!.blocks;
  };
  expect(await fanOutOne()).toBe(1);
  const before = await blocksRead();
  for (let event = 0; event < 20; event += 1) expect(await fanOutOne()).toBe(1);
  expect((await blocksRead()) - before).toBeLessThan(20 * 50);
});
