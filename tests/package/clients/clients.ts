// A producer and receiver in another repository, by each client: emits in a transaction that commits and in one that does
// not, and takes one event three times, of which the first time fails.
import { randomUUID } from 'node:crypto';

import { PrismaPg } from '@prisma/adapter-pg';
import { sql as statement } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import knexOf from 'knex';
import type { Knex } from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import type { Transaction } from 'kysely';
import { Client, Pool } from 'pg';
import {
  emit,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromSequelize,
  fromTypeOrm,
  NotInTransaction,
} from 'postbud/emit';
import type { Transaction as Emittable } from 'postbud/emit';
import { databaseOf, RECEIVED_TABLE, receiver } from 'postbud/receive';
import type { Handlers, ReceiverDatabase, TransactionOf } from 'postbud/receive';
import postgres from 'postgres';
import type { TransactionSql } from 'postgres';
import { Sequelize } from 'sequelize';
import type { Transaction as SequelizeTransaction } from 'sequelize';
import { DataSource } from 'typeorm';
import type { EntityManager } from 'typeorm';

import { PrismaClient } from './generated/client.ts';
import type { Prisma } from './generated/client.ts';
import { delivery, SECRET } from './signed.ts';

interface Tables {
  effects: { event_id: string };
}

/** How many statements were sent: all of these clients but postgres.js send theirs by pg. */
let sent = 0;
const { query } = Client.prototype;
Client.prototype.query = function counted(this: Client, ...given: never) {
  sent += 1;
  return Reflect.apply(query, this, given) as never;
};

/** The clients of one database. */
async function clientsOf(url: string) {
  return {
    pool: new Pool({ connectionString: url }),
    drizzle: drizzle(url),
    sql: postgres(url, { max: 1, debug: () => (sent += 1) }),
    kysely: new Kysely<Tables>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: url }) }),
    }),
    prisma: new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) }),
    typeorm: await new DataSource({ type: 'postgres', url }).initialize(),
    sequelize: new Sequelize(url, { logging: false }),
    knex: knexOf({ client: 'pg', connection: url }),
  };
}

const bus = await clientsOf(process.env['DATABASE_URL']!);
const own = await clientsOf(process.env['OWN_DATABASE_URL']!);
await own.pool.query(`${RECEIVED_TABLE} create table effects (event_id text primary key)`);

const emits: Record<string, (work: (tx: Emittable) => Promise<void>) => Promise<unknown>> = {
  pg: async (work) => {
    const client = await bus.pool.connect();
    await client.query('begin');
    try {
      await work(client);
      await client.query('commit');
    } catch (error) {
      await client.query('rollback');
      throw error;
    } finally {
      client.release();
    }
  },
  Drizzle: (work) => bus.drizzle.transaction(work),
  'postgres.js': (work) => bus.sql.begin((tx) => work(fromPostgresJs(tx))),
  Kysely: (work) => bus.kysely.transaction().execute((tx) => work(fromKysely(tx))),
  Prisma: (work) => bus.prisma.$transaction((tx) => work(fromPrisma(tx))),
  TypeORM: (work) => bus.typeorm.transaction((manager) => work(fromTypeOrm(manager))),
  Sequelize: (work) => bus.sequelize.transaction((t) => work(fromSequelize(bus.sequelize, t))),
  Knex: (work) => bus.knex.transaction((tx) => work(fromKnex(tx))),
};

/** Makes a receiver on a database, whose handler has its effect by this client and then fails, the first time. */
function receiving<Database extends ReceiverDatabase>(
  database: Database,
  effect: (tx: TransactionOf<Database>, eventId: string) => unknown,
): (request: Request) => Promise<Response> {
  let calls = 0;
  const handlers: Pick<Handlers<'calendar', TransactionOf<Database>>, 'resource.maintenance.completed'> = {
    'resource.maintenance.completed': async (event, tx) => {
      await effect(tx, event.id);
      calls += 1;
      if (calls === 1) throw new Error('the first time');
    },
  };
  return receiver({ subscriber: 'calendar', secrets: SECRET, database, handlers, onError: () => undefined });
}

const receives: Record<string, (request: Request) => Promise<Response>> = {
  pg: receiving(own.pool, (tx, id) => tx.query('insert into effects values ($1)', [id])),
  Drizzle: receiving(own.drizzle, (tx, id) => tx.execute(statement`insert into effects values (${id})`)),
  'postgres.js': receiving(
    databaseOf<TransactionSql>((run) => own.sql.begin(run), fromPostgresJs),
    (tx, id) => tx`insert into effects values (${id})`,
  ),
  Kysely: receiving(
    databaseOf<Transaction<Tables>>((run) => own.kysely.transaction().execute(run), fromKysely),
    (tx, id) => tx.insertInto('effects').values({ event_id: id }).execute(),
  ),
  Prisma: receiving(
    databaseOf<Prisma.TransactionClient>(
      (run) => own.prisma.$transaction(run, { timeout: 15_000 }),
      fromPrisma,
    ),
    (tx, id) => tx.effects.create({ data: { event_id: id } }),
  ),
  TypeORM: receiving(
    databaseOf<EntityManager>((run) => own.typeorm.transaction(run), fromTypeOrm),
    (manager, id) => manager.query('insert into effects values ($1)', [id]),
  ),
  Sequelize: receiving(
    databaseOf<SequelizeTransaction>(
      (run) => own.sequelize.transaction(run),
      (t) => fromSequelize(own.sequelize, t),
    ),
    (transaction, id) => own.sequelize.query('insert into effects values ($1)', { bind: [id], transaction }),
  ),
  Knex: receiving(
    databaseOf<Knex.Transaction>((run) => own.knex.transaction(run), fromKnex),
    (tx, id) => tx('effects').insert({ event_id: id }),
  ),
};

class RolledBack extends Error {}

async function emitted(tx: Emittable, maintenanceId: string): Promise<void> {
  const completedAt = new Date().toISOString();
  await emit(tx, 'resource.maintenance.completed', { maintenanceId, resourceId: 'res_1', completedAt });
}

for (const [name, inTransaction] of Object.entries(emits)) {
  let statements = 0;
  await inTransaction(async (tx) => {
    const before = sent;
    await emitted(tx, `${name} commits`);
    statements = sent - before;
  });
  const rollingBack = inTransaction(async (tx) => {
    await emitted(tx, `${name} rolls back`);
    throw new RolledBack();
  });
  await rollingBack.catch((error: unknown) => {
    if (!(error instanceof RolledBack)) throw error;
  });
  const id = randomUUID();
  const answers: number[] = [];
  for (let time = 1; time <= 3; time += 1) {
    const request = new Request('http://localhost/', { method: 'POST', ...delivery(id) });
    answers.push((await receives[name]!(request)).status);
  }
  const { rows } = await own.pool.query('select from effects where event_id = $1', [id]);
  console.log(`${name}: ${statements} statement, ${answers.join(' ')}, ${rows.length} effect`);
}

/** Has what a transaction was kept for done after its end. */
async function kept<Tx>(transact: (work: (tx: Tx) => Promise<void>) => PromiseLike<unknown>): Promise<Tx> {
  const all: Tx[] = [];
  await transact((tx) => Promise.resolve(void all.push(tx)));
  return all[0]!;
}

/** Outside of a transaction: what the types can tell does not compile, and all of it throws. */
const outside: [name: string, tx: () => Promise<Emittable>][] = [
  // @ts-expect-error -- a pool is no transaction
  ['pg', async () => bus.pool],
  // The types cannot tell.
  ['pg without begin', () => bus.pool.connect()],
  // @ts-expect-error -- a database is no transaction
  ['Drizzle', async () => bus.drizzle],
  ['Drizzle, kept', () => kept((work) => bus.drizzle.transaction(work))],
  // @ts-expect-error -- a connection is no transaction
  ['postgres.js', async () => fromPostgresJs(bus.sql)],
  ['postgres.js, kept', async () => fromPostgresJs(await kept((work) => bus.sql.begin(work)))],
  // @ts-expect-error -- a database is no transaction
  ['Kysely', async () => fromKysely(bus.kysely)],
  ['Kysely, kept', async () => fromKysely(await kept((work) => bus.kysely.transaction().execute(work)))],
  // @ts-expect-error -- a client is no transaction
  ['Prisma', async () => fromPrisma(bus.prisma)],
  // @ts-expect-error -- a data source is no transaction
  ['TypeORM', async () => fromTypeOrm(bus.typeorm)],
  // The types cannot tell.
  ['TypeORM’s manager', async () => fromTypeOrm(bus.typeorm.manager)],
  // @ts-expect-error -- without a transaction
  ['Sequelize', async () => fromSequelize(bus.sequelize, undefined)],
  // @ts-expect-error -- a database is no transaction
  ['Knex', async () => fromKnex(bus.knex)],
  // Clients that know nothing of transactions, so that the database alone can tell, through each driver.
  ['pg, by the database', async () => ({ query: (text, values) => bus.pool.query(text, values) })],
  [
    'postgres.js, by the database',
    async () => ({
      query: async (text, values) => ({ rows: await bus.sql.unsafe(text, values as never[]) }),
    }),
  ],
  [
    'Prisma, by the database',
    async () => ({
      query: async (text, values) => ({ rows: await bus.prisma.$queryRawUnsafe<unknown[]>(text, ...values) }),
    }),
  ],
  [
    'TypeORM, by the database',
    async () => ({
      query: async (text, values) => ({ rows: await bus.typeorm.query<unknown[]>(text, values) }),
    }),
  ],
  [
    'Sequelize, by the database',
    async () => ({
      query: async (text, bind) => ({ rows: (await bus.sequelize.query(text, { bind }))[0] }),
    }),
  ],
];
for (const [name, tx] of outside) {
  const said = await emitted(await tx(), `${name} outside`).then(
    () => 'took it',
    (error: unknown) => (error instanceof NotInTransaction ? error.message : String(error)),
  );
  console.log(`${name}: ${said}`);
}
console.log('done');
process.exit();
