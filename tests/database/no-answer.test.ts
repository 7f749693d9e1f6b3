import { describe, expect, inject, onTestFinished, vi } from 'vitest';

import { pauses } from '../../drizzle/schema.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { Deadlines } from '../../lib/platform/db/deadlines.ts';
import { driverOf, limitStatements, run, TURN_LIMIT_MS } from '../../lib/platform/db/statement.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { drain, emitPayments, gate } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { countFlights } from '../support/flights.ts';
import type { FlightCounter } from '../support/flights.ts';
import { connectWithNeon } from '../support/neon-tunnel.ts';
import { test } from '../support/output-test.ts';
import { createDatabase } from '../support/postgres.ts';

const drivers = {
  pg: async (url: string, proxy: FlightCounter) => await connect(proxy.urlOf(url)),
  'Neon’s driver': async (url: string, proxy: FlightCounter) => await connectWithNeon(url, proxy.urlOf(url)),
};

describe.for(Object.entries(drivers))('a connection of %s that no longer answers', ([, open]) => {
  const start = async () => {
    const url = await createDatabase(inject('postgresUrl'));
    const proxy = await countFlights(url);
    const connection: Connection = await open(url, proxy);
    onTestFinished(async () => {
      await connection.close();
      await proxy.close();
    });
    return { ...connection, proxy };
  };
  /** Has the deadlines pass without waiting for them. @param asked calls `silence`, and then sends a statement. */
  const overdue = async (proxy: FlightCounter, asked: (silence: () => void) => Promise<unknown>) => {
    const silenced = gate();
    const deadlines = vi.spyOn(Deadlines.prototype, 'set');
    onTestFinished(() => deadlines.mockRestore());
    const answer = asked(() => {
      proxy.silence();
      deadlines.mockClear();
      silenced.open();
    }).then(
      () => 'answered',
      (error: unknown) => error,
    );
    await silenced.opened;
    // The limit has two parts, and the second is set when the first is over.
    let limitMs = 0;
    for (let part = 0; part < 2; part += 1) {
      await expect.poll(() => deadlines.mock.calls.length).toBe(part + 1);
      const [ms, pass] = deadlines.mock.lastCall!;
      limitMs += ms;
      pass();
    }
    return { limitMs, error: await answer };
  };
  const nothing = {
    outcomes: [],
    continued: [],
    behind: null,
    topics: [],
    subscriptions: new Map(),
    maxLanes: 1,
    share: null,
    maxDeliveries: 1,
    maxEvents: 1,
    isLooking: true,
    awaited: [],
    clockMs: 0,
    now: null,
  };
  const select = { text: 'select 1 as one', values: [] };

  test('fails a turn after 15 seconds, and the next turn has another connection', async () => {
    const { db, proxy } = await start();
    await takeTurn(db, nothing);
    const silent = await overdue(proxy, (silence) => {
      silence();
      return takeTurn(db, nothing);
    });
    expect(silent).toMatchObject({
      limitMs: TURN_LIMIT_MS,
      error: { code: 'no_answer', message: 'the database had not answered after 15 s' },
    });
    expect(await takeTurn(db, nothing)).toMatchObject({ placed: 0 });
  });

  test.for([
    ['five minutes', 5 * MINUTE, async () => undefined],
    ['five seconds more than its statements may take', 25 * SECOND, (tx) => limitStatements(tx, 20 * SECOND)],
  ] as [string, number, (tx: Parameters<typeof limitStatements>[0]) => Promise<void>][])(
    'fails a transaction after %s',
    async ([, limitMs, limit]) => {
      const { db, proxy } = await start();
      const act = (then: () => void) =>
        db.transaction(async (tx) => {
          await limit(tx);
          await run(tx, select);
          then();
          await run(tx, select);
        });
      await act(() => undefined);
      expect(await overdue(proxy, act)).toMatchObject({ limitMs, error: { code: 'no_answer' } });
      await act(() => undefined);
    },
  );

  test.for([
    ['a statement', (db: Database) => run(driverOf(db), select)],
    ['a statement of Drizzle’s builder', (db: Database) => db.select().from(pauses)],
  ] as const)('fails %s that runs alone after five minutes', async ([, send]) => {
    const { db, proxy } = await start();
    await send(db);
    const silent = await overdue(proxy, async (silence) => {
      silence();
      await send(db);
    });
    expect(silent).toMatchObject({ limitMs: 5 * MINUTE, error: { code: 'no_answer' } });
    expect(await run(driverOf(db), select)).toEqual([{ one: 1 }]);
  });

  test('ends with the time limit of the handler that has it', async () => {
    const { db, proxy } = await start();
    await emitPayments(db, 1, 2);
    let calls = 0;
    const ledger = subscriber(
      'ledger',
      {
        'payment.captured': async (_, { tx }) => {
          calls += 1;
          await run(tx, select);
          if (calls === 1) proxy.silence();
          await run(tx, select);
        },
      },
      { transactional: true, timeoutMs: 300, sharesCommits: false },
    );
    expect(await drain(db, [ledger])).toMatchObject({ failed: 1, delivered: 0 });
    expect(await deliveriesOf(db, 'ledger')).toMatchObject([
      { log: [{ kind: 'timeout' }] },
      { state: 'pending' },
    ]);
    expect(await drain(db, [ledger], { now: Date.now() + 10 * MINUTE })).toBeDefined();
  });
});
