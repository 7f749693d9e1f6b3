import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { neonConfig } from '@neondatabase/serverless';
import { sql } from 'drizzle-orm';
import { pgTable, text } from 'drizzle-orm/pg-core';
import { describe, expect, inject, it, onTestFinished } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { cancelTimer, emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { isAway } from '../../lib/platform/db/away.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Transaction } from '../../lib/platform/db/connect.ts';
import { TransactionEnded } from '../../lib/platform/gate.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { START, contradictions, drain, emitPayments, payment, rows } from '../support/bus.ts';
import { deliveriesOf, deliveryIdsOf } from '../support/records.ts';
import { connectWithNeon } from '../support/neon-tunnel.ts';
import { createDatabase, freePort } from '../support/postgres.ts';

const drivers: Readonly<Record<string, () => Promise<Connection>>> = {
  pg: async () => await connect(await createDatabase(inject('postgresUrl'))),
  'Neon’s driver': async () => await connectWithNeon(await createDatabase(inject('postgresUrl'))),
  PGlite: async () => {
    const connection = await connect('memory://');
    await migrate(connection.db);
    return connection;
  },
};

describe.each(Object.keys(drivers))('through %s', (name) => {
  it('a relay places, hands over, settles and retries, in every kind of lane and with every kind of handler', async () => {
    const { db, close } = await drivers[name]!();
    onTestFinished(close);
    const handed = { ledger: [] as number[], bookings: [] as number[], accounting: [] as number[] };
    let isDown = true;
    const all = [
      subscriber('ledger', {
        'payment.captured': ({ payload }) => {
          handed.ledger.push(payload.amountMinor);
          if (isDown && payload.amountMinor === 3) throw new Error('down');
        },
      }),
      subscriber(
        'bookings',
        { 'payment.captured': ({ payload }) => void handed.bookings.push(payload.amountMinor) },
        { transactional: true },
      ),
      subscriber(
        'accounting',
        {
          'payment.captured': (events) => {
            const taken = isDown ? events.findIndex(({ payload }) => payload.amountMinor === 2) : -1;
            handed.accounting.push(
              ...events.slice(0, taken === -1 ? undefined : taken).map(({ payload }) => payload.amountMinor),
            );
            return taken === -1 ? undefined : taken;
          },
        },
        { batch: true },
      ),
      subscriber('notifications', {
        'payment.captured': () => {
          throw new PermanentError('nobody to tell');
        },
      }),
    ];
    await emitPayments(db, 1, 2);
    await emitPayments(db, 3, 4, { orderingKey: 'a' });
    await emitPayments(db, 5, 5, { orderingKey: 'b' });
    expect(await drain(db, all)).toMatchObject({ placed: 5, failed: 2, deadLettered: 5 });
    expect(await contradictions(db)).toEqual([]);
    isDown = false;
    expect(await drain(db, all, { now: START + MINUTE })).toMatchObject({ failed: 0 });
    expect(handed.ledger.filter((number) => number < 3)).toEqual([1, 2]);
    expect(handed.ledger.filter((number) => number === 3 || number === 4)).toEqual([3, 3, 4]);
    expect(handed.bookings.toSorted()).toEqual([1, 2, 3, 4, 5]);
    expect(handed.accounting.toSorted()).toEqual([1, 2, 3, 4, 5]);
    expect(await contradictions(db)).toEqual([]);

    const later = new Date(START + 2 * MINUTE);
    const put = await replay(db, { topic: 'payment.captured', since: '1h' }, 'kari', later);
    expect(put).toMatchObject({ matched: 5, replayed: 5 });
    const [first] = await deliveryIdsOf(db, 'notifications', 'pending');
    await skip(db, { deliveryId: first!, by: 'kari', reason: 'a test', now: later });
    expect((await deliveriesOf(db, 'notifications')).map(({ state }) => state).toSorted()).toEqual([
      'dead_lettered',
      ...Array<string>(4).fill('pending'),
    ]);
    expect(await contradictions(db)).toEqual([]);
  });

  it('a transaction ends for whoever kept it, and sends nothing of theirs afterwards', async () => {
    const { db, close } = await drivers[name]!();
    onTestFinished(close);
    await rows(db, 'create table kept (by text)');
    const insert = (by: string) => ({ text: 'insert into kept values ($1)', values: [by] });
    const uses = (tx: Transaction) => [
      () => run(tx, insert('run')),
      () => tx.execute(sql`insert into kept values ('execute')`),
      () => tx.insert(kept).values({ by: 'builder' }),
      () => tx.transaction(async (inner) => await run(inner, insert('nested'))),
      () => emit(tx, 'payment.captured', payment(1)),
      () => cancelTimer(tx, 'payment.captured', 'a'),
    ];
    const later: (() => PromiseLike<unknown>)[] = [];
    await db.transaction(async (tx) => {
      await run(tx, insert('in time'));
      later.push(...uses(tx));
      const inner = await tx.transaction(async (nested) => await Promise.resolve(nested));
      await expect(run(inner, insert('after the savepoint'))).rejects.toThrow(TransactionEnded);
    });
    const failed = db.transaction(async (tx) => {
      later.push(...uses(tx));
      return await Promise.reject(new Error('rolled back'));
    });
    await expect(failed).rejects.toThrow('rolled back');
    // Another transaction has their connection meanwhile.
    await db.transaction(async (tx) => {
      await run(tx, insert('another'));
      for (const use of later)
        await expect(use()).rejects.toMatchObject({
          code: 'transaction_ended',
          message: expect.stringContaining('await each statement'),
        });
    });
    expect(await rows(db, 'select by from kept order by 1')).toEqual([{ by: 'another' }, { by: 'in time' }]);
    expect(await rows(db, 'select from events')).toEqual([]);
  });
});

const kept = pgTable('kept', { by: text() });

it.for([
  ['where nobody listens', freePort],
  ['where a web server answers', refusingPort],
] as const)('through Neon’s driver the database is away %s', async ([, port]) => {
  const { db, close } = await connectWithNeon(await createDatabase(inject('postgresUrl')));
  onTestFinished(close);
  const address = `127.0.0.1:${await port()}/v2`;
  neonConfig.wsProxy = () => address;
  const select = { text: 'select 1', values: [] };
  const answers = await Promise.allSettled([
    run(driverOf(db), select),
    db.transaction((tx) => run(tx, select)),
  ]);
  for (const answer of answers) {
    expect(answer).toMatchObject({ status: 'rejected', reason: { code: '08000' } });
    expect(isAway((answer as PromiseRejectedResult).reason)).toBe(true);
  }
});

async function refusingPort(): Promise<number> {
  const server = createServer((_, response) => response.writeHead(502).end());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
