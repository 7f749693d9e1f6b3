import { sql } from 'drizzle-orm';
import { afterEach, beforeEach, describe, expect, vi } from 'vitest';

import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type {
  TransactionalBatchContext,
  TransactionalContext,
} from '../../lib/bus/subscribers/subscriber.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, emitPayments, numbers, rows, START } from '../support/bus.ts';
import { deliveriesOf, leasedLanes } from '../support/records.ts';
import { stealLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { loseAnswers } from '../support/lost-answers.ts';
/** The numbers of the payments as they were handed over, and in which transaction. */
let handed: { number: number; transaction: string }[];

test.beforeAll(async ({ database: bus }) => {
  await rows(bus.db, 'create table effects (number int unique deferrable initially deferred)');
});
beforeEach(async () => {
  handed = [];
  // Handlers take no time, unless they say so: how many share a commit is a matter of that.
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

async function write(tx: Transaction, number: number): Promise<void> {
  const [row] = await run<{ transaction: string }>(tx, {
    text: 'insert into effects values ($1::int) returning pg_current_xact_id()::text as transaction',
    values: [number],
  });
  handed.push({ number, transaction: row!.transaction });
}

type Then = (number: number, context: TransactionalContext) => unknown;

/** Writes the number of each payment in the transaction that it is given, then does this. */
const writing = (
  then: Then = () => undefined,
  options: { timeoutMs?: number; sharesCommits?: boolean } = {},
) =>
  subscriber(
    'ledger',
    {
      'payment.captured': async ({ payload }, context) => {
        await write(context.tx, payload.amountMinor);
        await then(payload.amountMinor, context);
      },
    },
    { ...options, transactional: true },
  );

/** What was handed over in each transaction. */
const transactions = () => {
  const all = [...new Set(handed.map(({ transaction }) => transaction))];
  return all.map((own) =>
    handed.filter(({ transaction }) => transaction === own).map(({ number }) => number),
  );
};
const effects = async (bus: Bus) =>
  (await rows<{ number: number }>(bus.db, 'select number from effects order by 1')).map(
    ({ number }) => number,
  );
const stored = async (bus: Bus) =>
  (await deliveriesOf(bus.db, 'ledger')).map(({ state, attempts }) => `${state} ${attempts}`);

/** What a transaction may leave behind: locks of a session, and a transaction that was prepared. */
const LEFT_BEHIND = `select locktype as left_behind from pg_locks
  where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
  union all select gid from pg_prepared_xacts`;

describe('a commit that transactional handlers share (rule 17)', () => {
  test('holds 32 deliveries of a backlog, in order', async ({ bus }) => {
    await emitPayments(bus.db, 1, 70);
    expect(await drain(bus.db, [writing()])).toMatchObject({ delivered: 70 });
    expect(transactions()).toEqual([numbers(1, 32), numbers(33, 64), numbers(65, 70)]);
    expect(await effects(bus)).toEqual(numbers(1, 70));
    expect(await stored(bus)).toEqual(Array(70).fill('delivered 1'));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('takes no further delivery after its transaction was open for 50 milliseconds', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [writing(() => vi.advanceTimersByTime(60))]);
    expect(transactions()).toEqual([[1], [2], [3]]);
  });

  test('gives each handler a context of its own', async ({ bus }) => {
    const seen: { deliveryId: string; signal: AbortSignal; attempt: number }[] = [];
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [
      writing((_, { deliveryId, signal, attempt }) => void seen.push({ deliveryId, signal, attempt })),
    ]);
    expect(new Set(seen.map(({ deliveryId }) => deliveryId)).size).toBe(3);
    expect(new Set(seen.map(({ signal }) => signal)).size).toBe(3);
    expect(seen.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
  });

  test('is rolled back when a handler fails; the deliveries up to that one run one by one, the later ones together', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 6);
    const attached = [
      writing((number, { attempt }) => {
        if (number === 3 && attempt === 1) throw new Error('after writing');
      }),
    ];
    expect(await drain(bus.db, attached)).toMatchObject({ delivered: 2, failed: 1 });
    expect(transactions()).toEqual([[1, 2, 3], [1], [2], [3]]);
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await stored(bus)).toEqual([
      'delivered 1',
      'delivered 1',
      'failing 1',
      ...Array(3).fill('pending 0'),
    ]);
    expect((await deliveriesOf(bus.db, 'ledger'))[2]!.log).toMatchObject([{ message: 'after writing' }]);
    handed = [];
    expect(await drain(bus.db, attached, { now: START + MINUTE })).toMatchObject({ delivered: 4 });
    expect(transactions()).toEqual([[3, 4, 5, 6]]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('whose first handler fails does not run it again, because no other is rolled back with it', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [
      writing((number) => {
        if (number === 1) throw new Error('at once');
      }),
    ]);
    expect(transactions()).toEqual([[1]]);
    expect(await stored(bus)).toEqual(['failing 1', 'pending 0', 'pending 0']);
  });

  test.for([
    ['PermanentError', () => new PermanentError('never'), 'dead_lettered 1', 'delivered 1'],
    ['RetryAfter', () => new RetryAfter(SECOND), 'pending 0', 'pending 0'],
  ] as const)(
    'uses no attempt of the neighbours of a delivery that throws %s',
    async ([, error, third, fourth], { bus }) => {
      await emitPayments(bus.db, 1, 4);
      await drain(bus.db, [
        writing((number) => {
          if (number === 3) throw error();
        }),
      ]);
      expect(await stored(bus)).toEqual(['delivered 1', 'delivered 1', third, fourth]);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('fails only the delivery that exceeds its time limit', async ({ bus }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(bus.db, [
      writing((number) => (number === 3 ? new Promise(() => undefined) : undefined), { timeoutMs: 1000 }),
    ]);
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await stored(bus)).toEqual(['delivered 1', 'delivered 1', 'failing 1', 'pending 0']);
    expect((await deliveriesOf(bus.db, 'ledger'))[2]!.log).toMatchObject([{ kind: 'timeout' }]);
  });

  test('fails the delivery that breaks the transaction, not the one that finds it broken', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(bus.db, [
      writing(async (number, { tx }) => {
        if (number === 2) await run(tx, { text: 'select 1 / 0', values: [] }).catch(() => undefined);
      }),
    ]);
    expect(await effects(bus)).toEqual([1]);
    expect(await stored(bus)).toEqual(['delivered 1', 'failing 1', 'pending 0', 'pending 0']);
  });

  test.for([
    'commit',
    'end',
    'rollback',
    'abort work',
    'begin',
    'start transaction',
    "prepare transaction 'p'",
    'commit and chain',
    'rollback; begin',
    'insert into effects values (0); commit; begin',
    '-- all is well\n /* it is */ Commit',
    "select 'it''s; fine', $$ ; begin $$; rollback and chain",
    'select pg_advisory_lock(1)',
    "select pg_try_advisory_lock_shared(1, hashtext('a'))",
    '/* it’s /* */ */ commit',
    'select 1 as a$b$; commit; select 1 as a$b$',
  ])('fails the delivery whose handler sends “%s”, and none of its neighbours', async (command, { bus }) => {
    await emitPayments(bus.db, 1, 4);
    const attached = [
      writing(async (number, { tx, attempt }) => {
        if (number === 3 && attempt === 1) await tx.execute(sql.raw(command)).catch(() => undefined);
      }),
    ];
    expect(await drain(bus.db, attached)).toMatchObject({ delivered: 2, failed: 1 });
    expect(await stored(bus)).toEqual(['delivered 1', 'delivered 1', 'failing 1', 'pending 0']);
    expect((await deliveriesOf(bus.db, 'ledger'))[2]!.log).toMatchObject([
      { kind: 'transaction_command', message: expect.stringContaining('return for a commit') },
    ]);
    await rows(bus.db, 'delete from effects where number in (0, 3)');
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await drain(bus.db, attached, { now: START + MINUTE })).toMatchObject({ delivered: 2 });
    expect(await effects(bus)).toEqual([1, 2, 3, 4]);
    expect(await rows(bus.db, LEFT_BEHIND)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('lets its handlers use savepoints, locks of the transaction, and these words elsewhere', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    const handler = writing(async (number, { tx }) => {
      await tx.execute(sql`savepoint mine`);
      await tx.execute(sql`insert into effects values (100)`);
      await tx.execute(sql`rollback to savepoint mine`);
      await tx.execute(sql`release mine`);
      const inner = tx.transaction(async (nested) => {
        await write(nested, 200);
        throw new Error('only this part');
      });
      await expect(inner).rejects.toThrow('only this part');
      await tx.execute(sql`select pg_advisory_xact_lock(1), 'commit; begin' as "; rollback" -- ; end`);
      await tx.execute(sql`do $$ begin perform 1; end $$; select 1 as commit`);
      await run(tx, { text: 'select $1 as begin', values: ['; commit'] });
      expect(number).toBeLessThan(4);
    });
    expect(await drain(bus.db, [handler])).toMatchObject({ delivered: 3, failed: 0 });
    expect(await effects(bus)).toEqual([1, 2, 3]);
  });

  test('ends for each handler when that has returned, also for what it did not await', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    let kept: Transaction | undefined;
    const errors: unknown[] = [];
    let late: Promise<void> | undefined;
    await drain(bus.db, [
      writing(async (number, { tx }) => {
        if (number === 1) {
          kept = tx;
          late = (async () => {
            await rows(bus.db, 'select pg_sleep(0.02)');
            await write(tx, 10).catch((error: unknown) => void errors.push(error));
          })();
        } else {
          await write(kept!, 20).catch((error: unknown) => void errors.push(error));
          await late;
        }
      }),
    ]);
    expect(errors).toMatchObject([{ code: 'transaction_ended' }, { code: 'transaction_ended' }]);
    expect(transactions()).toEqual([[1, 2]]);
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await stored(bus)).toEqual(['delivered 1', 'delivered 1']);
  });

  test('fails the delivery that cannot be committed, and uses no attempt of the others', async ({ bus }) => {
    await emitPayments(bus.db, 1, 4);
    await drain(bus.db, [
      writing(async (number, { tx }) => {
        // Found at the commit.
        if (number === 3) await write(tx, number);
      }),
    ]);
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await stored(bus)).toEqual(['delivered 1', 'delivered 1', 'failing 1', 'pending 0']);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('uses no attempt and takes effect once when the answer to the commit is lost', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, []);
    let isLost = false;
    loseAnswers({ after: (text) => text === 'commit' && !isLost && (isLost = true) });
    await drain(bus.db, [writing()]);
    expect(isLost).toBe(true);
    expect(transactions()).toEqual([[1, 2, 3]]);
    expect(await effects(bus)).toEqual([1, 2, 3]);
    expect(await stored(bus)).toEqual(Array(3).fill('delivered 1'));
    expect(await leasedLanes(bus.db)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('commits nothing of a lane that another relay has taken', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    const report = await drain(bus.db, [
      writing(async (number) => {
        if (number === 2) await stealLanes(bus.db, 'ledger');
      }),
    ]);
    expect(report).toMatchObject({ delivered: 0, failed: 0, leasesLost: 1 });
    expect(await effects(bus)).toEqual([]);
    expect(await stored(bus)).toEqual(Array(3).fill('pending 0'));
  });

  test('is not used where the subscriber declines it: each delivery has its own transaction', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [writing(undefined, { sharesCommits: false })]);
    expect(transactions()).toEqual([[1], [2], [3]]);
  });
});

describe('a transactional batch', () => {
  const batching = (then: (numbers: number[], context: TransactionalBatchContext) => number | undefined) =>
    subscriber(
      'ledger',
      {
        'payment.captured': async (events, context) => {
          const numbers = events.map(({ payload }) => payload.amountMinor);
          const taken = then(numbers, context);
          for (const number of numbers.slice(0, taken)) await write(context.tx, number);
          return taken;
        },
      },
      { transactional: true, batch: true },
    );

  test('commits with the record of what was taken', async ({ bus }) => {
    await emitPayments(bus.db, 1, 150);
    expect(await drain(bus.db, [batching(() => undefined)])).toMatchObject({ delivered: 150 });
    expect(transactions()).toEqual([numbers(1, 100), numbers(101, 150)]);
    expect(await stored(bus)).toEqual(Array(150).fill('delivered 1'));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  // The last two are hidden from all but the settlement: by a setting a backslash escapes the quote behind it.
  test.for(['rollback; begin', `select '\\'' ; commit; -- '`, `select '\\'' ; rollback; begin; -- '`])(
    'of which the handler sends “%s” has failed, and nothing of it is delivered',
    async (command, { bus }) => {
      await emitPayments(bus.db, 1, 2);
      const ending = subscriber(
        'ledger',
        {
          'payment.captured': async (_, { tx }) => {
            await tx.execute(sql`set local standard_conforming_strings = off`);
            await tx.execute(sql.raw(command));
          },
        },
        { transactional: true, batch: true },
      );
      expect(await drain(bus.db, [ending])).toMatchObject({ delivered: 0, failed: 1 });
      expect(await stored(bus)).toEqual(['failing 1', 'pending 0']);
      expect(await contradictions(bus.db)).toEqual([]);
    },
  );

  test('that is taken in part commits that part, and its next delivery has failed', async ({ bus }) => {
    await emitPayments(bus.db, 1, 4);
    expect(await drain(bus.db, [batching(() => 2)])).toMatchObject({ delivered: 2, failed: 1 });
    expect(await effects(bus)).toEqual([1, 2]);
    expect(await stored(bus)).toEqual(['delivered 1', 'delivered 1', 'failing 1', 'pending 0']);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of which nothing was taken commits nothing that its handler wrote', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    const refusing = subscriber(
      'ledger',
      {
        'payment.captured': async (_, { tx }) => {
          await write(tx, 0);
          return 0;
        },
      },
      { transactional: true, batch: true },
    );
    expect(await drain(bus.db, [refusing])).toMatchObject({ delivered: 0, failed: 1 });
    expect(await effects(bus)).toEqual([]);
    expect(await stored(bus)).toEqual(['failing 1', 'pending 0']);
  });

  test('commits nothing of a lane that another relay has taken', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, []);
    const losing = subscriber(
      'ledger',
      {
        'payment.captured': async (_, { tx }) => {
          await write(tx, 0);
          await stealLanes(bus.db, 'ledger');
        },
      },
      { transactional: true, batch: true },
    );
    expect(await drain(bus.db, [losing])).toMatchObject({ delivered: 0, failed: 0, leasesLost: 1 });
    expect(await effects(bus)).toEqual([]);
  });
});
