import { afterAll, beforeEach, describe, expect } from 'vitest';

import { prune } from '../../lib/bus/deliveries/prune.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { driverOf } from '../../lib/platform/db/statement.ts';
import { DAY, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, payloadOf, rows, START } from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf, leasedLanes, RECORDS } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { NEXT_TURN, SchemaFolder, migrateToNextRelease } from '../support/next-release.ts';
import { openRelease } from '../support/releases.ts';
import type { RunningRelease } from '../support/releases.ts';
let present: RunningRelease;
let next: RunningRelease;
let handed: string[] = [];

/** When operators act: what was delivered or given up at `START` has ended by then, however long it took. */
const A_MINUTE_LATER = new Date(START + MINUTE);

test.beforeAll(async ({ database: bus }) => {
  present = await openRelease('present', bus.url);
  const schema = await SchemaFolder.open();
  await migrateToNextRelease(bus.db, schema);
  await schema.remove();
  next = await openRelease('next', bus.url, NEXT_TURN);
  await next.bus.publishCatalog(driverOf(next.db));
});
afterAll(async () => {
  await present.close();
  await next.close();
});
beforeEach(() => {
  handed = [];
});

/** Handlers that write down what they were handed, and by which release. */
function handlersOf(release: RunningRelease, ...names: readonly string[]) {
  return Object.fromEntries(
    names.map((name) => [
      name,
      ({ id }: { readonly id: string }) => handed.push(`${release.name} ${name} ${id}`),
    ]),
  );
}

const drain = (release: RunningRelease, ...names: readonly string[]) =>
  release.drain(handlersOf(release, ...names));

describe('an event goes to the subscribers that it was emitted for, whichever release places it, and', () => {
  test('reaches a subscriber that only the newer release lists after an older relay has placed it', async ({
    bus,
  }) => {
    const id = await next.emit('payment.failed', 1);
    await drain(present, 'bookings', 'notifications', 'audit');
    expect(await deliveriesOf(bus.db, 'calendar')).toMatchObject([{ state: 'pending', attempts: 0 }]);
    await drain(next, 'calendar');
    expect(handed.toSorted()).toEqual([
      `next calendar ${id}`,
      `present audit ${id}`,
      `present bookings ${id}`,
      `present notifications ${id}`,
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('reaches no further subscriber when the newer release places an event of the older one', async ({
    bus,
  }) => {
    const id = await present.emit('payment.failed', 1);
    await drain(next, 'bookings', 'notifications', 'audit', 'calendar');
    expect(handed.toSorted()).toEqual([
      `next audit ${id}`,
      `next bookings ${id}`,
      `next notifications ${id}`,
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is placed by a relay whose catalog lacks its topic, and delivered by a relay whose catalog has it', async () => {
    const ids = [await next.emit('payment.settled', 1), await next.emit('payment.settled', 2)];
    expect(await drain(present, 'bookings', 'ledger')).toMatchObject({ placed: 2, delivered: 0 });
    expect(await drain(next, 'ledger')).toMatchObject({ placed: 0, delivered: 2 });
    expect(handed).toEqual(ids.map((id) => `next ledger ${id}`));
  });

  test('waits for a subscriber that the newer release no longer lists, and is delivered by the older one', async () => {
    const id = await present.emit('payment.intent.created', 1);
    await drain(next, 'bookings');
    await drain(present, 'audit');
    expect(handed).toEqual([`next bookings ${id}`, `present audit ${id}`]);
  });

  test('comes in order with the events of the other release', async () => {
    const ids: string[] = [];
    for (const release of [present, next, present, next, next, present])
      ids.push(await release.emit('payment.failed', ids.length));
    await drain(present, 'bookings', 'notifications');
    await drain(next, 'calendar', 'audit');
    for (const name of ['bookings', 'audit'])
      expect(handed.filter((one) => one.includes(` ${name} `)).map((one) => one.split(' ')[2])).toEqual(ids);
    expect(handed.filter((one) => one.includes(' calendar ')).map((one) => one.split(' ')[2])).toEqual([
      ids[1],
      ids[3],
      ids[4],
    ]);
  });

  test('is reported by the doctor of neither release', async () => {
    await present.emit('payment.failed', 1);
    await next.emit('payment.failed', 2);
    await next.emit('payment.settled', 3);
    await present.emit('payment.intent.created', 4);
    await next.emit('payment.intent.created', 5);
    await drain(present, 'bookings', 'audit');
    await drain(next, 'notifications');
    for (const { bus: release, db } of [present, next])
      expect((await release.examine(db)).findings).toEqual([]);
  });
});

describe('a payload of a newer version', () => {
  test('waits for a relay that can read it, uses no attempt, holds up nothing else and keeps its order', async ({
    bus,
  }) => {
    const one = await present.emit('booking.rescheduled', 1);
    const two = await next.emit('booking.rescheduled', 2);
    const three = await present.emit('booking.rescheduled', 3);
    const other = await present.emit('payment.failed', 4);
    await drain(present, 'calendar', 'bookings');
    expect(handed.toSorted()).toEqual([`present bookings ${other}`, `present calendar ${one}`]);
    expect(await deliveriesOf(bus.db, 'calendar')).toMatchObject([
      { state: 'delivered' },
      { state: 'pending', attempts: 0 },
      { state: 'pending', attempts: 0 },
    ]);
    await drain(next, 'calendar');
    expect(handed.filter((line) => line.includes('calendar'))).toEqual([
      `present calendar ${one}`,
      `next calendar ${two}`,
      `next calendar ${three}`,
    ]);
  });

  test('is an incident once no relay has read it for a minute, and over when one has', async ({ bus }) => {
    const watched = async (laterMs: number) => {
      // An event has waited since it was emitted, by the real clock.
      await watchIncidents(bus.db, new Date(Date.now() + laterMs));
      return await rows(
        bus.db,
        'select subscriber, kind, state, message, waiting::int from incidents order by subscriber',
      );
    };
    const names = ['audit', 'calendar', 'notifications'];
    await next.emit('booking.rescheduled', 1);
    await next.emit('booking.rescheduled', 2);
    await drain(present, ...names);
    expect(await watched(30 * SECOND)).toEqual([]);
    const incidents = names.map((subscriber) => ({
      subscriber,
      kind: 'newer_version',
      message: 'booking.rescheduled is version 2; no running relay reads it: deploy a release that does',
    }));
    expect(await watched(2 * MINUTE)).toEqual(
      incidents.map((one) => ({ ...one, state: 'happening', waiting: 2 })),
    );
    await drain(next, ...names);
    expect(await watched(2 * MINUTE)).toEqual(
      incidents.map((one) => ({ ...one, state: 'closed', waiting: 0 })),
    );
  });

  test('is looked at once by a relay that cannot read it, and then left alone', async ({ bus }) => {
    await next.emit('booking.rescheduled', 1);
    await drain(present, 'calendar');
    expect(await leasedLanes(bus.db, 'calendar')).toEqual([]);
    // The one tick that finds nothing.
    expect(await drain(present, 'calendar')).toMatchObject({ ticks: 1, delivered: 0, failed: 0 });
  });

  test('lets the older release continue with its own version once it is delivered', async () => {
    await next.emit('booking.rescheduled', 1);
    await drain(present, 'calendar');
    await drain(next, 'calendar');
    const behind = await present.emit('booking.rescheduled', 2);
    await drain(present, 'calendar');
    expect(handed.at(-1)).toBe(`present calendar ${behind}`);
  });

  test('does not hold up an older event that an operator replayed', async () => {
    const one = await present.emit('booking.rescheduled', 1);
    await drain(present, 'calendar');
    await next.emit('booking.rescheduled', 2);
    await drain(present, 'calendar');
    const request = {
      topic: 'booking.rescheduled',
      since: '1h',
      include: 'all',
      subscriber: 'calendar',
    } as const;
    await present.bus.replay(present.db, request, 'op', A_MINUTE_LATER);
    await present.drain(handlersOf(present, 'calendar'), { laterMs: MINUTE });
    expect(handed).toEqual([`present calendar ${one}`, `present calendar ${one}`]);
  });

  /** As when the relay that has calendar's lane dies now: its lease runs out, and what it does is passed over. */
  const diesHoldingTheLane = (bus: Bus) =>
    holdLanes(bus.db, { subscriber: 'calendar', until: new Date(START + SECOND) });

  test('does not hold up a payload of the older version behind it when the relay died after delivering it', async ({
    bus,
  }) => {
    await next.emit('booking.rescheduled', 1);
    const behind = await present.emit('booking.rescheduled', 2);
    await drain(present, 'calendar');
    const dieAtTheSecond = async ({ id }: { readonly id: string }) => {
      if (id === behind) await diesHoldingTheLane(bus);
    };
    await next.drain({ calendar: dieAtTheSecond }, { isTransactional: true });
    // Only the older release is left: the second began once without effect, and is due again in a minute.
    expect(await present.drain(handlersOf(present, 'calendar'), { laterMs: 2 * SECOND })).toMatchObject({
      failed: 1,
    });
    expect(await present.drain(handlersOf(present, 'calendar'), { laterMs: 2 * MINUTE })).toMatchObject({
      delivered: 1,
    });
    expect(handed).toEqual([`present calendar ${behind}`]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('has failed once when the relay that was handing it over died, even if an older release finds that', async ({
    bus,
  }) => {
    await next.emit('booking.rescheduled', 1);
    const two = await next.emit('booking.rescheduled', 2);
    await next.drain({ calendar: () => diesHoldingTheLane(bus) });
    await present.drain(handlersOf(present, 'calendar'), { laterMs: 2 * SECOND });
    expect(await deliveriesOf(bus.db, 'calendar')).toMatchObject([
      { state: 'failing', attempts: 1, log: [{ kind: 'lease_expired' }] },
      { state: 'pending', attempts: 0 },
    ]);
    // Which of the others were begun is unknown: one at a time, until they are through.
    const [lane] = await rows<{ careful: boolean }>(
      bus.db,
      `select careful_to = tail as careful from lane_heads where subscriber = 'calendar'`,
    );
    expect(lane).toEqual({ careful: true });
    await present.drain(handlersOf(present, 'calendar'), { laterMs: 2 * MINUTE });
    await next.drain(handlersOf(next, 'calendar'), { laterMs: 2 * MINUTE });
    expect(handed.at(-1)).toBe(`next calendar ${two}`);
    expect(handed).toHaveLength(2);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is handed over in the version in which it was written, even to a handler that knows a newer one', async () => {
    await present.emit('booking.rescheduled', 1);
    const versions: number[] = [];
    await next.drain({ calendar: ({ version }) => versions.push(version) });
    expect(versions).toEqual([1]);
  });
});

describe("a topic or subscriber that is missing from a release's catalog", () => {
  /** Dead letters of calendar on payment.failed and of bookings on payment.settled, and one of bookings that both list. */
  async function bury(): Promise<void> {
    await next.emit('payment.failed', 1);
    await next.emit('payment.settled', 2);
    const refuse = () => {
      throw Object.assign(new Error('no'), { code: 'permanent' });
    };
    await next.drain({ calendar: refuse, bookings: refuse });
  }
  const overview = (release: RunningRelease) => release.bus.readOverview(release.db, []);
  const topicIn = async (release: RunningRelease, name: string) =>
    (await overview(release)).topics.find(({ topic }) => topic === name);

  test('is counted in the totals of either release, and shown as not in its catalog', async () => {
    await bury();
    const [ours, theirs] = [await overview(present), await overview(next)];
    expect(ours.totals).toEqual(theirs.totals);
    expect(ours.totals).toMatchObject({ deadLettered: 2, deliveries: { deadLettered: 3, pending: 3 } });
    expect(ours.topics.at(-1)).toMatchObject({
      topic: 'payment.settled',
      inCatalog: false,
      deadLettered: 1,
      subscribers: [
        { subscriber: 'bookings', inCatalog: false, attached: false, deadLettered: 1 },
        { subscriber: 'ledger', inCatalog: false, attached: false, pending: 1 },
      ],
    });
    expect((await topicIn(present, 'payment.failed'))?.subscribers.at(-1)).toMatchObject({
      subscriber: 'calendar',
      inCatalog: false,
      deadLettered: 1,
    });
    expect((await topicIn(next, 'payment.failed'))?.subscribers.at(-1)).toMatchObject({
      subscriber: 'calendar',
      inCatalog: true,
    });
  });

  test('is counted even before it has its place', async () => {
    await next.emit('payment.failed', 1);
    await next.emit('payment.settled', 2);
    expect(await topicIn(present, 'payment.settled')).toMatchObject({
      pending: 1,
      awaitingPlace: 1,
      subscribers: [
        { subscriber: 'bookings', pending: 1 },
        { subscriber: 'ledger', pending: 1 },
      ],
    });
    expect((await topicIn(present, 'payment.failed'))?.subscribers.at(-1)).toMatchObject({
      subscriber: 'calendar',
      inCatalog: false,
      pending: 1,
    });
  });

  test('cannot be replayed: nothing moves and nothing is recorded', async ({ bus }) => {
    await bury();
    const before = await rows(bus.db, `select * from ${RECORDS} order by id`);
    const [ofCalendar] = await deliveryIdsOf(bus.db, 'calendar');
    const requests = [
      { topic: 'payment.failed', since: '365d', subscriber: 'calendar' },
      { topic: 'payment.settled', since: '365d' },
      { deliveryIds: [ofCalendar!] },
    ];
    for (const request of requests) {
      const replay = present.bus.replay(present.db, request, 'op', A_MINUTE_LATER);
      await expect(replay).rejects.toMatchObject({ code: 'no_such_subscription' });
    }
    expect(await rows(bus.db, `select * from ${RECORDS} order by id`)).toEqual(before);
    expect(await rows(bus.db, 'select from replays')).toEqual([]);
  });

  test('is left out of a replay of the rest of its topic, and the preview says so', async ({ bus }) => {
    await bury();
    const request = { topic: 'payment.failed', since: '365d', until: '2040-01-01T00:00:00Z' };
    const preview = await present.bus.previewReplay(present.db, [], present.bus.replayRequest.parse(request));
    expect(preview).toMatchObject({
      matched: 1,
      subscriptions: [{ subscriber: 'bookings', count: 1 }],
      leftOut: [{ topic: 'payment.failed', subscriber: 'calendar', count: 1 }],
    });
    expect(await present.bus.replay(present.db, request, 'op', A_MINUTE_LATER)).toMatchObject({
      matched: 1,
      replayed: 1,
    });
    expect(await deliveriesOf(bus.db, 'calendar')).toMatchObject([{ state: 'dead_lettered' }]);
    expect(await next.bus.replay(next.db, request, 'op', A_MINUTE_LATER)).toMatchObject({ replayed: 1 });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is never pruned before it is settled', async ({ bus }) => {
    await next.emit('payment.settled', 1);
    await drain(next, 'bookings');
    const monthsLater = new Date(START + 90 * DAY);
    await prune({ db: bus.db, until: Date.now() + 10_000, now: monthsLater });
    expect(await rows(bus.db, 'select from events')).toHaveLength(1);
    await drain(next, 'ledger');
    await prune({ db: bus.db, until: Date.now() + 10_000, now: monthsLater });
    expect(await rows(bus.db, 'select from events')).toEqual([]);
  });

  test('does not hide due deliveries behind many that wait for a newer release', async ({ bus }) => {
    const others = await rows<{ key: string }>(
      bus.db,
      `select 'booking ' || number as key from generate_series(1, 200) as number
       where postbud_slot('booking ' || number) <> postbud_slot('another') limit 120`,
    );
    const emitFor = async ({ db, bus: release }: RunningRelease, keys: readonly string[]) =>
      await db.transaction(async (tx) => {
        for (const orderingKey of keys)
          await release.emit(tx, 'booking.rescheduled', payloadOf('booking.rescheduled'), { orderingKey });
      });
    await emitFor(
      next,
      others.map(({ key }) => key),
    );
    await drain(present, 'calendar');
    await emitFor(present, ['another']);
    await drain(present, 'bookings');
    const attached = [present.bus.attach('calendar', { 'booking.rescheduled': () => undefined })];
    const { topics } = await present.bus.readOverview(present.db, attached, new Date(START + MINUTE));
    const { subscribers = [] } = topics.find(({ topic }) => topic === 'booking.rescheduled') ?? {};
    const calendar = subscribers.find(({ subscriber }) => subscriber === 'calendar');
    expect(calendar).toMatchObject({ pending: 121, neededVersion: 2 });
    expect(calendar?.oldestDueAgeSeconds).toBeGreaterThan(60);
  });

  test('is shown as a subscriber that waits for a release that reads the newer version', async () => {
    await next.emit('booking.rescheduled', 1);
    await drain(present, 'calendar');
    const attached = [present.bus.attach('calendar', { 'booking.rescheduled': () => undefined })];
    const { topics, relay } = await present.bus.readOverview(present.db, attached, new Date(START));
    const { subscribers = [] } = topics.find(({ topic }) => topic === 'booking.rescheduled') ?? {};
    expect(subscribers.find(({ subscriber }) => subscriber === 'calendar')).toMatchObject({
      pending: 1,
      neededVersion: 2,
      oldestDueAgeSeconds: null,
    });
    expect(relay.lagSeconds).toBe(0);
  });
});
