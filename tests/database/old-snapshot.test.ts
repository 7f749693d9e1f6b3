import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';

import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { OLDEST_SNAPSHOT } from '../../lib/bus/doctor/snapshot.ts';
import type { FoundSnapshot } from '../../lib/bus/doctor/snapshot.ts';
import { examinationOf } from '../../lib/console/doctor/views.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { oldSnapshotWords } from '../../lib/console/overview/snapshot.ts';
import type * as snapshots from '../../lib/console/overview/snapshot.ts';
import { test } from '../support/bus-test.ts';
import { drain, emitPayments, openTransaction, payment, rows, storeBacklog } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { createRole } from '../support/roles.ts';

// Those of these tests are old at once, and no other.
vi.mock('../../lib/console/overview/snapshot.ts', async (original) => {
  const real = await original<typeof snapshots>();
  return {
    ...real,
    oldSnapshotWords: (found: FoundSnapshot | null) => {
      if (found?.name !== 'nightly report') return null;
      const seconds = found.seconds === null ? null : found.seconds + 3600;
      return real.oldSnapshotWords({ ...found, seconds, transactions: found.transactions + 1_000_000 });
    },
  };
});

const TOPIC = 'payment.captured' satisfies TopicName;

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
    const { processID } = client as unknown as { processID: number };
    const said =
      /^nightly report of the role postgres \(process (\d+), idle in transaction\) has held a snapshot for 1 h.*?\. .+ If nobody needs it, end it: select pg_terminate_backend\(\1\)\.$/;
    await expect.poll(shown, PATIENT).toMatch(said);
    expect(said.exec((await shown())!)![1]).toBe(String(processID));
    const examined = async () => examinationOf(await examine(bus.db, 10));
    const { settings, findings } = await examined();
    expect(findings).toEqual([]);
    expect(settings).toEqual([expect.stringMatching(/^nightly report of the role postgres /)]);
    const metrics = await readMetrics(bus.db, []);
    expect(Number(/^postbud_oldest_snapshot_age_seconds (.+)$/m.exec(metrics)![1])).toBeGreaterThan(0);
    await client.query('commit');
    expect(await shown()).toBeNull();
    expect((await examined()).settings).toEqual([]);
  });

  test('is named with its role and process to a role that may not see its age', async ({ bus }) => {
    await holdSnapshot(bus);
    const role = await createRole(bus.url, 'watcher');
    onTestFinished(role.drop);
    const watcher = new pg.Client(role.url);
    await watcher.connect();
    const found = async () => (await watcher.query(`select (${OLDEST_SNAPSHOT}) as found`)).rows[0].found;
    await expect.poll(found, PATIENT).toMatchObject({ name: 'nightly report' });
    expect(await found()).toMatchObject({ role: 'postgres', seconds: null });
    expect(oldSnapshotWords(await found())).toContain(
      '(its age is not known: only members of pg_read_all_stats see it)',
    );
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
    await expect
      .poll(shown, PATIENT)
      .toContain("End it: rollback prepared 'nightly report' or commit prepared 'nightly report'.");
    await rows(bus.db, "rollback prepared 'nightly report'");
    expect(await shown()).toBeNull();
  });
});

describe('beside an old snapshot', () => {
  test('a turn reads none of the markers of events that have their places, however many topics there are', async ({
    bus,
    ledger,
  }) => {
    await holdSnapshot(bus);
    // With many topics the planner prefers the index that has all of one topic before what is new.
    await rows(
      bus.db,
      `insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
       select 'topic ' || number % 500, now(), number, gen_random_uuid(), '', 1, 1, '{}' from generate_series(1, 5000) as number`,
    );
    await rows(bus.db, 'analyze awaiting');
    await rows(bus.db, `delete from awaiting where topic like 'topic %'`);
    await storeBacklog(bus.db, TOPIC, 20_000);
    await drain(bus.db, [ledger()]);
    const client = await connectTo(bus);
    const placeOne = turnsOf(bus, client);
    expect(await placeOne()).toBe(1);
    const read = await rowsRead(client, 'awaiting', async () => {
      for (let event = 0; event < 20; event += 1) expect(await placeOne()).toBe(1);
    });
    expect(read).toBeLessThan(20 * 10);
  });
});

async function connectTo(bus: Bus): Promise<pg.Client> {
  const client = new pg.Client(bus.url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Turns of one process that each place one event. @returns how many events each has placed. */
function turnsOf(bus: Bus, client: pg.Client) {
  let known: { readonly bounds: object; readonly server: string | null } = { bounds: {}, server: null };
  return async () => {
    await storeBacklog(bus.db, TOPIC, 1);
    const room = { lanes: 0, deliveries: 0, events: 10, server: known.server, looks: true, isWhole: false };
    const { rows: found } = await client.query<{ answer: typeof known & { placed: number } }>(
      `select postbud_turn_5(null, null, gen_random_uuid(), '{}', $1::jsonb, '', '{}', '{}', '{}', $2::jsonb, null, null) as answer`,
      [JSON.stringify(known.bounds), JSON.stringify({ ...room, isCareful: false, continued: [] })],
    );
    const { bounds, server, placed } = found[0]!.answer;
    known = { bounds: { ...known.bounds, ...bounds }, server };
    return placed;
  };
}

/** The rows and index entries of a table that are read meanwhile, dead ones too. */
async function rowsRead(client: pg.Client, table: string, run: () => Promise<unknown>): Promise<number> {
  const readSoFar = async () => {
    await client.query('select pg_stat_force_next_flush()');
    const { rows: found } = await client.query<{ count: number }>(
      `select (seq_tup_read + sum(idx_tup_read))::int as count
       from pg_stat_user_tables join pg_stat_user_indexes using (relid)
       where pg_stat_user_tables.relname = $1 group by relid, seq_tup_read`,
      [table],
    );
    return found[0]!.count;
  };
  const before = await readSoFar();
  await run();
  return (await readSoFar()) - before;
}
