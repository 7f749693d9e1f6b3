// The types of `lib/platform/db/database.ts`, which `connect.ts` gives on, as the package declares them: what a test bus's
// database and its transactions are without Drizzle's types. `tests/types/package.test-d.ts` holds them to the real ones.

/** Rows by the names of their columns. */
interface Rows {
  readonly rows: Record<string, unknown>[];
}

/** The embedded database of a test bus. */
export interface Database {
  /** Runs a statement without parameters. */
  execute(statement: string): PromiseLike<Rows>;
  transaction<Result>(body: (tx: Transaction) => Promise<Result>): Promise<Result>;
  /** The PGlite below it: for statements with parameters, and for a Drizzle of your own, `drizzle({ client })`. */
  readonly $client: unknown;
}

/** A transaction of a test bus's database. */
export interface Transaction {
  /** Runs a statement without parameters. */
  execute(statement: string): PromiseLike<Rows>;
  transaction<Result>(body: (tx: Transaction) => Promise<Result>): Promise<Result>;
  rollback(): never;
}
