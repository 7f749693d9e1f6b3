import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

import pg from 'pg';

import { output } from './contender.ts';

/** The speed of the database alone: transactions a second, and the tool that ran them. */
export interface Limit {
  readonly perSecond: number;
  readonly by: 'pgbench' | 'a plain loop';
}

/**
 * Repeats a transaction on several connections: with pgbench where it is installed (on Debian in
 * postgresql-contrib), else with a loop that sends the same statements through `pg`.
 *
 * @param statements sent one by one; without parameters.
 */
export async function databaseLimit(
  url: string,
  statements: readonly string[],
  { clients, seconds }: { readonly clients: number; readonly seconds: number },
): Promise<Limit> {
  const pgbench = findPgbench();
  if (!pgbench) return { perSecond: await plainLoop(url, statements, clients, seconds), by: 'a plain loop' };
  const folder = await mkdtemp(join(tmpdir(), 'postbud-pgbench-'));
  try {
    const script = join(folder, 'script.sql');
    await writeFile(
      script,
      statements.map((statement) => `${statement.replaceAll(/\s+/g, ' ')};\n`).join(''),
    );
    const threads = Math.min(2, clients);
    const args = ['-n', '-f', script, '-c', clients, '-j', threads, '-T', seconds, url].map(String);
    const printed = await output(pgbench, args);
    return { perSecond: Number(/^tps = ([\d.]+)/m.exec(printed)![1]), by: 'pgbench' };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function findPgbench(): string | undefined {
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...['18', '17', '16', '15', '14'].map((version) => `/usr/lib/postgresql/${version}/bin`),
  ];
  return folders.map((folder) => join(folder, 'pgbench')).find((path) => existsSync(path));
}

async function plainLoop(
  url: string,
  statements: readonly string[],
  count: number,
  seconds: number,
): Promise<number> {
  const clients = Array.from({ length: count }, () => new pg.Client(url));
  await Promise.all(clients.map((client) => client.connect()));
  let done = 0;
  const endsAt = performance.now() + seconds * 1000;
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() < endsAt) {
        for (const statement of statements) await client.query(statement);
        done += 1;
      }
    }),
  );
  await Promise.all(clients.map((client) => client.end()));
  return done / seconds;
}
