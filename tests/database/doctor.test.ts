import { describe, expect } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
import { probe } from '../../lib/bus/deliveries/operations/probe.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { SECOND, sleep } from '../../lib/platform/time.ts';
import { dismissLetter } from '../support/dismiss-letter.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test as busTest } from '../support/bus-test.ts';
import { emitPayments, onConnectionsOf, openTransaction, payment, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, awaitingPlace, countDeliveries } from '../support/records.ts';
import { randomFrom } from '../support/random.ts';
import { answer, openReceiver } from '../support/receiver.ts';
import { createRole } from '../support/roles.ts';

const test = busTest.extend('receiver', async ({}, { onCleanup }) => {
  const receiver = await openReceiver();
  onCleanup(() => receiver.close());
  return receiver;
});

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
const HALT = { afterDeadLetter: 'halt' } as const;
const OPERATOR = { by: 'kari', reason: 'tried' };

/** One subscriber of each kind. Their work takes some milliseconds, and now and then it fails, waits or is refused. */
function subscribersOfAllKinds(random: () => number, url: string) {
  const work = async () => {
    const outcome = random();
    await sleep(1 + outcome * 8);
    if (outcome < 0.01) throw new PermanentError('refused');
    if (outcome < 0.03) throw new Error('failed');
    if (outcome < 0.06) throw new RetryAfter(outcome * SECOND);
  };
  const some = async (events: readonly unknown[]) => {
    await work();
    return random() < 0.9 ? events.length : Math.floor(random() * events.length);
  };
  return [
    subscriber('notifications', { 'payment.captured': work }, { outage: 'wait' }),
    subscriber('ledger', { 'payment.captured': work }, { transactional: true }),
    subscriber('bookings', { 'payment.captured': some }, { batch: true, ...HALT }),
    remoteSubscriber({ name: 'accounting', url, secret, isBatch: true }),
    subscriber('reviews', { 'booking.completed': some }, { batch: true, transactional: true }),
    subscriber('invoicing', { 'booking.completed': work }, { transactional: true, ...HALT }),
    subscriber('reporting', { 'booking.completed': work }),
  ];
}

async function emitSome({ db }: Bus, random: () => number): Promise<void> {
  await db.transaction(async (tx) => {
    for (let number = 1; number <= 25; number += 1) {
      const key = random() < 0.5 ? {} : { orderingKey: `key ${Math.floor(random() * 6)}` };
      await emit(tx, 'payment.captured', payment(number), key);
      if (random() < 0.6) await emit(tx, 'booking.completed', catalog['booking.completed'].example, key);
    }
  });
}

const OPEN = `state in ('pending', 'failing')`;

/** Does something to what is in trouble, as operators do. What a relay does meanwhile wins. */
async function actOnTrouble({ db }: Bus, random: () => number): Promise<void> {
  const found = await rows<{ deliveryId: string; state: string; topic: string }>(
    db,
    `select id as "deliveryId", state::text, topic from ${RECORDS}
     where state in ('failing', 'dead_lettered') and dismissed_at is null
     order by topic, subscriber, position limit 40`,
  );
  for (const { deliveryId, state } of found) {
    const chance = random();
    const acting =
      state === 'failing'
        ? chance < 0.2
          ? skip(db, { deliveryId, ...OPERATOR })
          : retryNow(db, { deliveryId, ...OPERATOR })
        : chance < 0.4
          ? dismissLetter(db, { deliveryId, ...OPERATOR })
          : replay(db, { deliveryIds: [deliveryId], reason: 'tried' }, 'kari');
    await acting.catch((error: unknown) => {
      if (!(error instanceof NotActedOn)) throw error;
    });
  }
  for (const name of ['accounting', 'notifications']) await probe(db, { subscriber: name, ...OPERATOR });
}

describe('the doctor, of traffic of all kinds', () => {
  test.for([1, 2])(
    'finds nothing wrong after retries, waits, replays, skips, dismissals, a backfill and an outage: seed %i',
    { timeout: 60_000 },
    async (seed, { bus, receiver }) => {
      const random = randomFrom(seed);
      const all = subscribersOfAllKinds(random, receiver.url);
      await storedWithoutLedger(bus.db, 1, 30);
      const stop = new AbortController();
      const relaying = async (db: Bus['db']) => {
        while (!stop.signal.aborted) {
          await relay({ db, subscribers: all, until: Date.now() + 10 * SECOND });
          await sleep(5);
        }
      };
      const others = onConnectionsOf(bus.url, relaying);
      const own = relaying(bus.db);
      for (let round = 1; round <= 20; round += 1) {
        receiver.behave = answer(round > 6 && round < 12 ? 503 : 204);
        await emitSome(bus, random);
        await actOnTrouble(bus, random);
        if (round === 8)
          await backfill(bus.db, {
            topic: 'payment.captured',
            subscriber: 'ledger',
            since: new Date(0),
            by: 'kari',
          });
        await sleep(50);
      }
      await expect
        .poll(
          async () => {
            await actOnTrouble(bus, random);
            return (await awaitingPlace(bus.db)).length + (await countDeliveries(bus.db, OPEN));
          },
          { timeout: 40_000 },
        )
        .toBe(0);
      stop.abort();
      await Promise.all([own, others]);
      const { findings, events } = await examine(bus.db);
      expect(findings).toEqual([]);
      expect(events).toBeGreaterThan(500);
    },
  );
});

describe('the doctor, of records that somebody has changed by hand,', () => {
  const refusing = subscriber('ledger', {
    'payment.captured': () => {
      throw new Error('refused');
    },
  });

  test.for([
    ['a marker that is gone', 'delete from awaiting', 'every event has one place in the order, or awaits it'],
    [
      'a place that is gone',
      'delete from log where position = 2',
      'every event has one place in the order, or awaits it',
    ],
    [
      'two places that are exchanged',
      `update log set event_id = other.event_id from log as other
       where log.stream = other.stream and (log.position, other.position) in ((1, 2), (2, 1))`,
      'events have their places in the order of creation',
    ],
    [
      'an audience without a subscriber',
      `update audiences set subscribers = array_remove(subscribers, 'ledger')`,
      'every event has a delivery for each subscriber it was emitted for',
    ],
    [
      'a delivery that no relay looks at',
      'update exceptions set due_at = null',
      'no lane skipped an unfinished delivery or stopped at one',
    ],
    [
      'one that is in nobody’s hands',
      'update exceptions set due_at = null, is_held = true',
      'no lane skipped an unfinished delivery or stopped at one',
    ],
    [
      'one whose event is another’s',
      'update exceptions set event_id = gen_random_uuid()',
      'every place, and every exception, is that of its event',
    ],
    [
      'an event of another version',
      'update log set version = 9 where position = 1',
      'every place, and every exception, is that of its event',
    ],
    [
      'a lane without its journal',
      `delete from journal using lanes where lanes.id = lane and subscriber = 'ledger'`,
      'every lane has its journal, which one relay at a time wrote',
    ],
    [
      'a journal that two relays wrote',
      `insert into journal (lane, number, head, at)
       select lane, number, head + 1, at from journal order by head desc, number desc limit 1`,
      'every lane has its journal, which one relay at a time wrote',
    ],
    [
      'a lease without an end',
      `insert into journal (lane, number, head, at, token, leased_until)
       select lane, number + 1, head, at, gen_random_uuid(), clock_timestamp() + interval '1 day'
       from journal order by head desc, number desc limit 1`,
      'no time lies ahead of the database’s clock',
    ],
  ] as const)('names %s', async ([, change, promise], { bus }) => {
    await emitPayments(bus.db, 1, 3);
    await relay({ db: bus.db, subscribers: [refusing], until: Date.now() + 10 * SECOND });
    await emitPayments(bus.db, 4, 4);
    expect((await examine(bus.db)).findings).toEqual([]);
    await rows(bus.db, change);
    expect((await examine(bus.db)).findings.map((finding) => finding.promise)).toContain(promise);
  });
});

test('the doctor names the topic that waits for a transaction whose beginning is not visible', async ({
  bus,
}) => {
  const role = await createRole(bus.url, 'looker');
  await rows(bus.db, `grant select on all tables in schema public to ${role.name}`);
  const open = await openTransaction(bus.url);
  await open.emit('payment.captured', payment(1));
  await emitPayments(bus.db, 2, 2);
  const settings = async (url: string) => {
    const { db, close } = await connect(url);
    const found = (await examine(db)).settings.filter((text) => text.startsWith('payment.captured'));
    await close();
    return found;
  };
  expect(await settings(bus.url)).toEqual([]);
  expect(await settings(role.url)).toEqual([
    `payment.captured: events wait until no producer’s transaction is open, because ${role.name} cannot see when those of other roles began. Grant it pg_read_all_stats.`,
  ]);
  await open.rollback();
  expect(await settings(role.url)).toEqual([]);
  await role.drop();
});
