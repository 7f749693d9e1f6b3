import { afterAll, describe, expect } from 'vitest';

import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import type { ReplayRequest } from '../../lib/bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retire } from '../../lib/bus/deliveries/operations/retire.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, eventStates, numbers, rows } from '../support/bus.ts';
import { deliveryIdsOf, statesOf, RECORDS, countDeliveries, haltsOf } from '../support/records.ts';
import { changeDeliveries, relist } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { randomFrom } from '../support/random.ts';

/** A second process, as far as the database can tell. */
let other: Connection;
test.beforeAll(async ({ database: bus }) => {
  other = await connect(bus.url);
});
afterAll(async () => {
  await other.close();
});

const LATER = new Date(START + MINUTE);
const OF_LEDGER = { topic: 'payment.captured', subscriber: 'ledger' };
const HOW = { action: 'dismiss', by: 'kari', reason: 'booked by hand', now: LATER } as const;

const dismissAll = (db: Database, kind: string | null = null, now = LATER) =>
  dismiss(db, { ...OF_LEDGER, kind }, { ...HOW, now, until: Date.now() + MINUTE });

const replayed = (db: Database, request: Partial<ReplayRequest>, now: Date) =>
  replay(db, { topic: 'payment.captured', since: '1h', ...request }, 'kari', now);

/** Attaches a subscriber that the catalog does not list. */
function unlisted(name: string, handle: () => unknown): AttachedSubscriber {
  return { ...attach('ledger', {}), name, handlers: new Map([['payment.captured', handle]]) };
}

/** Addresses the events that await their places to `postcards` too, as a release does whose catalog lists it. */
const addressToPostcards = (db: Database) => relist(db, `subscribers || 'postcards'::text`);

const dismissedOf = async (db: Database) =>
  await rows<{ outcome: string; by: string; reason: string }>(
    db,
    `select attempt_log -> -1 ->> 'outcome' as outcome, attempt_log -> -1 ->> 'by' as by,
       attempt_log -> -1 ->> 'reason' as reason
     from ${RECORDS} where dismissed_at is not null`,
  );

describe('a dismissed dead letter', () => {
  test('leaves all counts and stays on record with the operator and the reason', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(refuse)]);
    expect(await dismissAll(bus.db)).toEqual({ dismissed: 3, left: 0 });
    expect(await contradictions(bus.db)).toEqual([]);
    expect((await examine(bus.db)).findings).toEqual([]);
    const { totals } = await readOverview(bus.db, [ledger()], LATER);
    expect(totals).toMatchObject({ deadLettered: 0, deliveries: { deadLettered: 0 } });
    expect(await statesOf(bus.db)).toEqual(['dead_lettered', 'dead_lettered', 'dead_lettered']);
    expect(await dismissedOf(bus.db)).toEqual(
      numbers(1, 3).map(() => ({ outcome: 'dismissed', by: 'kari', reason: 'booked by hand' })),
    );
    expect(
      await rows(bus.db, 'select operator, action, topic, subscriber, reason from operator_actions'),
    ).toEqual([{ operator: 'kari', action: 'dismiss', ...OF_LEDGER, reason: 'booked by hand' }]);
  });

  test('is dismissed once, however often it is asked for', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(refuse)]);
    const answers = await Promise.all([dismissAll(bus.db), dismissAll(other.db), dismissAll(bus.db)]);
    expect(answers.reduce((sum, { dismissed }) => sum + dismissed, 0)).toBe(3);
    expect(await dismissedOf(bus.db)).toHaveLength(3);
    expect(await rows(bus.db, 'select from operator_actions')).toHaveLength(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is of the kind of error that was named; the others stay dead letters', async ({ bus }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(bus.db, [
      ledger(
        (number) => {
          if (number % 2 === 0) refuse();
          throw Object.assign(new PermanentError('gone'), { code: 'permanent', name: 'Gone' });
        },
        { maxAttempts: 1 },
      ),
    ]);
    await rows(bus.db, `update error_groups set kind = 'http_410' where message = 'gone'`);
    expect(await dismissAll(bus.db, 'http_410')).toEqual({ dismissed: 2, left: 0 });
    const { totals } = await readOverview(bus.db, [ledger()], LATER);
    expect(totals.deliveries.deadLettered).toBe(2);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('can still be replayed, by its id or with all that were dismissed, and is counted once', async ({
    bus,
    handed,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(bus.db, [ledger(refuse)]);
    await dismissAll(bus.db);
    const [first] = await deliveryIdsOf(bus.db);
    const soon = new Date(START + 2 * MINUTE);
    expect(await replayed(bus.db, { subscriber: 'ledger' }, soon)).toMatchObject({ replayed: 0 });
    expect(await replayed(bus.db, { subscriber: 'ledger', include: 'all' }, soon)).toMatchObject({
      replayed: 0,
    });
    const { replayed: chosen } = await replay(bus.db, { deliveryIds: [first!] }, 'kari', soon);
    expect(chosen).toBe(1);
    expect(await contradictions(bus.db)).toEqual([]);
    expect(await replayed(bus.db, { include: 'dismissed' }, soon)).toMatchObject({ matched: 3, replayed: 3 });
    expect(await contradictions(bus.db)).toEqual([]);
    await drain(bus.db, [ledger((number) => handed.push(number))], { now: soon.getTime() + MINUTE });
    expect(handed).toEqual([1, 2, 3, 4]);
    expect(new Set(await statesOf(bus.db))).toEqual(new Set(['delivered']));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is pruned with its event after the retention', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await relist(bus.db, `'{ledger}'`);
    await drain(bus.db, [ledger(refuse)]);
    await dismissAll(bus.db);
    expect(await eventStates(bus.db)).toEqual(['delivered', 'delivered']);
    const pruned = await prune({
      db: bus.db,
      until: Date.now() + MINUTE,
      now: new Date(Date.now() + 31 * DAY),
    });
    expect(pruned).toEqual({ events: 2, deliveries: 2 });
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('dismissals, replays, relays and pruning at once', () => {
  test('lose no count and no delivery: each is delivered, dead or dismissed', async ({ bus }) => {
    for (const seed of numbers(1, 6)) {
      await bus.reset();
      const random = randomFrom(seed);
      await emitPayments(bus.db, 1, 20);
      await emitPayments(bus.db, 21, 40, { orderingKey: 'venue 1' });
      const fickle = ledger(() => {
        if (random() < 0.6) throw new PermanentError(`refused ${Math.floor(random() * 3)}`);
      });
      const live = async (db: Database) => {
        for (let pass = 0; pass < 3; pass += 1) await drain(db, [fickle], { now: Date.now() });
      };
      const acts = async (db: Database) => {
        for (let turn = 0; turn < 5; turn += 1) {
          const now = new Date();
          const luck = random();
          if (luck < 0.5) await dismissAll(db, null, now);
          else if (luck < 0.75) await replayed(db, { subscriber: 'ledger' }, now);
          else await replayed(db, { include: 'dismissed' }, now);
        }
      };
      await live(bus.db);
      await Promise.all([
        live(bus.db),
        live(other.db),
        acts(bus.db),
        acts(other.db),
        acts(other.db),
        prune({ db: bus.db, until: Date.now() + MINUTE, keepMs: 0 }),
        prune({ db: other.db, until: Date.now() + MINUTE, keepMs: 0 }),
      ]);
      await drain(bus.db, [ledger()], { now: Date.now() + 2 * DAY });
      expect(await contradictions(bus.db), `seed ${seed}`).toEqual([]);
      const open = `subscriber = 'ledger' and state not in ('delivered', 'dead_lettered')`;
      expect(await countDeliveries(bus.db, open), `seed ${seed}`).toBe(0);
    }
  });
});

const DOWN = `
  insert into outages (subscriber, kind, message, opened_at, next_probe_at)
  values ('postcards', 'timeout', 'too slow', now(), now())`;

const BACKFILLED = `
  insert into backfills (id, topic, subscriber, since, requested_at, requested_by, matched, next_at)
  values ($1::uuid, 'payment.captured', 'postcards', now() - interval '1 hour', now(), 'ola', 3, now())`;

/** A lane without deliveries, as a backfill makes it. */
const NEW_LANE = `
  with lane as (
    insert into lanes (stream, topic, slot, subscriber)
    select id, topic, slot, 'postcards' from streams where topic = 'payment.captured' returning id, stream
  )
  insert into journal (lane, number, head, at)
  select id, 0, (select max(position) from log where log.stream = lane.stream), now() from lane`;

const BACKFILL_ID = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a78';

describe('a retired subscriber', () => {
  const retired = (db: Database, now = LATER) =>
    retire(
      db,
      { subscriber: 'postcards', topic: null },
      { by: 'kari', reason: 'postcards are history', now },
    );

  async function withPostcards(bus: Bus, handle: () => unknown): Promise<void> {
    await emitPayments(bus.db, 1, 3);
    await emitPayments(bus.db, 4, 9, { orderingKey: 'venue 1' });
    await emitPayments(bus.db, 10, 12, { orderingKey: 'venue 2' });
    await addressToPostcards(bus.db);
    await drain(bus.db, [ledger(), unlisted('postcards', handle)]);
  }

  test('shows up nowhere, and the log of operators keeps the reason', async ({ bus }) => {
    let calls = 0;
    await withPostcards(bus, () => {
      calls += 1;
      if (calls % 2 === 0) refuse();
      fail();
    });
    const before = await statesOf(bus.db, 'postcards');
    expect(new Set(before)).toEqual(new Set(['dead_lettered', 'failing', 'pending']));
    expect(await retired(bus.db)).toEqual({ topics: ['payment.captured'], dismissed: 12 });
    expect(await contradictions(bus.db)).toEqual([]);
    expect((await examine(bus.db)).findings).toEqual([]);
    const { topics, totals } = await readOverview(bus.db, [ledger()], LATER);
    expect(topics.flatMap(({ subscribers }) => subscribers.map((one) => one.subscriber))).not.toContain(
      'postcards',
    );
    expect(totals.deliveries).toMatchObject({ failing: 0, deadLettered: 0 });
    expect(await rows(bus.db, `select action, subscriber, reason from operator_actions`)).toEqual([
      { action: 'retire', subscriber: 'postcards', reason: 'postcards are history' },
    ]);
    expect(await retired(bus.db)).toEqual({ topics: [], dismissed: 0 });
    expect(
      await retire(bus.db, { subscriber: 'telegrams', topic: null }, { by: 'kari', reason: '' }),
    ).toBeNull();
  });

  test('leaves other subscribers alone, however much waited for it', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2300);
    await addressToPostcards(bus.db);
    await drain(bus.db, [unlisted('postcards', fail)]);
    expect(await retired(bus.db)).toEqual({ topics: ['payment.captured'], dismissed: 2300 });
    expect(await contradictions(bus.db)).toEqual([]);
    expect(new Set(await statesOf(bus.db))).toEqual(new Set(['pending']));
  });

  test('is refused while the catalog lists it, for the topic or for any', async ({ bus }) => {
    const how = { by: 'kari', reason: 'no longer needed' };
    for (const topic of ['payment.captured', null]) {
      const refusal = retire(bus.db, { subscriber: 'ledger', topic }, how);
      await expect(refusal).rejects.toMatchObject({ code: 'still_listed' });
    }
  });

  test('is refused while a relay delivers to it, which another release may', async ({ bus }) => {
    let refusal: unknown;
    await withPostcards(bus, async () => {
      refusal ??= await retired(bus.db, new Date(START)).catch((error: unknown) => error);
    });
    expect(refusal).toMatchObject({ code: 'under_way' });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is neither halted, nor down, nor backfilled any more, and that is on record', async ({ bus }) => {
    await withPostcards(bus, refuse);
    await changeDeliveries(bus.db, 'is_open = true', `subscriber = 'postcards' and state = 'dead_lettered'`);
    expect(await haltsOf(bus.db)).not.toEqual([]);
    await rows(bus.db, DOWN);
    await rows(bus.db, BACKFILLED, [BACKFILL_ID]);
    await retired(bus.db);
    expect(await haltsOf(bus.db)).toEqual([]);
    expect(await rows(bus.db, 'select from outages')).toEqual([]);
    expect(await rows(bus.db, 'select from backfills where ended_at is null')).toEqual([]);
    expect(await rows(bus.db, `select from operator_actions where action = 'retire'`)).toHaveLength(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('keeps nothing of a backfill whose process died', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger()]);
    await rows(bus.db, NEW_LANE);
    await rows(bus.db, BACKFILLED, [BACKFILL_ID]);
    await rows(bus.db, 'select postbud_begin_backfill_2($1::uuid, now())', [BACKFILL_ID]);
    await rows(bus.db, 'select postbud_backfill_2($1::uuid, 2, now())', [BACKFILL_ID]);
    expect(await statesOf(bus.db, 'postcards')).toEqual(['pending', 'pending']);
    expect(await retired(bus.db)).toEqual({ topics: ['payment.captured'], dismissed: 2 });
    expect(await statesOf(bus.db, 'postcards')).toEqual([]);
    expect(await rows(bus.db, 'select from backfills where ended_at is null')).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
    expect((await examine(bus.db)).findings).toEqual([]);
  });

  test('is no longer paused, and that is on record where nothing had to be dismissed', async ({ bus }) => {
    await withPostcards(bus, () => undefined);
    await rows(
      bus.db,
      `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
       values ('postcards', 'payment.captured', now(), 'ola', 'moving')`,
    );
    expect(await retired(bus.db)).toEqual({ topics: ['payment.captured'], dismissed: 0 });
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    expect(await rows(bus.db, 'select action from operator_actions')).toEqual([{ action: 'retire' }]);
  });

  test('is no longer paused', async ({ bus }) => {
    await withPostcards(bus, fail);
    await rows(
      bus.db,
      `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
       values ('postcards', '', now(), 'ola', 'moving'), ('postcards', 'payment.captured', now(), 'ola', 'moving')`,
    );
    await retired(bus.db);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
  });
});
