// What `emit` and `record` take of clients that have no `query(text, values)` like that of `pg`. Described by their methods,
// because a component has its own copies of these packages.
import type { Adapted } from '../../platform/db/callers-transaction.ts';

/** A client as `emit` takes it. */
export interface Client {
  query(text: string, values: readonly unknown[]): Promise<{ rows: unknown[] }>;
}

/** @param tx of `sql.begin(async (tx) => …)`. */
export function fromPostgresJs(tx: {
  unsafe(text: string, values: never[]): PromiseLike<readonly unknown[]>;
  savepoint: Method;
}): Client {
  return clientOf((text, values) => tx.unsafe(text, values), {
    example: 'await sql.begin(async (tx) => { …; await emit(fromPostgresJs(tx), …); })',
    isOutside: () => typeof tx.savepoint !== 'function',
  });
}

/** @param tx of `db.transaction().execute(async (tx) => …)`. */
export function fromKysely(tx: {
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>;
  readonly isTransaction: true;
}): Client {
  const rowsOf = async (sql: string, parameters: unknown[]) => {
    const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
    const compiled = { sql, parameters, query, queryId: { queryId: 'postbud' } };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what Kysely's `CompiledQuery.raw` makes
    return (await tx.executeQuery(compiled as never)).rows;
  };
  return clientOf(rowsOf, {
    example: 'await db.transaction().execute(async (tx) => { …; await emit(fromKysely(tx), …); })',
    isOutside: () => !isTrue(tx.isTransaction),
  });
}

/** @param tx of `prisma.$transaction(async (tx) => …)`. */
export function fromPrisma(tx: {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>;
  /** The client of the whole database has it. */
  readonly $connect?: never;
}): Client {
  return clientOf((text, values) => tx.$queryRawUnsafe(text, ...values), {
    example: 'await prisma.$transaction(async (tx) => { …; await emit(fromPrisma(tx), …); })',
    isOutside: () => typeof tx.$connect === 'function',
  });
}

/** @param manager of `dataSource.transaction(async (manager) => …)`. */
export function fromTypeOrm(manager: {
  query(text: string, values: unknown[]): Promise<unknown>;
  readonly queryRunner?: { readonly isTransactionActive: boolean } | undefined;
  /** A data source has one. */
  readonly manager?: never;
}): Client {
  return clientOf((text, values) => manager.query(text, values), {
    example: 'await dataSource.transaction(async (manager) => { …; await emit(fromTypeOrm(manager), …); })',
    isOutside: () => manager.queryRunner?.isTransactionActive !== true,
  });
}

/** @param transaction of `sequelize.transaction(async (transaction) => …)`. */
export function fromSequelize(
  sequelize: { query(text: string, options: never): Promise<unknown> },
  transaction: { commit: Method; readonly finished?: unknown },
): Client {
  const rowsOf = (text: string, bind: unknown[]) =>
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its own options
    sequelize.query(text, { bind, transaction, type: 'SELECT' } as never);
  return clientOf(rowsOf, {
    example: 'await sequelize.transaction(async (t) => { …; await emit(fromSequelize(sequelize, t), …); })',
    // Without types, a caller may pass anything.
    isOutside: () => typeof (transaction as Partial<typeof transaction> | undefined)?.commit !== 'function',
  });
}

/** @param tx of `knex.transaction(async (tx) => …)`. */
export function fromKnex(tx: {
  raw(text: string, values: never): PromiseLike<unknown>;
  commit: Method;
  readonly isTransaction?: boolean;
}): Client {
  const rowsOf = async (text: string, values: unknown[]) => {
    const order: unknown[] = [];
    // Knex writes its own placeholders.
    const marked = text.replaceAll('?', String.raw`\?`).replaceAll(/\$(\d+)/g, (_, number) => {
      order.push(values[Number(number) - 1]);
      return '?';
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its own bindings; it gives the driver's result
    return ((await tx.raw(marked, order as never)) as { rows: unknown }).rows;
  };
  return clientOf(rowsOf, {
    example: 'await knex.transaction(async (tx) => { …; await emit(fromKnex(tx), …); })',
    isOutside: () => tx.isTransaction !== true,
  });
}

type Method = (...given: never[]) => unknown;

const isTrue = (value: unknown) => value === true;

function clientOf(
  rowsOf: (text: string, values: never[]) => PromiseLike<unknown>,
  adapted: Adapted,
): Client & Adapted {
  return {
    ...adapted,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each takes values of any type, and gives rows
    query: async (text, values) => ({ rows: (await rowsOf(text, [...values] as never[])) as unknown[] }),
  };
}
