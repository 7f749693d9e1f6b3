import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import pg from 'pg';
import { serve } from 'srvx';
import type { Server } from 'srvx';

import { writePackage } from '../dev/build/package/write.ts';
import type { BuiltPackage } from '../dev/build/package/write.ts';
import { node24 } from '../dev/serve-output/node-24.ts';
import { keepRelaying, LOOK_EVERY_MS } from '../lib/bus/relay/keep-relaying.ts';
import { remoteSubscriber } from '../lib/bus/subscribers/http.ts';
import { createKick, emit } from '../lib/elsewhere/emit/emit.ts';
import { connect } from '../lib/platform/db/connect.ts';
import { logTo } from '../lib/platform/log.ts';
import { sleep } from '../lib/platform/time.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { ms, quantile } from './figures.ts';
import type { Figure, Section } from './figures.ts';

const root = new URL('../', import.meta.url);

const ROUNDS = 15;

/** So many that their commits lie evenly between two looks of the relay, and so few that no kick is refused. */
const EVENTS = 25;

/**
 * Measures what a component in another repository gets: the package's size, how long a process takes that imports a part
 * of it, and how long an event takes from its commit to its subscriber elsewhere, with a kick and without.
 */
export async function benchPackage(): Promise<Section> {
  const folder = mkdtempSync(join(tmpdir(), 'postbud-package-'));
  try {
    const built = await writePackage(root, join(folder, 'dist'));
    const starts = coldStarts(folder, built);
    return {
      title: 'The package for other repositories',
      rows: [...sizes(built), ...starts, ...(await latencies())],
      notes: [
        `Whole processes on Node 24, median / slowest of ${ROUNDS}. The relay with kicks runs for them alone; the one without looks every ${LOOK_EVERY_MS / 1000} seconds, as the cron's does. ${EVENTS} events of one producer, to a subscriber over HTTP on the same machine.`,
      ],
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function sizes({ tarball, entries }: BuiltPackage): Figure[] {
  const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(0)} kB`;
  return [
    { what: 'the tarball', figure: kilobytes(statSync(tarball).size), goal: '' },
    ...entries.map(({ name, bytes }) => ({
      what: `code that importing postbud/${name} loads, without zod`,
      figure: kilobytes(bytes),
      goal: '',
    })),
  ];
}

function coldStarts(folder: string, { entries }: BuiltPackage): Figure[] {
  const node = node24();
  const installed = join(folder, 'node_modules');
  mkdirSync(installed);
  symlinkSync(fileURLToPath(new URL('node_modules/zod', root)), join(installed, 'zod'));
  symlinkSync(join(folder, 'dist/package'), join(installed, 'postbud'));
  const scripts: [what: string, text: string][] = [
    ['an empty process', ''],
    ["import 'zod'", "import 'zod';"],
    ...entries
      // Tests import it, which no user waits for.
      .filter(({ name }) => name !== 'testing')
      .map(({ name }): [string, string] => [`import 'postbud/${name}'`, `import 'postbud/${name}';`]),
  ];
  const times = scripts.map(([, text], index) => {
    const file = join(folder, `${index}.mjs`);
    writeFileSync(file, text);
    return { file, each: [] as number[] };
  });
  console.log(`Cold starts of the package, ${ROUNDS} of each …`);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { file, each } of times) {
      const startedAt = performance.now();
      const { status, stderr } = spawnSync(node, [file], { encoding: 'utf8' });
      if (status !== 0) throw new Error(stderr);
      each.push(performance.now() - startedAt);
    }
  }
  return scripts.map(([what], index) => {
    const { each } = times[index]!;
    return { what, figure: `${ms(quantile(each, 0.5))} / ${ms(Math.max(...each))}`, goal: '' };
  });
}

async function latencies(): Promise<Figure[]> {
  logTo(() => undefined);
  console.log(`From commit to handler elsewhere, ${EVENTS} events with kicks and ${EVENTS} without …`);
  const postgres = await startPostgres();
  try {
    const withKicks = await latenciesOf(await createDatabase(postgres.url), kicked);
    const without = await latenciesOf(await createDatabase(postgres.url), ticked);
    return [
      { what: 'commit to handler elsewhere with a kick, p50 / slowest', figure: withKicks, goal: '' },
      { what: 'commit to handler elsewhere without, p50 / slowest', figure: without, goal: '' },
    ];
  } finally {
    await postgres.stop();
  }
}

/** A bus that relays to this receiver: what a producer calls after a commit, and the end of it. */
interface Bus {
  readonly afterCommit: () => unknown;
  readonly stop: () => Promise<unknown>;
}

interface Receiver {
  readonly url: string;
  readonly secret: string;
}

/** The cron's function, which only kicks set going. */
async function kicked(databaseUrl: string, { url, secret }: Receiver): Promise<Bus> {
  Object.assign(process.env, {
    DATABASE_URL: databaseUrl,
    KICK_SECRET: secret,
    SUBSCRIBER_CALENDAR_URL: url,
    SUBSCRIBER_CALENDAR_SECRET: secret,
  });
  const { default: endpoint } = await import('../api/cron/relay.ts');
  const server = await listening((request) => endpoint.fetch(request));
  return {
    afterCommit: createKick({ url: server.url!, secret }),
    stop: () => server.close(true),
  };
}

/** A relay that looks as the cron's does. */
async function ticked(databaseUrl: string, receiver: Receiver): Promise<Bus> {
  const { db, close } = await connect(databaseUrl);
  const ending = new AbortController();
  const subscribers = [remoteSubscriber({ name: 'calendar', ...receiver })];
  const relaying = keepRelaying({ db, subscribers, until: Infinity, signal: ending.signal });
  return {
    afterCommit: () => undefined,
    async stop() {
      ending.abort();
      await relaying.catch(() => undefined);
      await close();
    },
  };
}

async function latenciesOf(
  databaseUrl: string,
  openBus: (databaseUrl: string, receiver: Receiver) => Promise<Bus>,
): Promise<string> {
  const committedAt = new Map<string, number>();
  const times: number[] = [];
  const receiving = await listening(async (request) => {
    const at = performance.now();
    const { data } = (await request.json()) as { data: { maintenanceId: string } };
    times.push(at - committedAt.get(data.maintenanceId)!);
    return new Response(null, { status: 204 });
  });
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const bus = await openBus(databaseUrl, { url: receiving.url!, secret });
  const pool = new pg.Pool({ connectionString: databaseUrl });
  const client = await pool.connect();
  for (let number = 0; number < EVENTS; number += 1) {
    const maintenanceId = `mnt_${number}`;
    await client.query('begin');
    const payload = { maintenanceId, resourceId: 'res_1', completedAt: new Date().toISOString() };
    await emit(client, 'resource.maintenance.completed', payload);
    await client.query('commit');
    committedAt.set(maintenanceId, performance.now());
    void bus.afterCommit();
    await sleep((2 * LOOK_EVERY_MS) / EVENTS);
  }
  while (times.length < EVENTS) await sleep(50);
  client.release();
  await pool.end();
  await bus.stop();
  await receiving.close(true);
  return `${ms(quantile(times, 0.5))} / ${ms(Math.max(...times))}`;
}

async function listening(answer: (request: Request) => Promise<Response>): Promise<Server> {
  const server = serve({
    port: 0,
    hostname: '127.0.0.1',
    silent: true,
    gracefulShutdown: false,
    fetch: answer,
  });
  return await server.ready();
}
