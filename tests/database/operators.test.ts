import { describe, expect } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { readTopic } from '../../lib/console/lanes/views.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import type { BusCounts, SubscriberOverview, TopicOverview } from '../../lib/console/overview/read.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  START,
  contradictions,
  drain,
  drainLive,
  emitPayments,
  gate,
  openTransaction,
  payloadOf,
  placeEvents,
  rows,
  emitAlone,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, deliveriesOf } from '../support/records.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { randomFrom } from '../support/random.ts';
import { relist } from '../support/scenes.ts';

const at = (ms: number) => new Date(ms);
const iso = (ms: number) => at(ms).toISOString();

const topicIn = (view: BusCounts, topic: TopicName = 'payment.captured'): TopicOverview =>
  view.topics.find((one) => one.topic === topic)!;

const subscriberIn = (view: BusCounts, name = 'ledger'): SubscriberOverview =>
  topicIn(view).subscribers.find((one) => one.subscriber === name)!;

const overview = (bus: Bus, nowMs: number, attached: readonly AttachedSubscriber[] = [ledger()]) =>
  readOverview(bus.db, attached, at(nowMs));

/** When the oldest event was recorded, in epoch milliseconds. */
async function firstCreatedAt(bus: Bus): Promise<number> {
  const [row] = await rows<{ at: number }>(
    bus.db,
    'select (extract(epoch from min(created_at)) * 1000)::float8 as at from events',
  );
  return row!.at;
}

interface States {
  readonly pending: number;
  readonly failing: number;
  readonly deadLettered: number;
}

/** How much is where, counted row by row: by `topic` events, by `topic subscriber` deliveries. */
async function truth(bus: Bus): Promise<Map<string, States>> {
  const found = await rows<States & { key: string }>(
    bus.db,
    `with waiting as (
       select events.topic, count(*) as events from events
       where id not in (select event_id from ${RECORDS}) group by 1
     ),
     known as (
       select topic, jsonb_array_elements_text(subscribers) as subscriber
       from jsonb_to_recordset($1::text::jsonb) as catalog(topic text, subscribers jsonb)
     )
     select topic as key, count(*) filter (where state = 'pending')::int as pending,
       count(*) filter (where state = 'failing')::int as failing,
       count(*) filter (where state = 'dead_lettered')::int as "deadLettered"
     from (
       select events.topic, coalesce(max(record.state), 'pending') as state
       from events left join ${RECORDS} on event_id = events.id group by events.id
     ) as event
     group by topic
     union all
     select known.topic || ' ' || known.subscriber,
       (count(*) filter (where state = 'pending') + coalesce(max(waiting.events), 0))::int,
       count(*) filter (where state = 'failing')::int, count(*) filter (where state = 'dead_lettered')::int
     from known left join waiting using (topic)
       left join ${RECORDS} on record.topic = known.topic and record.subscriber = known.subscriber
     group by 1`,
    [JSON.stringify(Object.entries(catalog).map(([topic, { subscribers }]) => ({ topic, subscribers })))],
  );
  return new Map(found.map(({ key, ...states }) => [key, states]));
}

/** How many deliveries and deaths there ever were: told by every history. */
async function flow(bus: Bus) {
  const found = await rows<{
    state: string;
    log: { outcome: string }[] | null;
  }>(bus.db, `select state::text, attempt_log as log from ${RECORDS}`);
  let [delivered, deadLettered] = [0, 0];
  for (const { state, log } of found) {
    const past = log ?? [];
    for (const [index, { outcome }] of past.entries()) {
      const next = past[index + 1];
      const hasEnded = next ? next.outcome === 'replayed' : state === 'dead_lettered';
      if (outcome === 'delivered') delivered += 1;
      else if (hasEnded && outcome !== 'replayed') deadLettered += 1;
    }
    if (state === 'delivered') delivered += 1;
  }
  return { delivered, deadLettered };
}

const UNKNOWN_EVENT = '00000000-0000-7000-8000-000000000000';

const countsOf = ({ pending, failing, deadLettered }: States): States => ({ pending, failing, deadLettered });

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

describe('every number of the overview agrees with counting row by row', () => {
  const TOPICS = ['payment.captured', 'invoice.paid', 'booking.rescheduled', 'mfa.completed'] as const;

  /** A component that does well, fails, gives up or asks for time, as chance has it. */
  function fickle(
    name: string,
    random: () => number,
    options: Parameters<typeof attach>[2] = {},
  ): AttachedSubscriber {
    const handle = () => {
      const luck = random();
      if (luck < 0.15) throw new PermanentError(`refused ${Math.floor(luck * 1000)}`);
      if (luck < 0.35) throw new TypeError('down');
      if (luck < 0.45) throw new RetryAfter(3 * MINUTE);
    };
    const topics = Object.entries<Topic>(catalog)
      .filter(([topic, { subscribers }]) => isUsed(topic) && subscribers.some((one) => one === name))
      .map(([topic]) => [topic, handle]);
    return attach(name, Object.fromEntries(topics), options);
  }

  const isUsed = (topic: string) => TOPICS.some((one) => one === topic);

  async function emitted(bus: Bus, random: () => number): Promise<void> {
    for (const topic of TOPICS) {
      const count = Math.floor(random() * 4);
      for (let index = 0; index < count; index += 1) {
        // One of four keys, where the topic has a key.
        const payload =
          topic === 'booking.rescheduled'
            ? payloadOf(topic, { bookingId: `bkg_${Math.floor(random() * 4)}` })
            : payloadOf(topic);
        await bus.db.transaction((tx: Transaction) => emit(tx, topic, payload));
      }
    }
  }

  async function anyDelivery(bus: Bus, random: () => number): Promise<string> {
    const found = (await deliveriesOf(bus.db)).filter(({ state }) => state !== 'delivered');
    return found[Math.floor(random() * found.length)]?.id ?? `${UNKNOWN_EVENT}.ledger`;
  }

  test.for([1, 2, 3, 4])(
    'after successes, failures, waits, dead letters, replays, skips and events without a place: seed %i',
    async (seed, { bus }) => {
      const random = randomFrom(seed);
      const attached = [
        fickle('ledger', random),
        fickle('bookings', random),
        fickle('calendar', random),
        fickle('accounting', random, { transactional: true }),
        fickle('notifications', random, { transactional: true }),
        // Alone in the lanes of a topic.
        fickle('audit', random, { afterDeadLetter: 'halt' }),
      ];
      // Transactions are counted under the real hour: the clock moves on from there, for less than a day.
      let now = Date.now();
      for (let step = 0; step < 12; step += 1) {
        await emitted(bus, random);
        await drain(bus.db, attached, { now });
        now += Math.floor(random() * 12 * MINUTE);
        const luck = random();
        const topic = TOPICS[Math.floor(random() * TOPICS.length)]!;
        const by = 'kari';
        if (luck < 0.3) await replay(bus.db, { topic, since: '1h' }, by, at(now));
        else if (luck < 0.5) await replay(bus.db, { topic, since: '1h', include: 'all' }, by, at(now));
        else {
          const deliveryId = await anyDelivery(bus, random);
          const acting =
            luck < 0.8
              ? skip(bus.db, { deliveryId, by, reason: 'in the way', now: at(now) })
              : retryNow(bus.db, { deliveryId, by, now: at(now) });
          await acting.catch((error: unknown) => {
            if (!(error instanceof NotActedOn)) throw error;
          });
        }
        expect(await contradictions(bus.db)).toEqual([]);
      }
      await emitted(bus, () => 0.6);
      const view = await readOverview(bus.db, attached, at(now));
      const known = await truth(bus);
      const none = { pending: 0, failing: 0, deadLettered: 0 };
      for (const topic of view.topics) {
        expect(countsOf(topic), topic.topic).toEqual(known.get(topic.topic) ?? none);
        expect(topic.awaitingPlace).toBe(isUsed(topic.topic) ? 2 : 0);
        for (const row of topic.subscribers) {
          const key = `${topic.topic} ${row.subscriber}`;
          expect(countsOf(row), key).toEqual(known.get(key) ?? none);
        }
      }
      const all = (ofDeliveries: boolean) => {
        const states = [...known]
          .filter(([key]) => key.includes(' ') === ofDeliveries)
          .map(([, found]) => found);
        return {
          pending: sum(states.map(({ pending }) => pending)),
          failing: sum(states.map(({ failing }) => failing)),
          deadLettered: sum(states.map(({ deadLettered }) => deadLettered)),
        };
      };
      const { delivered, deadLettered } = await flow(bus);
      expect(view.totals).toEqual({
        ...all(false),
        deliveries: all(true),
        deliveredLast24h: delivered,
      });
      expect(deadLettered).toBeGreaterThan(0);
      expect(sum(view.hours.delivered)).toBe(delivered);
      expect(sum(view.hours.deadLettered)).toBe(deadLettered);
    },
  );

  test('an event counts once for its topic, also where its subscribers are others than those of earlier ones', async ({
    bus,
  }) => {
    for (const [from, listed] of [
      [1, '{ledger,bookings}'],
      [3, '{ledger}'],
    ] as const) {
      await emitPayments(bus.db, from, from + 1);
      await relist(bus.db, `'${listed}'`);
      await placeEvents(bus.db);
    }
    const { pending, subscribers } = topicIn(await readOverview(bus.db, []));
    const waiting = subscribers.flatMap((of) => (of.pending > 0 ? [[of.subscriber, of.pending]] : []));
    expect([pending, waiting]).toEqual([
      4,
      [
        ['bookings', 2],
        ['ledger', 4],
      ],
    ]);
  });

  test('an event that halts its key counts once, beside a subscriber that has come less far', async ({
    bus,
  }) => {
    const halting = ledger(refuse, { afterDeadLetter: 'halt' });
    const bookings = attach('bookings', { 'payment.captured': () => undefined });
    for (const [payment, listed, attached] of [
      [1, '{ledger,bookings}', [halting, bookings]],
      [2, '{ledger}', [halting]],
      [3, '{ledger,bookings}', [halting]],
    ] as const) {
      await emitPayments(bus.db, payment, payment, { orderingKey: 'venue 1' });
      await relist(bus.db, `'${listed}'`);
      await drain(bus.db, attached);
    }
    expect(topicIn(await readOverview(bus.db, []))).toMatchObject({
      pending: 2,
      failing: 0,
      deadLettered: 1,
    });
  });

  test('every topic of the catalog is listed, in its order, with its producer and subscribers', async ({
    bus,
  }) => {
    const view = await overview(bus, START);
    expect(
      view.topics.map(({ topic, producer, subscribers }) => [
        topic,
        producer,
        subscribers.map((row) => row.subscriber),
      ]),
    ).toEqual(
      Object.entries<Topic>(catalog).map(([topic, { producer, subscribers }]) => [
        topic,
        producer,
        [...subscribers],
      ]),
    );
    expect(view.totals).toMatchObject({ pending: 0, failing: 0, deadLettered: 0 });
    expect(view.topics.every((topic) => topic.oldestDueAgeSeconds === null)).toBe(true);
  });

  test('an event that waits for its place is pending for its topic and for each of its subscribers', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    const view = topicIn(await overview(bus, START));
    expect(view).toMatchObject({ pending: 3, awaitingPlace: 3 });
    expect(view.subscribers.map(({ pending }) => pending)).toEqual([3, 3, 3, 3]);
  });
});

describe('deliveries hour by hour', () => {
  test('are counted in their hour, the present one last, and leave after a day', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger((number) => number === 2 && refuse())]);
    const hoursAt = async (nowMs: number) => (await overview(bus, nowMs)).hours;
    const now = await hoursAt(START);
    expect(now.delivered).toHaveLength(24);
    expect(now.deadLettered).toHaveLength(24);
    expect([now.delivered[23], now.deadLettered[23]]).toEqual([2, 1]);
    const twoHoursLater = await hoursAt(START + 2 * HOUR);
    expect([twoHoursLater.delivered[21], twoHoursLater.deadLettered[21]]).toEqual([2, 1]);
    expect((await overview(bus, START + 23 * HOUR)).totals).toMatchObject({ deliveredLast24h: 2 });
    const nextDay = await overview(bus, START + 24 * HOUR);
    expect(sum(nextDay.hours.delivered)).toBe(0);
    expect(nextDay.totals).toMatchObject({ deliveredLast24h: 0 });
  });

  test('count for 24 hours, to the minute, before and after the cron has read them', async ({ bus }) => {
    const delivered = START + 20 * MINUTE + 10 * SECOND;
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger((number) => number === 2 && refuse())], { now: delivered });
    await emitPayments(bus.db, 4, 4);
    await drain(bus.db, [ledger()], { now: START + 50 * MINUTE });
    const dayAfter = async (ms: number) => {
      const { totals, hours } = await overview(bus, START + 24 * HOUR + ms);
      expect(sum(hours.delivered)).toBe(totals.deliveredLast24h);
      return [totals.deliveredLast24h, sum(hours.deadLettered)];
    };
    const expectADay = async () => {
      expect(await dayAfter(19 * MINUTE)).toEqual([3, 1]);
      expect(await dayAfter(21 * MINUTE)).toEqual([1, 0]);
      expect(await dayAfter(51 * MINUTE)).toEqual([0, 0]);
    };
    await expectADay();
    await rows(bus.db, 'select postbud_roll_up_1($1::text::timestamptz)', [iso(START + 50 * MINUTE)]);
    expect(await rows(bus.db, 'select from throughput_minutes')).toHaveLength(1);
    await expectADay();
    await rows(bus.db, 'select postbud_roll_up_1($1::text::timestamptz)', [iso(START + HOUR)]);
    expect(await rows(bus.db, 'select from throughput_minutes')).toHaveLength(2);
    await expectADay();
    await prune({ db: bus.db, until: 0, now: at(START + 26 * HOUR) });
    expect(await rows(bus.db, 'select from throughput_minutes')).toEqual([]);
  });
});

describe('the oldest due age', () => {
  test('is the age of the oldest delivery that could be handed over now', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, []);
    const createdAt = await firstCreatedAt(bus);
    // Placed with a clock that is ahead: the lane is due from the event on.
    const view = await overview(bus, createdAt + 90 * SECOND);
    expect(topicIn(view).oldestDueAgeSeconds).toBeCloseTo(90, 0);
    expect(subscriberIn(view).oldestDueAgeSeconds).toBeCloseTo(90, 0);
    expect(view.relay.lagSeconds).toBeCloseTo(90, 0);
  });

  test('leaves out a scheduled retry, and the deliveries behind it, until the retry is due', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(fail)]);
    const parked = await overview(bus, START + 59 * SECOND);
    expect(subscriberIn(parked)).toMatchObject({
      oldestDueAgeSeconds: null,
      nextRetryAt: iso(START + MINUTE),
      pending: 2,
      failing: 1,
    });
    expect(topicIn(parked)).toMatchObject({
      oldestDueAgeSeconds: null,
      nextRetryAt: iso(START + MINUTE),
    });
    expect(parked.relay.lagSeconds).toBe(0);
    const due = await overview(bus, START + 75 * SECOND);
    expect(subscriberIn(due)).toMatchObject({ oldestDueAgeSeconds: 15, nextRetryAt: null });
  });

  test('leaves out a delivery whose handler asked to wait', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [
      ledger(() => {
        throw new RetryAfter(10 * SECOND);
      }),
    ]);
    expect(subscriberIn(await overview(bus, START + 9 * SECOND))).toMatchObject({
      oldestDueAgeSeconds: null,
      nextRetryAt: iso(START + 10 * SECOND),
      pending: 1,
      failing: 0,
    });
  });

  test('leaves out an unattached subscriber, whose next retry is not shown either', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger((number) => number === 1 && fail())]);
    const later = START + HOUR;
    expect(subscriberIn(await overview(bus, later)).oldestDueAgeSeconds).toBe(3540);
    const unattached = await overview(bus, later, []);
    expect(subscriberIn(unattached)).toMatchObject({
      attached: false,
      oldestDueAgeSeconds: null,
      pending: 1,
    });
    expect(topicIn(unattached).oldestDueAgeSeconds).toBeNull();
    expect(unattached.relay.lagSeconds).toBe(0);
    expect(subscriberIn(await overview(bus, START, [])).nextRetryAt).toBeNull();
  });

  test.for([null, 'payment.captured'])(
    'leaves out a paused subscriber (topic %j)',
    async (topic, { bus }) => {
      await emitPayments(bus.db, 1, 1);
      await drain(bus.db, [ledger(fail)]);
      await pause(bus.db, { subscriber: 'ledger', topic }, 'kari', 'moving house');
      const paused = await overview(bus, START + HOUR);
      expect(subscriberIn(paused)).toMatchObject({
        paused: true,
        oldestDueAgeSeconds: null,
        nextRetryAt: null,
        pause: { topic, pausedBy: 'kari', reason: 'moving house' },
      });
      expect(topicIn(paused).oldestDueAgeSeconds).toBeNull();
      await resume(bus.db, { subscriber: 'ledger', topic }, 'kari', null);
      expect(subscriberIn(await overview(bus, START + HOUR)).oldestDueAgeSeconds).toBe(3540);
    },
  );

  test('is the age of events that wait for their places when no relay runs', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    const createdAt = await firstCreatedAt(bus);
    const view = await overview(bus, createdAt + 300 * SECOND);
    expect(topicIn(view).oldestDueAgeSeconds).toBeCloseTo(300, 0);
    expect(subscriberIn(view, 'accounting').oldestDueAgeSeconds).toBeNull();
    expect(view.relay).toMatchObject({ state: 'never_run', lastPassAt: null });
  });

  test('counts a replayed delivery from its replay', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(refuse)]);
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', at(START + MINUTE));
    expect(subscriberIn(await overview(bus, START + 2 * MINUTE)).oldestDueAgeSeconds).toBe(60);
  });

  test('covers all lanes', async ({ bus }) => {
    const keys = Array.from({ length: 21 }, (_, index) => `venue ${index}`);
    for (const orderingKey of keys) await emitPayments(bus.db, 1, 1, { orderingKey });
    await drain(bus.db, []);
    const createdAt = await firstCreatedAt(bus);
    await rows(
      bus.db,
      `update events set created_at = created_at - interval '5 minutes' where ordering_key = 'venue 0'`,
    );
    expect(subscriberIn(await overview(bus, createdAt + 2 * MINUTE)).oldestDueAgeSeconds).toBeCloseTo(420, 0);
  });
});

describe('the state of the relay', () => {
  test('is first “never ran”, then “running”, and “stalled” when two calls of the cron were missed', async ({
    bus,
  }) => {
    expect((await overview(bus, START)).relay).toEqual({
      state: 'never_run',
      lastPassAt: null,
      runsHere: true,
      lagSeconds: 0,
    });
    await drain(bus.db, [ledger()]);
    const relayAt = async (nowMs: number) => (await overview(bus, nowMs)).relay;
    expect(await relayAt(START)).toMatchObject({ state: 'running', lastPassAt: iso(START) });
    expect(await relayAt(START + 2 * MINUTE)).toMatchObject({ state: 'running' });
    expect(await relayAt(START + 2 * MINUTE + 1)).toMatchObject({ state: 'stalled', lastPassAt: iso(START) });
  });

  test('is “running” also when there is nothing to do, and while a lane is held for long', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    const begun = gate();
    const go = gate();
    const running = drainLive(bus.db, [
      ledger(async () => {
        begun.open();
        await go.opened;
      }),
    ]);
    await begun.opened;
    await rows(bus.db, `update last_pass set at = at - interval '1 hour'`);
    await drainLive(bus.db, []);
    expect((await readOverview(bus.db, [ledger()])).relay).toMatchObject({ state: 'running' });
    go.open();
    await running;
  });
});

describe('a producer whose transaction stays open', () => {
  test('holds back its topic and no other, and is shown once it is open for too long', async ({ bus }) => {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payloadOf('payment.captured'));
    await emitPayments(bus.db, 1, 1);
    await emitAlone(bus.db, 'invoice.paid', payloadOf('invoice.paid'));
    const held = async () => {
      const view = await readOverview(bus.db, [ledger()]);
      return [topicIn(view).heldBackSince, topicIn(view, 'invoice.paid').heldBackSince];
    };
    expect(await held()).toEqual([null, null]);
    const [began] = await rows<{ at: number }>(
      bus.db,
      `select (extract(epoch from min(xact_start)) * 1000)::float8 as at from pg_stat_activity
       where datname = current_database() and state = 'idle in transaction'`,
    );
    await expect.poll(held, { interval: 250, timeout: 8000 }).toEqual([iso(began!.at), null]);
    await open.rollback();
    expect(await held()).toEqual([null, null]);
  });
});

describe('the page of one topic', () => {
  const view = (bus: Bus, nowMs: number, topic: TopicName = 'payment.captured', attached = [ledger()]) =>
    readTopic(bus.db, attached, topic, at(nowMs));

  test('shows a held lane with the delivery that holds it, its next attempt and how many wait behind it', async ({
    bus,
  }) => {
    const [first] = await emitPayments(bus.db, 1, 5);
    await drain(bus.db, [ledger(fail)]);
    const { heldLanes, orderedBy, description } = await view(bus, START);
    expect(heldLanes).toEqual([
      {
        topic: 'payment.captured',
        subscriber: 'ledger',
        orderingKey: '',
        deliveryId: `${first}.ledger`,
        eventId: first,
        subject: expect.any(String),
        attempts: 1,
        maxAttempts: 5,
        attemptedAt: iso(START),
        nextAttemptAt: iso(START + MINUTE),
        waitsFor: null,
        lastError: { kind: 'Error', message: 'the ledger is down' },
        behind: 4,
        isMoreBehind: false,
        deadLetteredAt: null,
      },
    ]);
    expect(orderedBy).toBeNull();
    expect(description).toBe(catalog['payment.captured'].description);
    expect((await view(bus, START + MINUTE)).heldLanes).toEqual([]);
  });

  test('counts behind a held lane the events that wait for their places too', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    await emitPayments(bus.db, 3, 5);
    expect((await view(bus, START)).heldLanes).toMatchObject([{ behind: 4 }]);
  });

  test('shows each held key with the deliveries behind it alone, the next to be tried first', async ({
    bus,
  }) => {
    const move = async (bookingId: string, count: number) => {
      for (let index = 0; index < count; index += 1) {
        await emitAlone(bus.db, 'booking.rescheduled', payloadOf('booking.rescheduled', { bookingId }));
      }
    };
    await move('bkg_1', 3);
    await move('bkg_2', 2);
    await move('bkg_3', 1);
    const calendar = subscriber('calendar', {
      'booking.rescheduled': (event) => {
        if (event.payload.bookingId === 'bkg_3') return;
        if (event.payload.bookingId === 'bkg_2') throw new RetryAfter(20 * SECOND, 'not yet');
        throw new TypeError('undefined is not a slot');
      },
    });
    await drain(bus.db, [calendar]);
    const { heldLanes, orderedBy } = await view(bus, START, 'booking.rescheduled', [calendar]);
    expect(orderedBy).toBe('bookingId');
    expect(heldLanes).toMatchObject([
      {
        orderingKey: 'bkg_2',
        behind: 1,
        attempts: 0,
        lastError: { kind: 'retry_after', message: 'not yet' },
      },
      { orderingKey: 'bkg_1', behind: 2, attempts: 1, lastError: { kind: 'TypeError' } },
    ]);
    expect(heldLanes.map(({ subscriber: name }) => name)).toEqual(['calendar', 'calendar']);
  });

  test('counts behind a lane its own deliveries, where the producer narrowed the lane itself', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'venue 1' });
    await emitPayments(bus.db, 3, 9, { orderingKey: 'venue 2' });
    await drain(bus.db, [ledger((number) => (number === 1 || number === 3) && fail())]);
    const { heldLanes } = await view(bus, START);
    expect(
      heldLanes
        .map(({ orderingKey, behind }) => [orderingKey, behind])
        .toSorted(([one], [other]) => String(one).localeCompare(String(other))),
    ).toEqual([
      ['venue 1', 1],
      ['venue 2', 6],
    ]);
  });

  test('shows the errors of its dead letters, and nothing of another topic', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await emitAlone(bus.db, 'invoice.paid', payloadOf('invoice.paid'));
    await drain(bus.db, [subscriber('ledger', { 'payment.captured': refuse, 'invoice.paid': fail })]);
    const { errors, heldLanes, topic } = await view(bus, START);
    expect(errors).toMatchObject([{ message: 'refused', subscriber: 'ledger', count: 3 }]);
    expect(heldLanes).toEqual([]);
    expect(topic.deadLettered).toBe(3);
  });
});
