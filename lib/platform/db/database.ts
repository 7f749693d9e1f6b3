import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core';

/**
 * A Drizzle database on any of the three drivers. Its `transaction`
 *
 * - begins together with its first statement, in one round trip, and in READ COMMITTED unless it is told otherwise,
 *   whatever the database's default is;
 * - runs its callback again, a few times, after a serialization failure or a deadlock: what the callback does outside the
 *   transaction must bear a repetition;
 * - reports commits that made deliveries due; see `onDue`.
 *
 * Drizzle is given no schema: it would read the whole of it for each transaction.
 */
export type Database = PgDatabase<PgQueryResultHKT> & { $client: unknown };

/** The transaction that `db.transaction` hands to its callback. */
export type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0];
