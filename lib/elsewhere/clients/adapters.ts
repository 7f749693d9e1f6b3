// What `emit` and `record` take of clients that have no `query(text, values)` like that of `pg`. Described by their methods,
// because a component has its own copies of these packages.

/** A client as `emit` takes it. */
export interface Client {
  query(text: string, values: readonly unknown[]): Promise<{ rows: unknown[] }>;
}

/** @param tx of `sql.begin(async (tx) => …)`. */
export function fromPostgresJs(tx: {
  unsafe(text: string, values: never[]): PromiseLike<readonly unknown[]>;
}): Client {
  return clientOf((text, values) => tx.unsafe(text, values));
}

/** @param tx of `db.transaction().execute(async (tx) => …)`. */
export function fromKysely(tx: {
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>;
}): Client {
  return clientOf(async (sql, parameters) => {
    const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
    const compiled = { sql, parameters, query, queryId: { queryId: 'postbud' } };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what Kysely's `CompiledQuery.raw` makes
    return (await tx.executeQuery(compiled as never)).rows;
  });
}

/** @param tx of `prisma.$transaction(async (tx) => …)`. */
export function fromPrisma(tx: {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>;
}): Client {
  return clientOf((text, values) => tx.$queryRawUnsafe(text, ...values));
}

/** @param manager of `dataSource.transaction(async (manager) => …)`. */
export function fromTypeOrm(manager: { query(text: string, values: unknown[]): Promise<unknown> }): Client {
  return clientOf((text, values) => manager.query(text, values));
}

/** @param transaction of `sequelize.transaction(async (transaction) => …)`. */
export function fromSequelize(
  sequelize: { query(text: string, options: never): Promise<unknown> },
  transaction: object,
): Client {
  return clientOf((text, bind) =>
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its own options
    sequelize.query(text, { bind, transaction, type: 'SELECT' } as never),
  );
}

/** @param tx of `knex.transaction(async (tx) => …)`. */
export function fromKnex(tx: { raw(text: string, values: never): PromiseLike<unknown> }): Client {
  return clientOf(async (text, values) => {
    const order: unknown[] = [];
    // Knex writes its own placeholders.
    const marked = text.replaceAll('?', String.raw`\?`).replaceAll(/\$(\d+)/g, (_, number) => {
      order.push(values[Number(number) - 1]);
      return '?';
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its own bindings; it gives the driver's result
    return ((await tx.raw(marked, order as never)) as { rows: unknown }).rows;
  });
}

function clientOf(rowsOf: (text: string, values: never[]) => PromiseLike<unknown>): Client {
  return {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each takes values of any type, and gives rows
    query: async (text, values) => ({ rows: (await rowsOf(text, [...values] as never[])) as unknown[] }),
  };
}
