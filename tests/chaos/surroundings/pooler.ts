import { spawn } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { connect, migrate } from '../../../lib/db/connect.ts';
import { SECOND, sleep } from '../../../lib/time.ts';
import { freePort } from '../../support/postgres.ts';
import { programPath } from '../../support/programs.ts';
import type { Arena } from '../campaign.ts';
import { opened } from '../produce.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';
import { inOneLine } from './isolation.ts';

/** Point 6. */
export const pooler: Surrounding = {
  name: 'pooler-without-named-statements',
  point: 6,
  inCi: true,
  lacks: () => (programPath('pgbouncer') === undefined ? 'pgbouncer is not installed' : null),
  play: behindPooler,
};

async function behindPooler({ arena, build }: Scene): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 4, transactions: 20, handlersMs: [0, 30] }),
  });
  const bouncer = await startPooler(arena);
  const { port } = bouncer;
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
    bouncer.stop();
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

/** Starts PgBouncer before the server, each transaction on any of five connections. */
async function startPooler({ cluster, folder }: Arena): Promise<{ port: number; stop: () => void }> {
  const port = await freePort();
  const file = join(folder, `pgbouncer-${port}.ini`);
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${cluster.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,options
${process.getuid?.() === 0 ? 'user = postgres' : ''}
`,
  );
  await chmod(file, 0o644);
  const child = spawn(programPath('pgbouncer')!, [file], { stdio: ['ignore', 'ignore', 'pipe'] });
  const stop = () => void child.kill('SIGKILL');
  process.once('exit', stop);
  await new Promise<void>((resolve, reject) => {
    let written = '';
    child.once('exit', () => reject(new Error(`pgbouncer has ended: ${written}`)));
    child.stderr.on('data', (text) => {
      written += String(text);
      if (written.includes('process up')) resolve();
    });
  });
  return {
    port,
    stop() {
      process.off('exit', stop);
      stop();
    },
  };
}
