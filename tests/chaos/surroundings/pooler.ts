import { migrate } from '../../../lib/bus/migrations/migrate.ts';
import { connect } from '../../../lib/platform/db/connect.ts';
import { SECOND, sleep } from '../../../lib/platform/time.ts';
import { pgbouncerPath, startPgbouncer } from '../../support/pgbouncer.ts';
import { opened } from '../produce.ts';
import { inOneLine } from './isolation.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** Point 6. */
export const pooler: Surrounding = {
  name: 'pooler-without-named-statements',
  point: 6,
  inCi: true,
  lacks: () => (pgbouncerPath === undefined ? 'pgbouncer is not installed' : null),
  play: behindPooler,
};

async function behindPooler({ arena, build }: Scene): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 4, transactions: 20, handlersMs: [0, 30] }),
  });
  const bouncer = await startPgbouncer(arena.cluster.url('postgres'), 5);
  const port = Number(new URL(bouncer.urlOf(stage.url('any'))).port);
  try {
    await Promise.all([1, 2].map(() => stage.relay((name) => stage.url(name, { port }))));
    await stage.produce(stage.url('producer', { port }));
    const left = await stage.rest(20 * SECOND);
    const told = stage
      .output()
      .split('\n')
      .filter((line) => /named|prepared/i.test(line)).length;
    const broken = [
      ...(left === 0 ? [] : [`${left} deliveries and markers still wait after 20 s`]),
      ...(told === 2 ? [] : [`two relays told ${told} times why, not once each`]),
      ...(await migrated(stage, port)),
      ...(await stage.broken()),
    ];
    return {
      did: 'two relays, four producers and two migrations through PgBouncer, transaction by transaction',
      broken,
    };
  } finally {
    await stage.close();
    await bouncer.stop();
  }
}

/** Migrates an empty database twice at once. @returns what went wrong, and what was left behind on the sessions. */
async function migrated(stage: Stage, port: number): Promise<string[]> {
  const database = `${stage.database}_empty`;
  await stage.sql(`create database ${database}`);
  const url = `postgres://postgres@127.0.0.1:${port}/${database}`;
  const connections = await Promise.all([connect(url), connect(url)]);
  try {
    const failed = (await Promise.allSettled(connections.map(({ db }) => migrate(db)))).flatMap((one) =>
      one.status === 'rejected' ? [`a migration fails: ${inOneLine(one.reason)}`] : [],
    );
    const locks = await stage.sql(`select from pg_locks join pg_database on pg_database.oid = database
      where datname = '${database}' and locktype = 'advisory'`);
    const limits = new Set<string>();
    // Each of these may meet another session of the server's.
    const clients = await Promise.all([1, 2, 3, 4].map(() => opened(url)));
    await Promise.all(
      clients.map(async (client) => {
        await client.query('begin');
        const { rows } = await client.query<{ lock_timeout: string }>('show lock_timeout');
        limits.add(rows[0]!.lock_timeout);
        await sleep(100);
        await client.query('commit');
        await client.end();
      }),
    );
    return [
      ...failed,
      ...(locks.length === 0 ? [] : [`a migration leaves ${locks.length} advisory locks on its session`]),
      ...([...limits].every((limit) => limit === '0')
        ? []
        : ['a migration leaves lock_timeout on its session']),
    ];
  } finally {
    await Promise.all(connections.map(({ close }) => close()));
    await stage.sql(`drop database ${database} with (force)`);
  }
}
