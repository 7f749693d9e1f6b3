import { afterAll, describe, expect, onTestFinished } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { readEvent } from '../../lib/console/event/read.ts';
import type { EventDelivery, EventView } from '../../lib/console/event/view.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { dismissLetter } from '../support/dismiss-letter.ts';
import { test } from '../support/bus-test.ts';
import {
  drain,
  emitPayments,
  gate,
  numbers,
  openTransaction,
  payment,
  payloadOf,
  rows,
  START,
  emitAlone,
} from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf, dueTimesOf } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { openRelease } from '../support/releases.ts';
import type { RunningRelease } from '../support/releases.ts';

const iso = (ms: number) => new Date(ms).toISOString();

interface Reading {
  readonly now?: number;
  readonly attached?: readonly AttachedSubscriber[];
}

/** Reads an event as an operator sees it with the clock at `START`, or at another time. */
async function read(
  bus: Bus,
  eventId: string,
  { now = START, attached = [ledger()] }: Reading = {},
): Promise<EventView> {
  const view = await readEvent(bus.db, eventId, { attached, now: new Date(now) });
  return view!;
}

const to = ({ deliveries }: EventView, name = 'ledger'): EventDelivery =>
  deliveries.find((delivery) => delivery.subscriber === name)!;

/** Why the ledger does not have the event. */
const why = async (bus: Bus, eventId: string, reading?: Reading) =>
  to(await read(bus, eventId, reading)).why!;

const anId = expect.stringMatching(/^[\da-f-]{36}\.ledger$/);

describe('an event that awaits its place', () => {
  test('waits for the transaction of a producer that is still open: producer_open, with its process', async ({
    bus,
  }) => {
    const open = await openTransaction(`${bus.url}?application_name=billing`);
    onTestFinished(() => open.client.end());
    await open.emit('payment.captured', payment(1));
    const [eventId] = await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger()]);
    const view = await read(bus, eventId!);
    expect(view.deliveries.map(({ subscriber: name }) => name)).toEqual(
      view.deliveries.map(({ subscriber: name }) => name).toSorted(),
    );
    const { deliveryId, state, attempts, why: reason } = to(view);
    expect({ deliveryId, state, attempts }).toEqual({ deliveryId: null, state: 'pending', attempts: [] });
    expect(reason).toMatchObject({
      code: 'producer_open',
      since: expect.stringMatching(/Z$/),
    });
    expect(reason!.text).toMatch(
      /^A producer’s transaction \(billing, process \d+( at [\d.:]+)?, idle in transaction\) has been open since .*\.$/,
    );
    expect(view.verdict).toMatch(/^Not delivered to anyone: a producer’s transaction/);
    await open.commit();
    await drain(bus.db, [ledger()]);
    expect(to(await read(bus, eventId!)).state).toBe('delivered');
  });

  test('waits for a transaction that was prepared and never ended, which every page names with its ways out', async ({
    bus,
  }) => {
    const gid = `booking's ${Date.now()}`;
    const named = `'${gid.replaceAll("'", "''")}'`;
    const prepared = await openTransaction(bus.url);
    await prepared.emit('payment.captured', payment(1));
    await prepared.client.query(`prepare transaction ${named}`);
    await prepared.client.end();
    onTestFinished(async () => void (await rows(bus.db, `rollback prepared ${named}`).catch(() => [])));
    const [eventId] = await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger()]);
    const { why: reason } = to(await read(bus, eventId!));
    expect(reason).toMatchObject({
      code: 'producer_open',
      since: expect.stringMatching(/Z$/),
    });
    expect(reason!.text).toContain(`end it with rollback prepared ${named} or commit prepared ${named}`);
    // Nobody is told of a transaction of some seconds.
    const shown = async () =>
      (await readOverview(bus.db, [ledger()])).topics.find(({ topic }) => topic === 'payment.captured')!;
    await expect
      .poll(async () => (await shown()).heldBackBy, { timeout: 10_000 })
      .toEqual({ gid, owner: 'postgres' });
    expect((await examine(bus.db)).findings).toMatchObject([
      { promise: expect.stringContaining('prepared and never ended'), count: 1, examples: [gid] },
    ]);
    await rows(bus.db, `rollback prepared ${named}`);
    await drain(bus.db, [ledger()]);
    expect(to(await read(bus, eventId!)).state).toBe('delivered');
    expect(await shown()).toMatchObject({ heldBackSince: null, heldBackBy: null });
    expect((await examine(bus.db)).findings).toEqual([]);
  });

  test('waits for the relay’s next look: not_fanned_out, since it was recorded', async ({ bus }) => {
    await drain(bus.db, []);
    const [eventId] = await emitPayments(bus.db, 1, 1);
    const view = await read(bus, eventId!);
    expect(to(view).why).toMatchObject({ code: 'not_fanned_out', since: view.event.createdAt });
  });

  test('names a pause as what remains once it has its place', async ({ bus }) => {
    await drain(bus.db, []);
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving house');
    const [eventId] = await emitPayments(bus.db, 1, 1);
    const reason = await why(bus, eventId!);
    expect(reason).toMatchObject({ code: 'not_fanned_out' });
  });

  test('waits for a relay that has stopped: relay_stopped, before all other reasons', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    expect(await why(bus, eventId!)).toMatchObject({
      code: 'relay_stopped',
      since: null,
      text: 'No relay has ever run on this database.',
    });
  });
});

describe('a delivery that waits for something wider than its lane', () => {
  test('waits for a relay: relay_stopped, when two calls of the cron were missed', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(fail)]);
    expect(await why(bus, eventId!, { now: START + 2 * MINUTE })).toMatchObject({ code: 'due' });
    expect(await why(bus, eventId!, { now: START + 2 * MINUTE + 1 })).toMatchObject({
      code: 'relay_stopped',
      since: iso(START),
      text: 'No relay has run since 10:00:00 UTC.',
    });
  });

  test('waits for its subscriber to be attached: unattached', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const view = await read(bus, eventId!, { attached: [] });
    expect(to(view).why).toMatchObject({ code: 'unattached', since: view.event.createdAt });
    expect(view.verdict).toBe(
      'Not delivered to anyone: this deployment has no handler and no endpoint for the subscriber.',
    );
  });

  test.for([null, 'payment.captured'])(
    'waits until its subscriber is resumed: paused, by whom, since when and why (topic %j)',
    async (topic, { bus }) => {
      const [eventId] = await emitPayments(bus.db, 1, 1);
      await drain(bus.db, [ledger(fail)]);
      await pause(bus.db, { subscriber: 'ledger', topic }, 'kari', 'moving house');
      expect(await why(bus, eventId!)).toMatchObject({
        code: 'paused',
        by: 'kari',
        reason: 'moving house',
        pausedTopic: topic,
        since: expect.stringMatching(/Z$/),
        text: expect.stringMatching(/^Paused by kari since .*: moving house\.$/),
      });
    },
  );
});

describe('a delivery behind another', () => {
  test('waits for it: behind, with its place, and the error and the next attempt of the first', async ({
    bus,
  }) => {
    const ids: string[] = [];
    for (const number of numbers(1, 4)) {
      const about = payloadOf('payment.captured', { intentId: `pi_${Math.max(1, number - 2)}` });
      ids.push((await emitAlone(bus.db, 'payment.captured', about)).id);
    }
    await drain(bus.db, [ledger(fail)]);
    const [first] = await deliveryIdsOf(bus.db);
    const view = await read(bus, ids[3]!);
    expect(to(view).why).toMatchObject({
      code: 'behind',
      since: view.event.createdAt,
      behind: {
        deliveryId: first,
        eventId: ids[0],
        topic: 'payment.captured',
        code: 'backoff',
      },
      until: iso(START + MINUTE),
    });
    expect(to(view).why!.text).toMatch(
      /^Behind intent pi_1: it failed with Error: the ledger is down; next try 10:01:00 UTC\.$/,
    );
    // The second is about the same payment, so that its name would tell nothing.
    expect((await why(bus, ids[1]!)).text).toMatch(/^Behind [\da-f]{8}-[\da-f]{4}…: it/);
  });

  test.for([
    ['licence expired\nat line 3', '500 “licence expired”'],
    ['{"title":"Conflict","detail":"licence expired"}', '500 “licence expired”'],
    ['<!doctype html><title>Oops</title>', '500'],
    ['{"licence":"expired"}', '500'],
  ] as const)('quotes what the first one’s subscriber answered: %j', async ([answer, quoted], { bus }) => {
    const ids = await emitPayments(bus.db, 1, 2);
    const refusing = ledger(() => {
      throw Object.assign(new Error('the subscriber answered 500'), { code: 'http_500', answer });
    });
    await drain(bus.db, [refusing]);
    expect((await why(bus, ids[1]!)).text).toContain(`: it answered ${quoted}; next try 10:01:00 UTC.`);
  });

  test('of the same key waits for that key alone, in the log and behind an open exception', async ({
    bus,
  }) => {
    const emitTo = async (orderingKey: string, number: number) =>
      (await emitPayments(bus.db, number, number, { orderingKey }))[0]!;
    const [a1, b1, a2, b2] = [
      await emitTo('a', 1),
      await emitTo('b', 2),
      await emitTo('a', 3),
      await emitTo('b', 4),
    ];
    await drain(bus.db, []);
    // Nothing was tried, so that both keys stand in the log.
    expect(await why(bus, a1)).toMatchObject({ code: 'due', behind: null });
    expect(await why(bus, b2)).toMatchObject({ behind: { eventId: b1, code: 'due' } });
    // Key a fails: its later deliveries are parked behind the first.
    await drain(bus.db, [ledger((number) => number === 1 && fail())]);
    const apart = await dueTimesOf(bus.db, 'ledger');
    expect(apart.filter(({ key }) => key === 'a')).toHaveLength(1);
    expect(await why(bus, a1)).toMatchObject({ code: 'backoff', behind: null });
    expect(await why(bus, a2)).toMatchObject({
      code: 'behind',
      behind: { eventId: a1, code: 'backoff' },
    });
    expect(to(await read(bus, b2))).toMatchObject({ state: 'delivered', why: null });
  });

  test('that was put back by a replay waits for the first unfinished one', async ({ bus }) => {
    const ids = await emitPayments(bus.db, 1, 5);
    await drain(bus.db, [ledger((number) => (number === 1 ? refuse() : number === 5 && fail()))]);
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', new Date(START + SECOND));
    expect(await why(bus, ids[4]!, { now: START + SECOND })).toMatchObject({
      code: 'behind',
      behind: { eventId: ids[0], code: 'due' },
    });
  });
});

describe('the first delivery of a lane', () => {
  test('waits for its retry: backoff, with the error and the time of the next attempt', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(fail)]);
    const view = await read(bus, eventId!);
    expect(to(view)).toMatchObject({
      deliveryId: anId,
      state: 'failing',
      attempts: [{ attempt: 1, outcome: 'failed', error: { message: 'the ledger is down' } }],
      nextAttemptAt: iso(START + MINUTE),
      why: {
        code: 'backoff',
        until: iso(START + MINUTE),
        text: 'It failed with Error: the ledger is down; next try 10:01:00 UTC.',
      },
    });
    expect(view.verdict).toMatch(
      /^Not delivered to ledger: it failed with Error: the ledger is down; next try 10:01:00 UTC; /,
    );
  });

  test('waits as long as its handler asked for: backoff, without an error', async ({ bus }) => {
    const [first, second] = await emitPayments(bus.db, 1, 2);
    const ask = () => {
      throw new RetryAfter(10 * SECOND);
    };
    await drain(bus.db, [ledger(ask)]);
    expect(await why(bus, first!)).toMatchObject({
      code: 'backoff',
      text: 'It asked to wait until 10:00:10 UTC.',
    });
    expect((await why(bus, second!)).text).toMatch(/: it asked to wait until 10:00:10 UTC\.$/);
  });

  test('is being delivered: leased, until the lease ends', async ({ bus }) => {
    const [first, second] = await emitPayments(bus.db, 1, 2);
    const begun = gate();
    const go = gate();
    const running = drain(bus.db, [
      ledger(async () => {
        begun.open();
        await go.opened;
      }),
    ]);
    await begun.opened;
    expect(await why(bus, first!)).toMatchObject({ code: 'leased', until: iso(START + 30 * SECOND) });
    expect(await why(bus, second!)).toMatchObject({
      code: 'behind',
      behind: { eventId: first, code: 'leased' },
    });
    // Some relay hands it over, so it does not matter that none does here.
    expect(await why(bus, first!, { attached: [] })).toMatchObject({ code: 'leased' });
    go.open();
    await running;
  });

  test('is due again when the lease of a relay has run out', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    await holdLanes(bus.db, { until: new Date(START - SECOND) });
    expect(await why(bus, eventId!)).toMatchObject({ code: 'due' });
  });

  test('is due: since it was recorded, its retry was due, or it was replayed', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, []);
    const view = await read(bus, eventId!);
    expect(to(view).why).toMatchObject({ code: 'due', since: view.event.createdAt });
    await drain(bus.db, [ledger(fail)]);
    const now = START + 90 * SECOND;
    expect(await why(bus, eventId!, { now })).toMatchObject({ code: 'due', since: iso(START + MINUTE) });
  });
});

describe('a delivery behind a dead letter that halts its lane', () => {
  const HALT = { afterDeadLetter: 'halt' } as const;
  const halting = ledger((number) => number === 1 && refuse(), HALT);
  const attached = [halting];

  test('waits for its replay or dismissal: halted, with the dead letter, its error and since when', async ({
    bus,
  }) => {
    const ids: string[] = [];
    for (const number of numbers(1, 3)) {
      const about = payloadOf('payment.captured', { amountMinor: number, intentId: `pi_${number}` });
      ids.push((await emitAlone(bus.db, 'payment.captured', about)).id);
    }
    await drain(bus.db, attached);
    const [dead] = await deliveryIdsOf(bus.db);
    const third = await why(bus, ids[2]!, { attached });
    expect(third).toMatchObject({
      code: 'halted',
      since: expect.stringMatching(/^2031-05-04T10:00:0/),
      until: null,
      behind: {
        deliveryId: dead,
        eventId: ids[0],
        topic: 'payment.captured',
        subject: 'intent pi_1',
        code: 'halted',
      },
    });
    expect(third.text).toMatch(
      /^Halted behind intent pi_1, which was dead-lettered at 10:00:0\d UTC, because it rejected the event: refused; it goes on when dead letter [\da-f-]{36}\.ledger is replayed or dismissed\.$/,
    );
    expect((await why(bus, ids[1]!, { attached })).behind).toMatchObject({ eventId: ids[0] });
    const view = await read(bus, ids[0]!, { attached });
    expect(to(view)).toMatchObject({
      state: 'dead_lettered',
      why: null,
      isHalting: true,
    });
    expect(view.verdict).toMatch(/: refused; this halts its lane until it is replayed or dismissed; /);
    await dismissLetter(bus.db, { deliveryId: dead!, by: 'kari', reason: 'Booked by hand.' });
    expect(to(await read(bus, ids[0]!, { attached }))).toMatchObject({ isHalting: false });
    expect(await why(bus, ids[1]!, { attached })).toMatchObject({ code: 'due' });
  });

  test('waits for its own key alone, and one that was put back in front of it does not wait', async ({
    bus,
  }) => {
    const emitTo = async (orderingKey: string, number: number) =>
      (await emitPayments(bus.db, number, number, { orderingKey }))[0]!;
    const [a1, a2, b2] = [await emitTo('a', 1), await emitTo('a', 2), await emitTo('b', 3)];
    await drain(bus.db, attached);
    expect(await why(bus, a2, { attached })).toMatchObject({
      code: 'halted',
      behind: { eventId: a1 },
    });
    expect(to(await read(bus, b2, { attached }))).toMatchObject({ state: 'delivered', isHalting: false });
    expect(to(await read(bus, a1, { attached }))).toMatchObject({ isHalting: true });
  });

  test('is delivered first where an earlier one was put back: behind, until that has ended', async ({
    bus,
  }) => {
    const ids = await emitPayments(bus.db, 1, 3);
    const second = ledger((number) => number === 2 && refuse(), HALT);
    await drain(bus.db, [second]);
    await replay(
      bus.db,
      { topic: 'payment.captured', since: '1h', subscriber: 'ledger', include: 'all' },
      'kari',
      new Date(START + SECOND),
    );
    expect(await why(bus, ids[2]!, { now: START + SECOND, attached })).toMatchObject({
      code: 'behind',
      behind: { eventId: ids[0] },
    });
  });
});

test('A delivery waits until older ones are backfilled: backfill, by whom, since when and why.', async ({
  bus,
}) => {
  const [eventId] = await emitPayments(bus.db, 1, 1);
  await drain(bus.db, []);
  await rows(
    bus.db,
    `insert into backfills (id, topic, subscriber, since, requested_at, requested_by, reason, matched, next_at)
     values (gen_random_uuid(), 'payment.captured', 'ledger', now(), $1::timestamptz, 'kari', 'The ledger is new.', 5,
       now() + interval '1 hour')`,
    [iso(START)],
  );
  expect(await why(bus, eventId!)).toMatchObject({
    code: 'backfill',
    by: 'kari',
    reason: 'The ledger is new.',
    since: iso(START),
    text: 'Older events come first: kari has been backfilling them since 10:00:00 UTC: The ledger is new.',
  });
  await rows(bus.db, 'update backfills set ended_at = now()');
  expect(await why(bus, eventId!)).toMatchObject({ code: 'due' });
});

describe('a delivery to a subscriber that does not answer', () => {
  const absent = (kind = 'unreachable') => {
    throw Object.assign(new Error('nobody is there'), { code: kind });
  };
  const waiting = (then: (number: number) => unknown = () => absent()) => ledger(then, { outage: 'wait' });

  const now = START + MINUTE;

  /** Three keys fail twice, which opens an outage; a fourth has not been tried. */
  async function open(bus: Bus, attached = waiting()): Promise<string[]> {
    const ids: string[] = [];
    for (const number of numbers(1, 3)) {
      ids.push(...(await emitPayments(bus.db, number, number, { orderingKey: `booking ${number}` })));
    }
    for (const at of [START, now]) await drain(bus.db, [attached], { now: at });
    ids.push(...(await emitPayments(bus.db, 4, 5, { orderingKey: 'booking 4' })));
    await drain(bus.db, [attached], { now });
    return ids;
  }

  test('waits until it answers: outage, with the kind, since when, the probes and the next one', async ({
    bus,
  }) => {
    const attached = [waiting()];
    const ids = await open(bus);
    const reason = await why(bus, ids[3]!, { attached, now });
    expect(reason).toMatchObject({
      code: 'outage',
      since: expect.stringMatching(/^2031-05-04T10:01:0/),
      until: expect.stringMatching(/^2031-05-04T10:02:0/),
      behind: null,
    });
    expect(reason.text).toMatch(/^It has been unreachable since 10:01:0\d UTC; next probe 10:02:0\d UTC\.$/);
    // One that has failed is not tried at its own time, and one behind it waits for both.
    expect(await why(bus, ids[0]!, { attached, now })).toMatchObject({ code: 'outage' });
    await drain(bus.db, attached, { now: START + 3 * MINUTE });
    expect(await why(bus, ids[3]!, { attached, now: START + 3 * MINUTE })).toMatchObject({
      code: 'outage',
      text: expect.stringMatching(/; 1 probe without an answer, next probe 10:08:0\d UTC\.$/),
    });
    await drain(bus.db, [waiting(() => undefined)], { now: START + 10 * MINUTE });
    expect(to(await read(bus, ids[3]!, { attached }))).toMatchObject({ state: 'delivered', why: null });
  });

  test('says how a subscriber is silent: no answer in time, or a status that says that nobody is there', async ({
    bus,
  }) => {
    const [first] = await open(
      bus,
      waiting(() => absent('http_503')),
    );
    expect((await why(bus, first!, { attached: [waiting()], now })).text).toMatch(
      /^It has answered 503 since /,
    );
  });

  test('waits for a pause first, and not at all where its subscription does not wait', async ({ bus }) => {
    const ids = await open(bus);
    expect(await why(bus, ids[3]!, { attached: [ledger()], now })).toMatchObject({ code: 'due' });
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving house');
    expect(await why(bus, ids[3]!, { attached: [waiting()], now })).toMatchObject({
      code: 'paused',
    });
  });
});

describe('a delivery that another release is needed for', () => {
  let next: RunningRelease;
  test.beforeAll(async ({ database }) => {
    next = await openRelease('next', database.url);
  });
  afterAll(() => next.close());

  test('waits for a release that lists its subscription: not_in_catalog', async ({ bus }) => {
    const eventId = await next.emit('payment.failed', 1);
    await drain(bus.db, []);
    expect(to(await read(bus, eventId, { attached: [] }), 'calendar').why).toMatchObject({
      code: 'not_in_catalog',
      text: 'This release’s catalog does not list the subscription; it waits for a release that does.',
    });
    expect(to(await read(bus, eventId, { attached: [] }), 'audit').why).toMatchObject({ code: 'unattached' });
  });

  test('waits for a release that has its topic: not_in_catalog', async ({ bus }) => {
    const eventId = await next.emit('payment.settled', 1);
    await next.drain({});
    await drain(bus.db, [ledger()]);
    const view = await read(bus, eventId);
    expect(to(view).why).toMatchObject({ code: 'not_in_catalog' });
    expect(view.event).toMatchObject({ subject: null, isValid: false, payload: '[hidden]' });
  });

  test('waits for a release that reads its payload: newer_version, and so do those behind it', async ({
    bus,
  }) => {
    const handler = subscriber('calendar', { 'booking.rescheduled': () => undefined });
    const newer = await next.emit('booking.rescheduled', 1);
    const older = await emitAlone(bus.db, 'booking.rescheduled', payloadOf('booking.rescheduled'));
    await drain(bus.db, [handler]);
    const attached = [handler];
    expect(to(await read(bus, newer, { attached }), 'calendar').why).toMatchObject({
      code: 'newer_version',
      text: 'It waits for a release that reads payload version 2.',
    });
    expect(to(await read(bus, older.id, { attached }), 'calendar').why).toMatchObject({
      code: 'behind',
      behind: { eventId: newer, code: 'newer_version', subject: null },
    });
  });
});

describe('the verdict', () => {
  const everyone = (then?: (number: number) => unknown) => [
    ledger(then),
    ...catalog['payment.captured'].subscribers
      .filter((name) => name !== 'ledger')
      .map((name) => attach(name, { 'payment.captured': () => undefined })),
  ];

  test('says to whom an event is delivered, and when the last one had it', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    const attached = everyone();
    await drain(bus.db, attached);
    const { verdict, deliveries, event } = await read(bus, eventId!, { attached });
    expect(event.state).toBe('delivered');
    expect(deliveries.every(({ why: reason }) => reason === null)).toBe(true);
    expect(verdict).toMatch(/^Delivered to .*, .* and .*, the last at 10:00:0\d UTC\.$/);
  });

  test('says who gave it up, when and why, and which operator skipped it', async ({ bus }) => {
    const [refused, skipped] = await emitPayments(bus.db, 1, 2);
    const attached = everyone((number) => (number === 1 ? refuse() : fail()));
    await drain(bus.db, attached);
    expect((await read(bus, refused!, { attached })).verdict).toMatch(
      /^Dead-lettered for ledger at 10:00:0\d UTC: it rejected the event: refused\.$/,
    );
    const delivery = (await deliveriesOf(bus.db, 'ledger')).find(({ eventId }) => eventId === skipped);
    await skip(bus.db, {
      deliveryId: delivery!.id,
      by: 'kari',
      reason: 'answered by phone',
      now: new Date(START),
    });
    expect((await read(bus, skipped!, { attached })).verdict).toBe(
      'Dead-lettered for ledger at 10:00:00 UTC: skipped by kari.',
    );
  });

  test('says who dismissed a dead letter, and why', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    const attached = everyone(() => refuse());
    await drain(bus.db, attached);
    await dismiss(
      bus.db,
      { topic: 'payment.captured', subscriber: 'ledger', kind: null },
      {
        action: 'dismiss',
        by: 'kari',
        reason: 'Booked by hand.',
        until: Date.now() + 45_000,
        now: new Date(START + MINUTE),
      },
    );
    const view = await read(bus, eventId!, { attached });
    expect(view.verdict).toBe('Dismissed for ledger.');
    expect(to(view)).toMatchObject({
      state: 'dead_lettered',
      deadLetteredAt: null,
      dismissedAt: expect.stringMatching(/Z$/),
      why: null,
    });
  });

  test('names two subscribers that fail one by one', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    const failing = (name: 'ledger' | 'accounting') => attach(name, { 'payment.captured': fail });
    const attached = everyone().filter(({ name }) => name !== 'ledger' && name !== 'accounting');
    attached.push(failing('ledger'), failing('accounting'));
    await drain(bus.db, attached);
    expect((await read(bus, eventId!, { attached })).verdict).toMatch(
      /^Not delivered to accounting: it failed with [^;]+; next try 10:01:00 UTC; not delivered to ledger: it failed with [^;]+; next try 10:01:00 UTC\.$/,
    );
  });

  test('names the dead letter first, then who else waits', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(refuse)]);
    const { verdict } = await read(bus, eventId!, { attached: [ledger()] });
    expect(verdict).toMatch(
      /^Dead-lettered for ledger at .*; not delivered to .*: this deployment has no handler/,
    );
  });
});

test('An unknown event is null.', async ({ bus }) => {
  const view = await readEvent(bus.db, '019c7f3e-0000-7000-8000-000000000000', { attached: [] });
  expect(view).toBeNull();
});
