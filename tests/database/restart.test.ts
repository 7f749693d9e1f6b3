import { expect } from 'vitest';

import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../lib/bus/deliveries/turn.ts';
import { keepRelaying } from '../../lib/bus/relay/keep-relaying.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import {
  contradictions,
  emitPayments,
  idsInOrder,
  numbers,
  payloadOf,
  rows,
  settle,
  emitAlone,
} from '../support/bus.ts';
import { deliveriesOf, RECORDS, leasedLanes } from '../support/records.ts';
import { outcomeOf } from '../support/lane.ts';
import { holdLanes } from '../support/scenes.ts';
import { ledger } from '../support/ledger.ts';
import { test as base } from '../support/output-test.ts';
import { createDatabase, startPostgres } from '../support/postgres.ts';

const test = base.extend('server', { scope: 'file' }, async ({}, { onCleanup }) => {
  const server = await startPostgres();
  onCleanup(() => server.stop());
  return server;
});

const KEYS = ['', 'key 1', 'key 2', 'key 3'];
const TOPICS = ['payment.captured', 'payment.failed', 'booking.created'] as const;

/** What the handlers of all subscribers were handed, and which attempts have returned. */
class Handed {
  readonly begun: { readonly to: string; readonly event: BusEvent }[] = [];
  readonly returned = new Set<string>();

  async by(
    name: string,
    events: readonly BusEvent[],
    attempts: readonly number[],
    work: () => Promise<unknown>,
  ) {
    const names = events.map(({ id }, index) => `${name} ${id} ${attempts[index]}`);
    for (const event of events) this.begun.push({ to: `${name} ${event.topic} ${event.orderingKey}`, event });
    // Of what was rolled back, the attempt begins anew.
    for (const one of names) this.returned.delete(one);
    await work();
    for (const one of names) this.returned.add(one);
  }

  /** The ids of the events that a lane was handed, each once. */
  inOrder(lane: string): string[] {
    return [...new Set(this.begun.filter(({ to }) => to === lane).map(({ event }) => event.id))];
  }
}

/** A subscriber of each kind. Most handlers take longer than the server needs to go away. */
function attach(handed: Handed) {
  const plain =
    (name: string, ms: number) =>
    async (event: BusEvent, { attempt }: { attempt: number }) =>
      await handed.by(name, [event], [attempt], () => sleep(ms));
  return [
    subscriber('bookings', {
      'payment.captured': plain('bookings', 400),
      'payment.failed': plain('bookings', 20),
    }),
    subscriber('audit', { 'payment.failed': plain('audit', 0), 'booking.created': plain('audit', 1500) }),
    subscriber(
      'ledger',
      {
        'payment.captured': async (event, { tx, attempt }) =>
          await handed.by('ledger', [event], [attempt], async () => {
            await run(tx, { text: "insert into effects values ('ledger', $1::uuid)", values: [event.id] });
            await sleep(30);
          }),
      },
      { transactional: true },
    ),
    subscriber(
      'notifications',
      {
        'payment.captured': async (events, { deliveries }) =>
          await handed.by(
            'notifications',
            events,
            deliveries.map(({ attempt }) => attempt),
            () => sleep(300),
          ),
      },
      { batch: true },
    ),
    subscriber(
      'accounting',
      {
        'payment.captured': async (events, { tx, deliveries }) =>
          await handed.by(
            'accounting',
            events,
            deliveries.map(({ attempt }) => attempt),
            async () => {
              for (const { id } of events)
                await run(tx, { text: "insert into effects values ('accounting', $1::uuid)", values: [id] });
              await sleep(300);
            },
          ),
      },
      { transactional: true, batch: true },
    ),
  ];
}

test.for(['immediate', 'fast'] as const)(
  'a restart (%s) of the database silences no lane, charges no attempt that had returned, and keeps the order',
  async (mode, { server, output }) => {
    const { db, close } = await connect(await createDatabase(server.url));
    await rows(db, 'create table effects (by text not null, event_id uuid not null)');
    const handed = new Handed();
    const attached = attach(handed);
    const emitAll = async (rounds: number) => {
      for (let round = 0; round < rounds; round += 1)
        for (const topic of TOPICS)
          for (const orderingKey of KEYS) await emitAlone(db, topic, payloadOf(topic), { orderingKey });
    };
    await emitAll(6);
    const stop = new AbortController();
    const relaying = keepRelaying({ db, subscribers: attached, until: Infinity, signal: stop.signal });
    await expect.poll(() => handed.returned.size).toBeGreaterThan(20);
    await server.restart(mode, 2600);
    await expect.poll(() => rows(db, 'select 1').catch(() => [])).toHaveLength(1);
    await emitAll(1);
    // Behind a delivery that fails the others wait for its retry.
    await expect.poll(() => rows(db, STANDING, [attached.map(({ name }) => name)])).toEqual([]);
    await expect.poll(() => leasedLanes(db)).toEqual([]);
    stop.abort();
    await relaying;

    // A handler may have been in the middle of a statement.
    const charged = (await deliveriesOf(db)).flatMap(({ subscriber: name, eventId, log }) =>
      (log ?? []).map(({ attempt, kind }) => ({ attempt: `${name} ${eventId} ${attempt}`, kind })),
    );
    expect(
      charged.filter(({ attempt, kind }) => kind === 'lease_expired' || handed.returned.has(attempt)),
    ).toEqual([]);
    for (const lane of new Set(handed.begun.map(({ to }) => to))) {
      const [name, topic, ...key] = lane.split(' ') as [string, (typeof TOPICS)[number], ...string[]];
      const ids = handed.inOrder(lane);
      expect(ids, name).toEqual((await idsInOrder(db, topic, key.join(' '))).slice(0, ids.length));
    }
    expect(await rows(db, 'select by, event_id from effects group by 1, 2 having count(*) > 1')).toEqual([]);
    expect(await contradictions(db)).toEqual([]);
    expect(output.linesOf('the relay stopped; it tries again in a few seconds').length).toBeLessThan(2);
    await close();
  },
);

/** For so long from now on, what does not wait for the disk is lost in a crash. */
async function delayWriting(db: Database): Promise<void> {
  await rows(db, `alter system set wal_writer_delay = '10s'`);
  await rows(db, 'select pg_reload_conf()');
}

test('a crash right after a relay has claimed the lane of a dead one does not leave it to that', async ({
  server,
}) => {
  const { db, close } = await connect(await createDatabase(server.url));
  const handed: number[] = [];
  const attached = [ledger((number) => handed.push(number))];
  const turn = async (subscribers: readonly AttachedSubscriber[]) =>
    await takeTurn(db, { ...TURN, subscriptions: subscriptionsOf(subscribers) });
  await emitPayments(db, 1, 1);
  await turn([subscriber('audit', {})]);
  await holdLanes(db, { subscriber: 'ledger', until: new Date(Date.now() - MINUTE) });
  await emitPayments(db, 2, 2);
  await delayWriting(db);
  const { lanes } = await turn(attached);
  expect(lanes).toMatchObject([{ lapsedAtMs: expect.any(Number) as number }]);
  await server.restart('immediate', 0);
  await expect.poll(() => rows(db, 'select 1').catch(() => [])).toHaveLength(1);
  await settle(db, [outcomeOf(lanes[0]!)]);
  for (const key of numbers(1, 8)) await emitPayments(db, 2 + key, 2 + key, { orderingKey: `key ${key}` });
  // The first is charged with the death, whoever finds it.
  for (const later of [0, 10 * MINUTE])
    await relay({
      db,
      subscribers: attached,
      until: Date.now() + 10 * SECOND,
      now: Date.now() + MINUTE + later,
    });
  expect(handed.toSorted((one, other) => one - other)).toEqual(numbers(1, 10));
  await close();
});

const TURN = {
  outcomes: [],
  continued: [],
  behind: null,
  topics: [],
  maxLanes: 10,
  share: null,
  maxDeliveries: 100,
  maxEvents: 100,
  isLooking: true,
  awaited: [],
  clockMs: 0,
  now: null,
} as const;

/** What waits for nothing. */
const STANDING = `
  select subscriber, topic, ordering_key, position from ${RECORDS}
  where subscriber = any ($1::text[]) and state = 'pending' and not exists (
    select from (select * from ${RECORDS}) as front
    where (front.topic, front.subscriber, front.ordering_key) = (record.topic, record.subscriber, record.ordering_key)
      and front.state = 'failing' and front.position < record.position
  ) and (topic, subscriber) in (values ('payment.captured', 'bookings'), ('payment.failed', 'bookings'),
    ('payment.failed', 'audit'), ('booking.created', 'audit'), ('payment.captured', 'ledger'),
    ('payment.captured', 'notifications'), ('payment.captured', 'accounting'))`;
