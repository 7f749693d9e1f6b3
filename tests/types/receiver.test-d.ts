import type { Pool as NeonPool, PoolClient as NeonClient } from '@neondatabase/serverless';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Pool, PoolClient } from 'pg';
import { receiver } from 'postbud/receive';
import type { ReceivedEvent, TransactionOf } from 'postbud/receive';
import { expectTypeOf, test } from 'vitest';

import type { Payload } from '../../lib/bus/catalog/catalog.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';

const secrets = 'whsec_…';
declare const database: Pool;
declare const drizzled: Database;

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
