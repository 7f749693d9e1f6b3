import { randomUUID } from 'node:crypto';

import { describe, expect } from 'vitest';

import {
  advanceBackfills,
  backfill,
  LOOK_EVERY_MS,
  previewBackfill,
  stopBackfill,
} from '../../lib/bus/deliveries/operations/backfill.ts';
import type { BackfillRequest } from '../../lib/bus/deliveries/operations/backfill.ts';
import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { publishLimits } from '../../lib/bus/deliveries/limits.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE, sleep } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import {
  WAITING,
  contradictions,
  drainLive,
  emitPayments,
  gate,
  numbers,
  payment,
  openTransaction,
  rows,
} from '../support/bus.ts';
import { deliveriesOf, RECORDS, countDeliveries, dueTimesOf } from '../support/records.ts';
import { freeLanes, holdLanes, lockLanes, relist } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, refuse } from '../support/ledger.ts';
import { randomFrom } from '../support/random.ts';

const LONG_AGO = new Date(Date.now() - 30 * DAY);

const OF_LEDGER = { topic: 'payment.captured', subscriber: 'ledger' } as const;

const accounting = subscriber('accounting', { 'payment.captured': () => undefined });

const filled = (db: Database, request: Partial<BackfillRequest> = {}) =>
  backfill(db, { ...OF_LEDGER, since: LONG_AGO, by: 'kari', ...request });

/** Takes a subscriber off the events that wait for their places, as if a release without it had emitted them. */
const emittedWithout = (db: Database, name: string) => relist(db, `array_remove(subscribers, '${name}')`);

const emittedWithoutLedger = (db: Database) => emittedWithout(db, 'ledger');

/** As a relay does that has claimed newer deliveries. */
const holdLanesOf = (db: Database, name: string) =>
  holdLanes(db, { subscriber: name, until: new Date('2100-01-01') });

type KeyOf = (number: number) => string;

/** Emits payments in a release that does not list the ledger, and delivers them to the others. */
async function emitBefore(bus: Bus, from: number, to: number, keyOf: KeyOf = () => ''): Promise<void> {
  await emitWithKeys(bus.db, from, to, keyOf);
  await emittedWithoutLedger(bus.db);
  await drainLive(bus.db, [accounting]);
}

async function emitWithKeys(db: Database, from: number, to: number, keyOf: KeyOf): Promise<void> {
  await db.transaction(async (tx) => {
    for (let number = from; number <= to; number += 1)
      await emit(tx, 'payment.captured', payment(number), { orderingKey: keyOf(number) });
  });
}

const findings = async (db: Database) => (await examine(db)).findings;

describe('a backfill', () => {
  test('hands a new subscriber the older events in order, before the newer ones, once', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitBefore(bus, 1, 2500);
    await emitPayments(bus.db, 2501, 2510);
    await drainLive(bus.db, []);
    expect(await filled(bus.db)).toMatchObject({ matched: 2500, written: 2500, isEnded: true });
    expect(await contradictions(bus.db)).toEqual([]);
    expect(await findings(bus.db)).toEqual([]);
    await emitPayments(bus.db, 2511, 2512);
    await drainLive(bus.db, [ledger(), accounting]);
    expect(handed).toEqual(numbers(1, 2512));
    expect(await filled(bus.db)).toMatchObject({ matched: 0, written: 0, isEnded: true });
    await drainLive(bus.db, [ledger()]);
    expect(handed).toHaveLength(2512);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('reaches as far back as it was asked, by the time of creation', async ({ bus, handed, ledger }) => {
    await emitBefore(bus, 1, 20);
    await rows(
      bus.db,
      `update events set created_at = created_at - interval '1 hour' * (21 - (payload ->> 'amountMinor')::int)`,
    );
    const since = new Date(Date.now() - 5.5 * HOUR);
    expect(await previewBackfill(bus.db, { ...OF_LEDGER, since })).toMatchObject({
      matched: 5,
      alreadyDelivered: 0,
    });
    await filled(bus.db, { since });
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(16, 20));
  });

  test('keeps each ordering key in order, also one in trouble', async ({ bus, handed, ledger }) => {
    const keyOf = (number: number) => `booking ${number % 5}`;
    await emitBefore(bus, 1, 100, keyOf);
    await emitWithKeys(bus.db, 101, 110, keyOf);
    let isDown = true;
    const attached = ledger((number) => isDown && number % 5 === 1 && fail());
    await drainLive(bus.db, [attached]);
    isDown = false;
    handed.length = 0;
    await filled(bus.db);
    expect(await contradictions(bus.db)).toEqual([]);
    await drainLive(bus.db, [attached]);
    // Those of the key in trouble come before the one that waits for its retry.
    for (const key of [0, 1, 2, 3, 4])
      expect(handed.filter((number) => number % 5 === key)).toEqual(
        numbers(1, 100).filter((number) => number % 5 === key),
      );
    await relay({
      db: bus.db,
      subscribers: [attached],
      until: Date.now() + MINUTE,
      now: Date.now() + HOUR,
    });
    expect(handed.slice(-2)).toEqual([101, 106]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('waits for deliveries that are under way, and comes before all others', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitBefore(bus, 1, 10);
    await emitPayments(bus.db, 11, 13);
    const ending = gate();
    const begun = gate();
    const attached = ledger(async (number) => {
      if (number !== 11) return;
      begun.open();
      await ending.opened;
    });
    const relaying = relay({ db: bus.db, subscribers: [attached], until: Date.now() + 6000 });
    await begun.opened;
    const filling = filled(bus.db);
    await expect.poll(() => rows(bus.db, 'select 1 from backfills')).toHaveLength(1);
    expect(await countDeliveries(bus.db, 'backfilled')).toBe(0);
    await emitPayments(bus.db, 14, 15);
    ending.open();
    expect(await filling).toMatchObject({ written: 10, isEnded: true });
    await relaying;
    await drainLive(bus.db, [attached]);
    // The claim of the relay that held the lane included 12 and 13.
    expect(handed).toEqual([11, 12, 13, ...numbers(1, 10), 14, 15]);
  });

  test('at a pace holds the newer ones back until its end', async ({ bus, handed, ledger }) => {
    await emitBefore(bus, 1, 30);
    await emitPayments(bus.db, 31, 33);
    const start = Date.now() + MINUTE;
    const at = (seconds: number) => new Date(start + seconds * 1000);
    const drainAt = (seconds: number) =>
      relay({
        db: bus.db,
        subscribers: [ledger()],
        until: Date.now() + MINUTE,
        now: start + seconds * 1000,
      });
    expect(await filled(bus.db, { perMinute: 120, now: at(0) })).toMatchObject({
      matched: 30,
      written: 6,
      isEnded: false,
    });
    await drainAt(0);
    expect(handed).toEqual(numbers(1, 6));
    await advanceBackfills(bus.db, Date.now() + MINUTE, at(1));
    await drainAt(1);
    await emitPayments(bus.db, 34, 34);
    for (let second = 3; second <= 30; second += 3) {
      await advanceBackfills(bus.db, Date.now() + MINUTE, at(second));
      await drainAt(second);
      expect(await contradictions(bus.db)).toEqual([]);
    }
    expect(handed).toEqual(numbers(1, 34));
  });

  test('at a pace leaves no lane to keys that are through', async ({ bus, handed, ledger }) => {
    await emitBefore(bus, 1, 20, (number) => `booking ${number}`);
    const start = Date.now() + MINUTE;
    // So slow that each key leaves its shared lane.
    const slow = ledger(() => sleep(300));
    const lanesOfKeys = async () => (await dueTimesOf(bus.db)).filter(({ key: ofKey }) => ofKey !== '');
    await filled(bus.db, { perMinute: 100, now: new Date(start) });
    for (let step = 0; step < 2; step += 1) {
      const now = start + step * 4000;
      if (step > 0) await advanceBackfills(bus.db, Date.now() + MINUTE, new Date(now));
      await relay({ db: bus.db, subscribers: [slow], until: Date.now() + MINUTE, now });
      expect(await lanesOfKeys()).toEqual([]);
    }
    expect(handed).toHaveLength(10);
    expect(await rows(bus.db, 'select from backfills where ended_at is null')).toHaveLength(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test.for([
    ['of a subscription without keys', ''],
    ['of a key', 'a key'],
    ['of a key in trouble', 'a key'],
  ])(
    'hands over all older events, also where an operator skips a newer one before they are written: one %s',
    async ([of, key], { bus, handed, ledger }) => {
      await emitBefore(bus, 1, 8, () => key!);
      await emitWithKeys(bus.db, 9, 11, () => key!);
      const start = Date.now() + MINUTE;
      const drainAt = (now: number, attached = ledger()) =>
        relay({ db: bus.db, subscribers: [attached], until: Date.now() + MINUTE, now });
      if (of === 'of a key in trouble') await drainAt(start, ledger(fail));
      await filled(bus.db, { perMinute: 100, now: new Date(start) });
      await drainAt(start);
      const written = handed.filter((number) => number <= 8);
      expect(written).toEqual(numbers(1, 5));
      const waiting = (await deliveriesOf(bus.db, 'ledger')).find(({ state }) =>
        ['pending', 'failing'].includes(state),
      );
      await skip(bus.db, { deliveryId: waiting!.id, by: 'kari', reason: 'handled by phone' });
      await advanceBackfills(bus.db, Date.now() + MINUTE, new Date(start + 10_000));
      await drainAt(start + 10_000);
      await advanceBackfills(bus.db, Date.now() + MINUTE, new Date(start + 20_000));
      expect(await contradictions(bus.db)).toEqual([]);
      await drainAt(start + 20_000);
      expect(handed.filter((number) => number <= 8)).toEqual(numbers(1, 8));
      expect(handed.slice(-2)).toEqual([10, 11]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('keeps up with a pace of more than one step at a time', async ({ bus }) => {
    await emitBefore(bus, 1, 4000);
    const start = Date.now() + MINUTE;
    await filled(bus.db, { perMinute: 60_000, now: new Date(start) });
    await advanceBackfills(bus.db, Date.now() + MINUTE, new Date(start + 3000));
    const [row] = await rows<{ written: number }>(bus.db, 'select written::int from backfills');
    expect(row!.written).toBeGreaterThanOrEqual(3000);
  });

  test('is continued by the cron when its process died', async ({ bus, handed, ledger }) => {
    await emitBefore(bus, 1, 1500);
    await emitPayments(bus.db, 1501, 1502);
    // Its time is up after the first thousand.
    expect(await filled(bus.db, { until: 0 })).toMatchObject({
      matched: 1500,
      written: 1000,
      isEnded: false,
    });
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 1000));
    await advanceBackfills(bus.db, Date.now() + MINUTE);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 1502));
  });

  test('is begun by the cron while another one waits for its next step', async ({ bus }) => {
    await emitPayments(bus.db, 1, 30);
    await emittedWithoutLedger(bus.db);
    await emittedWithout(bus.db, 'accounting');
    await emitPayments(bus.db, 31, 31);
    await drainLive(bus.db, []);
    expect(await filled(bus.db, { perMinute: 1 })).toMatchObject({ matched: 30, written: 1 });
    // A relay holds a lane, and so the request itself begins nothing.
    await holdLanesOf(bus.db, 'accounting');
    const behind = await filled(bus.db, { subscriber: 'accounting', until: 0 });
    expect(behind).toMatchObject({ matched: 30, written: 0, isEnded: false });
    await freeLanes(bus.db);
    await advanceBackfills(bus.db, Date.now() + MINUTE);
    expect(
      await rows(
        bus.db,
        'select subscriber, written::int, ended_at is not null as ended from backfills order by 1',
      ),
    ).toEqual([
      { subscriber: 'accounting', written: 30, ended: true },
      { subscriber: 'ledger', written: 1, ended: false },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is begun, written and ended by the cron before another one that writes all at once has ended', async ({
    bus,
  }) => {
    await emitBefore(bus, 1, 3500);
    await emitPayments(bus.db, 3501, 3530);
    await emittedWithout(bus.db, 'accounting');
    await emitPayments(bus.db, 3531, 3531);
    await drainLive(bus.db, []);
    expect(await filled(bus.db, { until: 0 })).toMatchObject({ written: 1000, isEnded: false });
    await holdLanesOf(bus.db, 'accounting');
    const behind = await filled(bus.db, { subscriber: 'accounting', until: 0 });
    expect(behind).toMatchObject({ matched: 30, written: 0, isEnded: false });
    await freeLanes(bus.db);
    await advanceBackfills(bus.db, Date.now() + MINUTE);
    expect(await rows(bus.db, 'select subscriber, written::int from backfills order by ended_at')).toEqual([
      { subscriber: 'accounting', written: 30 },
      { subscriber: 'ledger', written: 3500 },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('does not wait for another one whose lanes a relay holds', async ({ bus }) => {
    await emitBefore(bus, 1, 30);
    await emitPayments(bus.db, 31, 60);
    await emittedWithout(bus.db, 'accounting');
    await emitPayments(bus.db, 61, 61);
    await drainLive(bus.db, []);
    await holdLanesOf(bus.db, 'accounting');
    await filled(bus.db, { subscriber: 'accounting', until: 0 });
    await filled(bus.db, { perMinute: 60 });
    const later = new Date(Date.now() + MINUTE);
    // The other one is looked at again a little later.
    expect(await advanceBackfills(bus.db, Date.now() + MINUTE, later)).toBe(LOOK_EVERY_MS);
    expect(await rows(bus.db, 'select subscriber, written::int from backfills order by written')).toEqual([
      { subscriber: 'accounting', written: 0 },
      { subscriber: 'ledger', written: 15 },
    ]);
  });

  test.for(['begins', 'writes'])(
    'gives up after a limit while somebody holds lanes that it needs when it %s',
    async (act, { bus }) => {
      await emitBefore(bus, 1, 30);
      await filled(bus.db, { perMinute: 100 });
      if (act === 'begins') await rows(bus.db, 'update backfills set begun_at = null');
      const holder = await openTransaction(bus.url);
      await lockLanes(holder.client, `subscriber = 'ledger'`);
      const advancing = advanceBackfills(bus.db, Date.now() + MINUTE, new Date(Date.now() + MINUTE));
      await expect(advancing).rejects.toMatchObject({ code: '57014' });
      expect(await rows(bus.db, WAITING)).toEqual([]);
      await holder.commit();
    },
  );

  test('does not wait for another one that fails, which is tried again a minute later', async ({ bus }) => {
    await emitBefore(bus, 1, 30);
    await emitPayments(bus.db, 31, 60);
    await emittedWithout(bus.db, 'accounting');
    await drainLive(bus.db, []);
    const start = Date.now() + MINUTE;
    const advanceAt = (seconds: number) =>
      advanceBackfills(bus.db, Date.now() + MINUTE, new Date(start + seconds * 1000));
    const written = () => rows(bus.db, 'select subscriber, written::int from backfills order by subscriber');
    await filled(bus.db, { perMinute: 100, now: new Date(start) });
    await filled(bus.db, { subscriber: 'accounting', perMinute: 100, now: new Date(start) });
    await rows(
      bus.db,
      `create function refuse_step() returns trigger language plpgsql as $$ begin raise exception 'planted'; end $$`,
    );
    await rows(
      bus.db,
      `create trigger planted before update of reached on backfills for each row when (old.subscriber = 'ledger')
       execute function refuse_step()`,
    );
    await expect(advanceAt(4)).rejects.toThrow('planted');
    await advanceAt(7);
    expect(await written()).toEqual([
      { subscriber: 'accounting', written: 15 },
      { subscriber: 'ledger', written: 5 },
    ]);
    await rows(bus.db, 'drop function refuse_step cascade');
    await advanceAt(65);
    await advanceAt(125);
    expect(await written()).toEqual([
      { subscriber: 'accounting', written: 30 },
      { subscriber: 'ledger', written: 30 },
    ]);
  });

  test.for([0, 1, 2, 3])(
    'whose process died after %s transactions at its end is ended by the cron, and the newer ones follow',
    async (lived, { bus, handed, ledger }) => {
      await emitBefore(bus, 1, 6);
      await emitPayments(bus.db, 7, 8);
      const start = Date.now() + MINUTE;
      const drainAt = (now: number) =>
        relay({ db: bus.db, subscribers: [ledger()], until: Date.now() + MINUTE, now });
      await filled(bus.db, { perMinute: 100, now: new Date(start) });
      await drainAt(start);
      // So its lanes are asleep at the front.
      expect(handed).toEqual(numbers(1, 5));
      let count = 0;
      const dying = new Proxy(bus.db, {
        get(db, name) {
          if (name === 'transaction' && (count += 1) > lived) throw new Error('died');
          return Reflect.get(db, name);
        },
      });
      const advanceAt = (db: Database, now: number) =>
        advanceBackfills(db, Date.now() + MINUTE, new Date(now));
      await advanceAt(dying, start + 5000).catch(() => undefined);
      await advanceAt(bus.db, start + 10_000);
      await drainAt(start + 10_000);
      expect(handed).toEqual(numbers(1, 8));
    },
  );

  test('that is stopped lets the newer ones follow, and can be asked for again', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitBefore(bus, 1, 30);
    await emitPayments(bus.db, 31, 31);
    const { id } = await filled(bus.db, { perMinute: 100 });
    expect(await stopBackfill(bus.db, id, 'ola', 'too early')).toBe(true);
    expect(await stopBackfill(bus.db, id, 'ola', 'too early')).toBe(false);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([...numbers(1, 5), 31]);
    await filled(bus.db);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([...numbers(1, 5), 31, ...numbers(6, 30)]);
    expect(
      await rows(bus.db, 'select operator, action, reason from operator_actions order by at, id'),
    ).toEqual([
      { operator: 'kari', action: 'backfill', reason: null },
      { operator: 'ola', action: 'stop_backfill', reason: 'too early' },
      { operator: 'kari', action: 'backfill', reason: null },
    ]);
  });

  test('gives events that another release emitted, and that have no place yet, the new subscriber', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitBefore(bus, 1, 3);
    await emitPayments(bus.db, 4, 6);
    await emittedWithoutLedger(bus.db);
    expect(await filled(bus.db)).toMatchObject({ matched: 6, isEnded: true });
    await drainLive(bus.db, [ledger(), accounting]);
    expect(handed).toEqual(numbers(1, 6));
    expect(await contradictions(bus.db)).toEqual([]);
    expect(await findings(bus.db)).toEqual([]);
  });

  test('with the id of an earlier request begins nothing', async ({ bus }) => {
    await emitBefore(bus, 1, 10);
    const id = randomUUID();
    await filled(bus.db, { id });
    await emitBefore(bus, 11, 12);
    expect(await filled(bus.db, { id })).toEqual({ id, matched: 10, written: 0, isEnded: true });
  });

  test('is refused while another of the subscription is under way, or where more or less is missing than expected', async ({
    bus,
  }) => {
    await emitBefore(bus, 1, 10);
    await expect(filled(bus.db, { expectedCount: 9 })).rejects.toMatchObject({
      code: 'count_changed',
      matched: 10,
    });
    const { id } = await filled(bus.db, { perMinute: 20 });
    await expect(filled(bus.db)).rejects.toMatchObject({
      code: 'backfill_under_way',
      message: expect.stringContaining(id),
    });
  });

  test.for([
    ['payment.captured', 'calendar'],
    ['payment.captured', 'nobody'],
    ['payment.invented', 'ledger'],
  ] as const)('of %s for %s is refused: the catalog does not list it', async ([topic, name], { bus }) => {
    const asked = { topic, subscriber: name, since: LONG_AGO };
    const refusal = { code: 'no_such_subscription' };
    await expect(backfill(bus.db, { ...asked, by: 'kari' })).rejects.toMatchObject(refusal);
    await expect(previewBackfill(bus.db, asked)).rejects.toMatchObject(refusal);
    expect(await rows(bus.db, 'select 1 from lanes')).toEqual([]);
  });

  test('keeps what it has written from being pruned until it is delivered', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 10);
    await relist(bus.db, `'{accounting}'`);
    await drainLive(bus.db, [accounting]);
    const later = new Date(Date.now() + 31 * DAY);
    await filled(bus.db);
    await prune({ db: bus.db, until: Date.now() + MINUTE, now: later });
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 10));
    await prune({ db: bus.db, until: Date.now() + MINUTE, now: later });
    expect(await filled(bus.db)).toMatchObject({ matched: 0 });
  });

  test('of a paused subscriber is written, and waits', async ({ bus, handed, ledger }) => {
    await emitBefore(bus, 1, 5);
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'a test');
    expect(await filled(bus.db)).toMatchObject({ written: 5, isEnded: true });
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([]);
    await resume(bus.db, { subscriber: 'ledger', topic: null }, 'kari', null);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual(numbers(1, 5));
  });

  test('halts at a dead letter of an older event, and the newer ones wait behind it', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitBefore(bus, 1, 5);
    await emitPayments(bus.db, 6, 7);
    const attached = ledger((number) => number === 3 && refuse(), { afterDeadLetter: 'halt' });
    await filled(bus.db);
    await drainLive(bus.db, [attached]);
    expect(handed).toEqual([1, 2, 3]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test.for(['', 'a key'])(
    'that begins beside a claim of a limited subscriber comes before all that is newer, with the key %j',
    async (key, { bus, handed, ledger }) => {
      await emitBefore(bus, 1, 8, () => key);
      await emitWithKeys(bus.db, 9, 11, () => key);
      const limited = ledger(undefined, { concurrency: 1 });
      await publishLimits(bus.db, [limited]);
      await drainLive(bus.db, []);
      // The claim has read the limits, and has locked no lane yet.
      const { client, commit } = await openTransaction(bus.url);
      await client.query('lock table pauses');
      const claiming = rows<{ claimed: { lanes: { rows: { position: number }[]; positions: unknown }[] } }>(
        bus.db,
        `select claimed from postbud_claim_limited_2('ledger', '{}', gen_random_uuid(), '{payment.captured ledger}', '{99}',
           '{45000}', '{f}', 8, 100, 100, clock_timestamp() + interval '1 minute')`,
      );
      await expect.poll(() => rows(bus.db, WAITING)).toHaveLength(1);
      await filled(bus.db, { perMinute: 60 });
      await commit();
      const [found] = await claiming;
      const written = await rows<{ position: number }>(
        bus.db,
        `select position::float8 as position from ${RECORDS} where backfilled order by position`,
      );
      expect(found!.claimed.lanes).toMatchObject([{ rows: written, positions: null }]);
      await freeLanes(bus.db);
      await advanceBackfills(bus.db, Date.now() + MINUTE, new Date(Date.now() + MINUTE));
      await advanceBackfills(bus.db, Date.now() + MINUTE, new Date(Date.now() + HOUR));
      const now = Date.now() + 2 * HOUR;
      await relay({ db: bus.db, subscribers: [limited], until: Date.now() + MINUTE, now });
      expect(handed).toEqual(numbers(1, 11));
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('beside producers, relays and slow handlers keeps one order from its first event to the newest', async ({
    bus,
  }) => {
    const random = randomFrom(15_001);
    for (let round = 0; round < 3; round += 1) {
      await bus.reset();
      const keyOf =
        round === 1 ? () => '' : (number: number) => (number % 3 === 0 ? '' : `booking ${number % 7}`);
      await emitBefore(bus, 1, 3000, keyOf);
      const handed = new Map<string, number[]>();
      const attached = subscriber('ledger', {
        'payment.captured': async ({ payload, orderingKey }) => {
          if (random() < 0.02) await new Promise((resolve) => setTimeout(resolve, 2));
          handed.set(orderingKey, [...(handed.get(orderingKey) ?? []), payload.amountMinor]);
        },
      });
      const until = Date.now() + 2500;
      let next = 3001;
      const producing = (async () => {
        while (Date.now() < until) {
          const count = 1 + Math.floor(random() * 5);
          await emitWithKeys(bus.db, next, next + count - 1, keyOf);
          next += count;
        }
      })();
      const relaying = [1, 2].map(async () => {
        while (Date.now() < until) await relay({ db: bus.db, subscribers: [attached, accounting], until });
      });
      const filling = filled(bus.db, round === 2 ? { until: Date.now() + 30 } : {});
      await Promise.all([filling, producing, ...relaying]);
      await advanceBackfills(bus.db, Date.now() + MINUTE);
      await drainLive(bus.db, [attached, accounting]);
      expect(await contradictions(bus.db)).toEqual([]);
      const all = [...handed.values()].flat();
      expect(all.toSorted((one, other) => one - other)).toEqual(numbers(1, next - 1));
      for (const ofKey of handed.values()) {
        const first = ofKey.findIndex((number) => number <= 3000);
        const inOrder = ofKey.slice(first).toSorted((one, other) => one - other);
        expect(ofKey.slice(first)).toEqual(inOrder);
      }
    }
  });

  test('says in each delivery who asked for it', async ({ bus }) => {
    await emitBefore(bus, 1, 1);
    await filled(bus.db, { reason: 'the ledger begins' });
    const [delivery] = await deliveriesOf(bus.db, 'ledger');
    expect(delivery!.log).toMatchObject([{ outcome: 'backfilled', by: 'kari', reason: 'the ledger begins' }]);
    expect(await deliveriesOf(bus.db, 'ledger')).toMatchObject([{ state: 'pending', attempts: 0 }]);
  });
});
