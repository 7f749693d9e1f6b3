import type { PGlite } from '@electric-sql/pglite';
import type { Pool as NeonPool, PoolClient as NeonClient } from '@neondatabase/serverless';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Client, Pool, PoolClient } from 'pg';
import { databaseOf, fromKysely, receiver } from 'postbud/receive';
import type { Handlers, ReceivedEvent, TransactionOf } from 'postbud/receive';
import { expectTypeOf, test } from 'vitest';

import type { Payload, TopicsOf } from '../../lib/bus/catalog/catalog.ts';
import type { Transaction, Database } from '../../lib/platform/db/connect.ts';

const secrets = 'whsec_…';
declare const database: Pool;
declare const drizzled: Database;
declare const pglite: PGlite;
declare const client: Client;

test('a handler gets the event of its topic, and the transaction of its database', () => {
  receiver({
    subscriber: 'ledger',
    secrets,
    database,
    handlers: {
      'payment.captured': async (event, tx) => {
        expectTypeOf(event).toEqualTypeOf<ReceivedEvent<'payment.captured'>>();
        expectTypeOf(event.payload).toEqualTypeOf<Payload<'payment.captured'>>();
        expectTypeOf(tx).toEqualTypeOf<PoolClient>();
        await tx.query('insert into bookings values ($1)', [event.payload.bookingId]);
        // @ts-expect-error -- the topic has no such field
        void event.payload.bookingNumber;
      },
    },
    onGap: (gap, tx) => {
      if (gap.topic === 'payment.captured')
        expectTypeOf(gap.event).toEqualTypeOf<ReceivedEvent<'payment.captured'>>();
      expectTypeOf(tx).toEqualTypeOf<PoolClient>();
    },
  });
  receiver({
    subscriber: 'ledger',
    secrets: [secrets, secrets],
    database: drizzled,
    handlers: { 'payment.captured': (_, tx) => expectTypeOf(tx).toEqualTypeOf<Transaction>() },
  });
});

test('the transaction of each kind of database is its own', () => {
  expectTypeOf<TransactionOf<Pool>>().toEqualTypeOf<PoolClient>();
  expectTypeOf<TransactionOf<NeonPool>>().toEqualTypeOf<NeonClient>();
  expectTypeOf<TransactionOf<NodePgDatabase>>().toHaveProperty('execute');
  expectTypeOf<TransactionOf<NodePgDatabase>>().toHaveProperty('rollback');
});

test('a name that the catalog does not have does not compile', () => {
  // @ts-expect-error -- no such topic
  receiver({ subscriber: 'ledger', secrets, database, handlers: { 'payment.capture': () => {} } });
  // @ts-expect-error -- a topic of others
  receiver({ subscriber: 'ledger', secrets, database, handlers: { 'message.sent': () => {} } });
  // @ts-expect-error -- no such subscriber
  receiver({ subscriber: 'ledgers', secrets, database, handlers: {} });
  // @ts-expect-error -- a URL is no database
  receiver({ subscriber: 'ledger', secrets, database: 'postgres://…', handlers: {} });
});

test('handlers of a component are those of the topics that the catalog lists for it, and of no other', () => {
  expectTypeOf<keyof Handlers<'identity'>>().toEqualTypeOf<TopicsOf<'identity'>>();
  // @ts-expect-error -- one for each
  const none: Handlers<'calendar'> = {};
  // @ts-expect-error -- a topic of others
  const others: Partial<Handlers<'calendar'>> = { 'user.signed_in': () => undefined };
  const some: Partial<Handlers<'ledger', PoolClient>> = {
    'payment.captured': async ({ version, payload }, tx) => {
      expectTypeOf(version).toEqualTypeOf<1>();
      await tx.query('insert into entries values ($1)', [payload.intentId]);
      // @ts-expect-error -- the topic has no such field
      void payload.bookingNumber;
    },
  };
  receiver({ subscriber: 'ledger', secrets, database, handlers: some });
  // Without a client, they need `query` alone, as pg's client and PGlite's transaction have it.
  const apart: Partial<Handlers<'ledger'>> = {
    'payment.captured': async ({ id }, tx) => void (await tx.query('insert into entries values ($1)', [id])),
  };
  receiver({ subscriber: 'ledger', secrets, database, handlers: apart });
  receiver({ subscriber: 'ledger', secrets, database: pglite, handlers: apart });
  void [none, others];
});

test('a database of another client hands its own transaction to handlers, and does not pass by itself', () => {
  receiver({
    subscriber: 'ledger',
    secrets,
    database: databaseOf<KyselyTransaction>((run) => kysely.transaction().execute(run), fromKysely),
    handlers: { 'payment.captured': (_, tx) => expectTypeOf(tx).toEqualTypeOf<KyselyTransaction>() },
  });
  // @ts-expect-error -- its transactions have another shape
  receiver({ subscriber: 'ledger', secrets, database: kysely, handlers: {} });
  // @ts-expect-error -- one client is no pool
  receiver({ subscriber: 'ledger', secrets, database: client, handlers: {} });
});

/** As Kysely has it. */
interface KyselyTransaction {
  readonly isTransaction: true;
  executeQuery<Row>(query: { readonly sql: string; readonly brand?: Row }): Promise<{ readonly rows: Row[] }>;
}
declare const kysely: {
  transaction(): { execute<Result>(run: (tx: KyselyTransaction) => Promise<Result>): Promise<Result> };
};
