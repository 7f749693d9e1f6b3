import pg from 'pg';
import { afterAll, describe, expect, onTestFinished } from 'vitest';

import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import type { ReplayRequest } from '../../lib/bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { NotActedOn } from '../../lib/bus/deliveries/refusals.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, DeliveryContext } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, drainLive, emitPayments, gate, rows } from '../support/bus.ts';
import { deliveriesOf, RECORDS } from '../support/records.ts';
import { lockLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { refuse } from '../support/ledger.ts';
import { randomFrom } from '../support/random.ts';
/** A second process, as far as the database can tell. */
let other: Connection;
test.beforeAll(async ({ database: bus }) => {
  other = await connect(bus.url);
});
afterAll(async () => {
  await other.close();
});

/** The ledger, which handles payments in this way. @param number the payment's, from 1. */
const ledger = (handle: (number: number, context: DeliveryContext) => unknown, transactional = false) => {
  const handlers = {
    'payment.captured': async (event: { payload: { amountMinor: number } }, context: DeliveryContext) =>
      void (await handle(event.payload.amountMinor, context)),
  };
  return transactional
    ? // Each call is an attempt then: none is rolled back with another.
      subscriber('ledger', handlers, { transactional: true, sharesCommits: false })
    : subscriber('ledger', handlers);
};

/** The deliveries of a subscriber by their place, oldest first. */
const letters = (bus: Bus, of = 'ledger') => deliveriesOf(bus.db, of);

const statesOf = async (bus: Bus, of = 'ledger') => (await letters(bus, of)).map(({ state }) => state);

const ask = (bus: Bus, request: Partial<ReplayRequest> = {}, db: Database = bus.db, now = START) =>
  replay(db, { topic: 'payment.captured', since: '1h', ...request }, 'kari', new Date(now));

/** Runs what an operator does in a transaction that is committed when the test says so: an operator who is slow. */
async function slowOperator(bus: Bus) {
  const client = new pg.Client(bus.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('begin');
  const commit = async () => {
    await client.query('commit');
  };
  const transaction = async (body: (tx: unknown) => Promise<unknown>) => await body(client);
  return { client, db: { $client: client, transaction } as unknown as Database, commit };
}

/** Resolves when so many statements wait for a lock that another one holds. */
async function waiting(bus: Bus, count: number): Promise<void> {
  await expect
    .poll(
      async () => {
        const [row] = await rows<{ count: number }>(
          bus.db,
          `select count(*)::int as count from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return row!.count;
      },
      { interval: 5 },
    )
    .toBe(count);
}

describe('a replay while a relay has the lane in hand', () => {
  test.for([false, true])(
    'returns dead letters that are older than the running deliveries (transactional: %j)',
    async (transactional, { bus }) => {
      await emitPayments(bus.db, 1, 6);
      await drain(bus.db, [ledger((number) => number <= 3 && refuse(), false)]);
      await emitPayments(bus.db, 7, 9);
      const begun = gate();
      const go = gate();
      const handed: number[] = [];
      const running = drain(bus.db, [
        ledger(async (number) => {
          handed.push(number);
          begun.open();
          if (number === 7) await go.opened;
        }, transactional),
      ]);
      await begun.opened;
      const asked = ask(bus);
      // A transactional handler that has settled nothing yet holds no lock.
      await asked;
      go.open();
      await running;
      expect(handed.toSorted((one, two) => one - two)).toEqual([1, 2, 3, 7, 8, 9]);
      expect(handed.filter((number) => number < 7)).toEqual([1, 2, 3]);
      expect(new Set(await statesOf(bus))).toEqual(new Set(['delivered']));
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test.for([false, true])(
    'loses no neighbour of the running delivery: two dead letters, replayed one after the other (transactional: %j)',
    async (transactional, { bus }) => {
      await emitPayments(bus.db, 1, 4);
      await drain(bus.db, [ledger((number) => number <= 2 && refuse())]);
      const [first, second] = await letters(bus);
      await ask(bus, { deliveryIds: [first!.id] });
      const begun = gate();
      const go = gate();
      const handed: number[] = [];
      const running = drain(bus.db, [
        ledger(async (number) => {
          handed.push(number);
          begun.open();
          if (number === 1) await go.opened;
        }, transactional),
      ]);
      await begun.opened;
      expect(await ask(bus, { deliveryIds: [second!.id] }, bus.db, START + 1)).toMatchObject({ replayed: 1 });
      go.open();
      await running;
      await drain(bus.db, [ledger((number) => handed.push(number))]);
      expect(await contradictions(bus.db)).toEqual([]);
      expect(handed).toEqual([1, 2]);
      expect(await statesOf(bus)).toEqual(['delivered', 'delivered', 'delivered', 'delivered']);
    },
  );

  test('loses no dead letter between two running deliveries', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(refuse)]);
    const [first, second, third] = await letters(bus);
    await ask(bus, { deliveryIds: [first!.id, third!.id] });
    const begun = gate();
    const go = gate();
    const handed: number[] = [];
    const running = drain(bus.db, [
      ledger(async (number) => {
        handed.push(number);
        begun.open();
        await go.opened;
      }),
    ]);
    await begun.opened;
    await ask(bus, { deliveryIds: [second!.id] }, bus.db, START + 1);
    go.open();
    await running;
    await drain(bus.db, [ledger((number) => handed.push(number))]);
    expect(await contradictions(bus.db)).toEqual([]);
    expect(handed.toSorted()).toEqual([1, 2, 3]);
  });
});

describe('two operators at once', () => {
  test('cannot skip a delivery past one that the other is replaying', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [
      ledger((number) => {
        if (number === 1) refuse();
        throw new Error('down');
      }),
    ]);
    const [dead, failing] = await letters(bus);
    const slow = await slowOperator(bus);
    await ask(bus, { deliveryIds: [dead!.id] }, slow.db);
    const skipped = skip(bus.db, {
      deliveryId: failing!.id,
      by: 'ola',
      reason: 'hopeless',
      now: new Date(START + 1),
    }).catch((error: unknown) => error);
    await waiting(bus, 1);
    await slow.commit();
    const outcome = await skipped;
    expect(await contradictions(bus.db)).toEqual([]);
    expect(outcome).toMatchObject({ code: 'not_first' });
    const handed: number[] = [];
    await drain(bus.db, [ledger((number) => handed.push(number))], { now: START + 10 * MINUTE });
    expect(handed).toEqual([1, 2, 3]);
  });

  test('do not replay a dead letter twice that died again after the other had asked', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    const accounting = subscriber('accounting', { 'payment.captured': refuse });
    await drain(bus.db, [ledger(refuse), accounting]);
    // The second operator's statement has begun, and waits for the lane of accounting.
    const holder = await slowOperator(bus);
    await lockLanes(holder.client, `subscriber = 'accounting'`);
    const second = ask(bus, {}, other.db, START + 1);
    await waiting(bus, 1);
    expect(await ask(bus, { subscriber: 'ledger' }, bus.db, START + 2)).toMatchObject({ replayed: 2 });
    await drain(bus.db, [ledger(refuse)], { now: START + 3 });
    expect((await letters(bus)).map(({ state, replays }) => [state, replays])).toEqual([
      ['dead_lettered', 1],
      ['dead_lettered', 1],
    ]);
    await holder.commit();
    expect(await second).toMatchObject({ matched: 2, replayed: 2 });
    expect((await letters(bus)).map(({ replays }) => replays)).toEqual([1, 1]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('replay nothing that the log does not count on a double click, even if a delivery dies in between', async ({
    bus,
  }) => {
    const replayId = '019a0000-0000-7000-8000-000000000001';
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(refuse)]);
    const slow = await slowOperator(bus);
    await ask(bus, { replayId }, slow.db);
    await emitPayments(bus.db, 3, 3, { orderingKey: 'venue 1' });
    await drain(bus.db, [
      ledger(() => {
        throw new PermanentError('refused for another reason');
      }),
    ]);
    const second = ask(bus, { replayId }, other.db, START + 1);
    await waiting(bus, 1);
    await slow.commit();
    expect(await second).toMatchObject({ replayId, matched: 2, replayed: 2 });
    expect(
      await rows(
        bus.db,
        `select (select sum(replayed)::int from replays) as logged, (select sum(replays)::int from ${RECORDS}) as done`,
      ),
    ).toEqual([{ logged: 2, done: 2 }]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('make only one of two skips of the same delivery, and only one of two retries', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    const failing = ledger(() => {
      throw new Error('down');
    });
    await drain(bus.db, [failing]);
    const [first] = await letters(bus);
    const hurry = (db: Database) =>
      retryNow(db, { deliveryId: first!.id, by: 'kari', now: new Date(START + 1) }).then(
        () => 'done',
        (error: NotActedOn) => error.code,
      );
    const hurried = await Promise.all([hurry(bus.db), hurry(other.db)]);
    expect(hurried.filter((outcome) => outcome === 'done')).toHaveLength(1);
    expect(['not_waiting', 'not_first']).toContain(hurried.find((outcome) => outcome !== 'done'));
    const give = (db: Database) =>
      skip(db, { deliveryId: first!.id, by: 'kari', reason: 'hopeless', now: new Date(START + 2) }).then(
        () => 'done',
        (error: NotActedOn) => error.code,
      );
    const given = await Promise.all([give(bus.db), give(other.db)]);
    expect(given.filter((outcome) => outcome === 'done')).toHaveLength(1);
    expect(['not_waiting', 'not_first']).toContain(given.find((outcome) => outcome !== 'done'));
    expect(
      await rows(bus.db, 'select action, count(*)::int from operator_actions group by 1 order by 1'),
    ).toEqual([
      { action: 'retry', count: 1 },
      { action: 'skip', count: 1 },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('a delivery that is under way', () => {
  test('is neither skipped nor retried early, and a pause lets it end', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    const begun = gate();
    const go = gate();
    const running = drain(bus.db, [
      ledger(async () => {
        begun.open();
        await go.opened;
      }),
    ]);
    await begun.opened;
    const [first] = await letters(bus);
    await expect(
      skip(other.db, { deliveryId: first!.id, by: 'kari', reason: 'hopeless' }),
    ).rejects.toMatchObject({ code: 'under_way' });
    await expect(retryNow(other.db, { deliveryId: first!.id, by: 'kari' })).rejects.toMatchObject({
      code: 'under_way',
    });
    expect(await pause(other.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving house')).toBe(true);
    go.open();
    await running;
    expect(await statesOf(bus)).toEqual(['delivered']);
    await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger(() => undefined)]);
    expect(await statesOf(bus)).toEqual(['delivered', 'pending']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

const ROUNDS = 24;

/** One delivery as it should be told from what handlers saw. */
interface Seen {
  readonly deliveryId: string;
  readonly replayed: boolean;
  readonly outcome: 'delivered' | 'failed';
}

/** Where its event stands among all: its key, and its number. */
interface Place {
  readonly key: string;
  readonly number: number;
}

const placeOf = (number: number): Place => ({ key: number >= 6 && number <= 8 ? 'venue 1' : '', number });

/** What handlers did, in the order in which they began. */
class Witness {
  readonly seen: (Seen & Place)[] = [];
  readonly wrongs: string[] = [];
  readonly #running = new Set<string>();

  /** Takes down a call, and lets nothing else of its key run beside it. */
  async during(
    { deliveryId, replayed }: DeliveryContext,
    place: Place,
    handle: () => Promise<void>,
  ): Promise<void> {
    const { key } = place;
    if (this.#running.has(key)) this.wrongs.push(`${deliveryId} began while its key ran`);
    this.#running.add(key);
    const index = this.seen.push({ deliveryId, replayed, outcome: 'failed', ...place }) - 1;
    try {
      await handle();
      this.seen[index] = { deliveryId, replayed, outcome: 'delivered', ...place };
    } finally {
      this.#running.delete(key);
    }
  }

  /** Within a key only what was put back comes after something newer. */
  outOfOrder(): string[] {
    const furthest = new Map<string, number>();
    return this.seen.flatMap(({ deliveryId, replayed, key, number }) => {
      const before = furthest.get(key) ?? 0;
      furthest.set(key, Math.max(before, number));
      return number < before && !replayed ? [deliveryId] : [];
    });
  }

  /** How often each was handed over, and to what end. */
  calls(): Map<string, string[]> {
    const calls = new Map<string, string[]>();
    for (const { deliveryId, outcome } of this.seen) {
      calls.set(deliveryId, [...(calls.get(deliveryId) ?? []), outcome]);
    }
    return calls;
  }
}

/** The history that the database kept of each of the ledger's deliveries: what handlers did. */
async function kept(bus: Bus): Promise<Map<string, string[]>> {
  const found = await deliveriesOf(bus.db, 'ledger');
  return new Map(
    found.map(({ id, state, log }) => {
      const attempts = (log ?? [])
        .map(({ outcome }) => outcome)
        .filter((outcome) => outcome === 'failed' || outcome === 'delivered');
      return [id, state === 'delivered' ? [...attempts, 'delivered'] : attempts];
    }),
  );
}

describe(`${ROUNDS} rounds of everything at once`, () => {
  interface Acting {
    readonly db: Database;
    readonly random: () => number;
    /** A random number of round trips: what else happens in between differs from round to round. */
    readonly dawdle: () => Promise<void>;
    readonly anyDelivery: () => Promise<string>;
  }

  const replays = async ({ db, random, dawdle, anyDelivery }: Acting) => {
    await dawdle();
    const ways: Partial<ReplayRequest>[] = [
      {},
      { subscriber: 'ledger' },
      { limit: 1, subscriber: 'ledger' },
      { deliveryIds: [await anyDelivery()] },
      { include: 'all', subscriber: 'ledger' },
      { deliveryIds: [await anyDelivery(), await anyDelivery()] },
      { deliveryIds: [await anyDelivery()], include: 'all' },
    ];
    await replay(
      db,
      { topic: 'payment.captured', since: '1h', ...ways[Math.floor(random() * ways.length)]! },
      'kari',
    );
  };

  const actsOnLane = async ({ db, random, dawdle, anyDelivery }: Acting) => {
    await dawdle();
    const deliveryId = await anyDelivery();
    try {
      if (random() < 0.5) await retryNow(db, { deliveryId, by: 'ola' });
      else await skip(db, { deliveryId, by: 'ola', reason: 'in the way' });
    } catch (error) {
      if (!(error instanceof NotActedOn)) throw error;
    }
  };

  const pauses = async ({ db, random, dawdle }: Acting) => {
    const topic = random() < 0.5 ? null : 'payment.captured';
    await dawdle();
    await pause(db, { subscriber: 'ledger', topic }, 'per', 'moving house');
    await dawdle();
    await resume(db, { subscriber: 'ledger', topic }, 'per', null);
  };

  /** Everything at once, with a clock that moves; then all is finished with one that stands further on. */
  async function round(bus: Bus, seed: number, transactional: boolean): Promise<Witness> {
    const random = randomFrom(seed);
    const witness = new Witness();
    const dawdle = async (db: Database) => {
      const turns = Math.floor(random() * 12);
      for (let turn = 0; turn < turns; turn += 1) await rows(db, 'select 1');
    };
    const fickle = ledger(
      (number, context) =>
        witness.during(context, placeOf(number), async () => {
          await dawdle(bus.db);
          const luck = random();
          if (luck < 0.4) throw new PermanentError(`refused ${Math.floor(luck * 10)}`);
          if (luck < 0.5) throw new Error('down');
        }),
      transactional,
    );
    const steady = ledger(
      (number, context) => witness.during(context, placeOf(number), async () => undefined),
      transactional,
    );
    await emitPayments(bus.db, 1, 5);
    await emitPayments(bus.db, 6, 8, { orderingKey: 'venue 1' });
    const live = (subscribers: readonly AttachedSubscriber[], db: Database) => drainLive(db, subscribers);
    // Some are dead or waiting when it begins.
    await live([fickle], bus.db);
    const known = await letters(bus);
    const anyDelivery = async () => known[Math.floor(random() * known.length)]!.id;
    const as = (db: Database): Acting => ({ db, random, dawdle: () => dawdle(db), anyDelivery });
    const keepsOn = async (db: Database) => {
      for (let pass = 0; pass < 3; pass += 1) {
        await dawdle(db);
        await live([fickle], db);
      }
    };
    await Promise.all([
      keepsOn(bus.db),
      keepsOn(other.db),
      emitPayments(bus.db, 9, 11),
      replays(as(bus.db)),
      replays(as(other.db)),
      replays(as(other.db)),
      actsOnLane(as(bus.db)),
      actsOnLane(as(other.db)),
      actsOnLane(as(other.db)),
      pauses(as(other.db)),
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
    const later = Date.now() + DAY;
    await drain(bus.db, [steady], { now: later });
    await replay(
      bus.db,
      { topic: 'payment.captured', since: '2d', subscriber: 'ledger' },
      'kari',
      new Date(later + MINUTE),
    );
    await drain(bus.db, [steady], { now: later + 2 * MINUTE });
    return witness;
  }

  test.for([
    ['an ordinary handler', false],
    ['a transactional handler', true],
  ] as const)(
    '%s is handed every delivery in order, and the history agrees with what it saw',
    async ([, transactional], { bus }) => {
      for (let seed = 1; seed <= ROUNDS / 2; seed += 1) {
        await bus.reset();
        await rows(bus.db, 'truncate replays, operator_actions, pauses');
        const witness = await round(bus, seed + (transactional ? 1000 : 0), transactional);
        const told = `seed ${seed}`;
        expect(await contradictions(bus.db), told).toEqual([]);
        expect(new Set(await statesOf(bus)), told).toEqual(new Set(['delivered']));
        expect(await deliveriesOf(bus.db, 'ledger'), told).toHaveLength(11);
        expect(witness.wrongs, told).toEqual([]);
        expect(witness.outOfOrder(), told).toEqual([]);
        expect(await kept(bus), told).toEqual(witness.calls());
        expect(
          await rows(
            bus.db,
            `select (select sum(replayed)::int from replays) = (select sum(replays)::int from ${RECORDS}) as counted`,
          ),
          told,
        ).toEqual([{ counted: true }]);
      }
    },
  );
});
