import { describe, expect } from 'vitest';

import { relay } from '../../lib/bus/relay/relay.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { replayRequest } from '../../lib/console/kit/replay-request.ts';
import { previewReplay } from '../../lib/console/replays/preview.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, emitAlone, emitPayments, payloadOf, rows, storeBacklog } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { HOUR } from '../../lib/platform/time.ts';
import { countDeliveries } from '../support/records.ts';
import { expireLeases, holdLanes } from '../support/scenes.ts';
import { explainAll, watch } from '../support/plans.ts';
import type { WatchedConnection, Work } from '../support/plans.ts';

test.beforeAll(async ({ database: bus }) => {
  await explainAll(bus);
  // Statistics would have the statements planned anew. Production has them at some time, and not before.
  for (const table of ['events', 'awaiting', 'log', 'lanes', 'journal', 'exceptions'])
    await rows(bus.db, `alter table ${table} set (autovacuum_enabled = false)`);
});

const handlers = { 'payment.captured': () => undefined };
/** Of one key each first wants time, so that it becomes an exception again and again. */
const asked = new Set<string>();
const patient = ({ id, orderingKey }: BusEvent) => {
  if (orderingKey !== 'key 7' || asked.has(id)) return;
  asked.add(id);
  throw new RetryAfter(0);
};
const subscribers = [
  ...(['bookings', 'notifications'] as const).map((name) => subscriber(name, handlers)),
  subscriber('ledger', { 'payment.captured': patient }),
  subscriber('accounting', handlers, { transactional: true }),
];
const drain = ({ db }: WatchedConnection) => relay({ db, subscribers, until: Date.now() + 45_000 });

/** More runs than a statement is planned anew for. */
const ROUNDS = 12;

async function singles(connection: WatchedConnection, rounds: number): Promise<void> {
  for (let round = 1; round <= rounds; round += 1) {
    await emitPayments(connection.db, round, round);
    await emitPayments(connection.db, round, round, { orderingKey: 'key 7' });
    await drain(connection);
  }
}

async function burst(connection: WatchedConnection): Promise<void> {
  await storeBacklog(connection.db, 'payment.captured', 1500, 20);
  await drain(connection);
  expect(await countDeliveries(connection.db, `topic = 'payment.captured' and state <> 'delivered'`)).toBe(0);
}

/** What two connections handle when they do the same, by statement. */
async function workOf(
  bus: Bus,
  used: WatchedConnection,
  doing: (connection: WatchedConnection) => Promise<void>,
): Promise<Map<string, readonly [used: Work, fresh: Work | undefined]>> {
  used.takeWork();
  await doing(used);
  const ofUsed = used.takeWork();
  const fresh = await watch(bus.url);
  await doing(fresh);
  const ofFresh = fresh.takeWork();
  await fresh.close();
  return new Map([...ofUsed].map(([name, work]) => [name, [work, ofFresh.get(name)]]));
}

/** Batches are not cut alike in both, and a plan for all sizes may read a little more. */
const AS_MUCH = 3;
/** Of single events: what costs the same whatever it finds. */
const LITTLE = 300;

/** What runs by the clock, and so more often in one of them; and what this file counts. */
const NOT_COMPARED = /subscriber_health|unnest\(one, other\)|^select count/;

/** A busy machine takes more and smaller turns: more calls may handle more, each of them not. */
function expectAsMuch(name: string, work: Work, other: Work | undefined): void {
  // What only one of them ran: for lanes that were new, or that another loop had just then.
  if (NOT_COMPARED.test(name) || !other) return;
  const most = AS_MUCH * other.rows * Math.max(1, work.calls / other.calls) + LITTLE;
  expect([name, work, other, work.rows <= most]).toEqual([name, work, other, true]);
}

describe('a statement of the bus', () => {
  test.for([
    [
      'single events on empty tables',
      'a burst',
      (connection: WatchedConnection) => singles(connection, ROUNDS),
      burst,
    ],
    [
      'bursts on full tables',
      'single events',
      async (connection: WatchedConnection) => {
        for (let round = 0; round < 3; round += 1) await burst(connection);
      },
      (connection: WatchedConnection) => singles(connection, 3),
    ],
    [
      'single events on tables that were empty',
      'single events on full ones',
      (connection: WatchedConnection) => singles(connection, ROUNDS),
      async (connection: WatchedConnection) => {
        await singles(connection, 3);
      },
    ],
  ] as const)(
    'that was planned for %s reads no more rows for %s than a newly planned one',
    async ([, , before, then], { bus }) => {
      await bus.reset();
      const used = await watch(bus.url);
      await before(used);
      if (then !== burst) await burst(used);
      const work = await workOf(bus, used, then);
      await used.close();
      for (const part of [
        'delete from awaiting',
        'from unnest(names, waits)',
        'with free as materialized',
        'with outcome as materialized',
        'with attempt as materialized',
        'update exceptions set due_at',
      ])
        expect([...work.keys()]).toContainEqual(expect.stringContaining(part));
      for (const [name, [ofUsed, ofFresh]] of work) expectAsMuch(name, ofUsed, ofFresh);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('reads no more rows where statistics were taken before the rows were committed', async ({ bus }) => {
    await bus.reset();
    const connection = await watch(bus.url);
    // Very many exceptions, of a lane that nobody asks for.
    await storeBacklog(bus.db, 'payment.failed', 2000, 2000);
    const waiting = subscriber('audit', { 'payment.failed': () => Promise.reject(new RetryAfter(HOUR)) });
    await relay({ db: bus.db, subscribers: [waiting], until: Date.now() + 45_000 });
    await burst(connection);
    await rows(bus.db, 'analyze');
    const doing = async (one: WatchedConnection) => {
      await singles(one, 3);
      await burst(one);
    };
    connection.takeWork();
    await doing(connection);
    const informed = connection.takeWork();
    await connection.close();
    await rows(
      bus.db,
      `update pg_class set reltuples = 0 where oid = any ('{events,awaiting,log,journal,exceptions}'::regclass[])`,
    );
    const misled = await watch(bus.url);
    await doing(misled);
    const work = misled.takeWork();
    await misled.close();
    await rows(bus.db, 'analyze');
    expect([...work.keys()]).toContainEqual(expect.stringContaining('with attempt as materialized'));
    for (const [name, ofMisled] of work) expectAsMuch(name, ofMisled, informed.get(name));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('that was planned for single events finds what a dead relay had begun without reading its lane', async ({
    bus,
  }) => {
    await bus.reset();
    const used = await watch(bus.url);
    await singles(used, ROUNDS);
    await storeBacklog(bus.db, 'payment.captured', 5000);
    await relay({ db: bus.db, subscribers: [], until: Date.now() + 45_000 });
    const [bookings] = subscribers;
    await holdLanes(bus.db, { subscriber: 'bookings', until: new Date('2100-01-01') });
    await expireLeases(bus.db);
    used.takeWork();
    const { failed } = await relay({ db: used.db, subscribers: [bookings!], until: Date.now() + 45_000 });
    expect(failed).toBe(1);
    const claims = [...used.takeWork()].filter(([name]) => name.includes('with free as materialized'));
    expect(claims).toHaveLength(1);
    expect(claims[0]![1].rows).toBeLessThan(2500);
    await used.close();
  });
});

test('a replay over topics and its preview find the dead letters that match by their groups, and scan no others', async ({
  bus,
}) => {
  await storeBacklog(bus.db, 'payment.captured', 4000);
  const refuseAll = () => {
    throw new PermanentError('the booking is unknown');
  };
  const others = [subscriber('bookings', { 'payment.captured': refuseAll })];
  await relay({ db: bus.db, subscribers: others, until: Date.now() + 45_000 });
  for (const topic of ['payment.refunded', 'payment.deposit.held'] as const)
    for (let left = 15; left > 0; left -= 1) await emitAlone(bus.db, topic, payloadOf(topic));
  const refuse = () => {
    throw new PermanentError('the period is closed');
  };
  const refusing = subscriber('ledger', { 'payment.refunded': refuse, 'payment.deposit.held': refuse });
  await relay({ db: bus.db, subscribers: [refusing], until: Date.now() + 45_000 });
  await rows(bus.db, 'analyze');
  const connection = await watch(bus.url);
  const request = replayRequest.parse({ q: 'closed', since: '24h' });
  expect((await previewReplay(connection.db, [], request)).matched).toBe(30);
  expect(await replay(connection.db, request, 'kari')).toMatchObject({ matched: 30, replayed: 30 });
  const work = [...connection.takeWork().values()];
  await connection.close();
  expect(work.flatMap(({ scanned }) => scanned)).not.toContain('exceptions');
  await rows(bus.db, 'truncate replays');
});
