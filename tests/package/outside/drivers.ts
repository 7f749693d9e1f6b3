// Compiled in a repository outside this one, which has its own copies of these packages: each kind of transaction that a
// producer or a receiver may have.
import { Pool as NeonPool } from '@neondatabase/serverless';
import { PGlite } from '@electric-sql/pglite';
import { drizzle as drizzleNeon } from 'drizzle-orm/neon-serverless';
import { drizzle } from 'drizzle-orm/node-postgres';
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite';
import pg from 'pg';
import { emit } from 'postbud/emit';
import { receiver } from 'postbud/receive';

const url = 'postgres://postbud@db.example.no/postbud';
const payload = {
  maintenanceId: 'mnt_58',
  resourceId: 'res_furulia_svommehall',
  completedAt: '2026-07-08T12:40:00Z',
};

export async function emits(): Promise<void> {
  const topic = 'resource.maintenance.completed';
  const [pool, client, neon, pglite] = [new pg.Pool(), new pg.Client(), new NeonPool(), new PGlite()];
  await emit(client, topic, payload);
  await emit(await pool.connect(), topic, payload);
  await emit(await neon.connect(), topic, payload);
  await pglite.transaction((tx) => emit(tx, topic, payload));
  await drizzle(url).transaction((tx) => emit(tx, topic, payload));
  await drizzle(url, { schema: {} }).transaction((tx) =>
    tx.transaction((inner) => emit(inner, topic, payload)),
  );
  await drizzleNeon(url).transaction((tx) => emit(tx, topic, payload));
  await drizzlePglite(pglite).transaction((tx) => emit(tx, topic, payload));
}

const settings = { subscriber: 'calendar', secrets: 'whsec_' } as const;

export const receivers = [
  receiver({
    ...settings,
    database: new pg.Pool(),
    handlers: {
      'resource.maintenance.completed': async ({ payload: { maintenanceId } }, client) => {
        await client.query('select $1', [maintenanceId]);
      },
    },
  }),
  receiver({
    ...settings,
    database: drizzle(url),
    handlers: { 'resource.maintenance.completed': async (_, tx) => void (await tx.execute('select 1')) },
  }),
];
