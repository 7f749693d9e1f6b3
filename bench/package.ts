import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import pg from 'pg';
import { serve } from 'srvx';
import type { Server } from 'srvx';
import { Webhook } from 'standardwebhooks';

import { writePackage } from '../dev/build/package/write.ts';
import type { BuiltPackage } from '../dev/build/package/write.ts';
import { node24 } from '../dev/serve-output/node-24.ts';
import { keepRelaying, LOOK_EVERY_MS } from '../lib/bus/relay/keep-relaying.ts';
import { remoteSubscriber } from '../lib/components/remote/remote-subscriber.ts';
import { createKick, emit } from '../lib/elsewhere/emit/emit.ts';
import { onDue } from '../lib/platform/db/commits.ts';
import { connect } from '../lib/platform/db/connect.ts';
import { logTo } from '../lib/platform/log.ts';
import { sleep } from '../lib/platform/time.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal, ms, quantile } from './figures.ts';
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
        `Whole processes on Node 24, median / slowest of ${ROUNDS}. The relay with kicks runs for them alone; the one without looks every ${LOOK_EVERY_MS / 1000} seconds, as the cron's does. ${EVENTS} events in each way, to a subscriber over HTTP on the same machine; the time begins when the producer's process, or the function of POST /api/events, has the answer to its commit.`,
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
  console.log(`From commit to handler elsewhere, ${EVENTS} events in each way …`);
  const postgres = await startPostgres();
  try {
    const woken = await latenciesOf(await createDatabase(postgres.url), wokenBus);
    const alone = await latenciesOf(await createDatabase(postgres.url), lookingBus);
    return [
      row('commit to handler elsewhere, by emit and a kick', woken.emit!),
      row('the same, by postbud_emit and a kick', woken.sql!),
      {
        ...row('the same, by POST /api/events', woken.post!),
        goal: goal('p50 under 10 ms', quantile(woken.post!, 0.5) < 10),
      },
      row('the same, from signing the request', woken.signed!),
      row('commit to handler elsewhere without a kick', alone.emit!),
    ];
  } finally {
    await postgres.stop();
  }
}

function row(what: string, times: readonly number[]): Figure {
  return {
    what: `${what}, p50 / slowest`,
    figure: `${ms(quantile(times, 0.5))} / ${ms(Math.max(...times))}`,
    goal: '',
  };
}

interface Maintenance {
  readonly maintenanceId: string;
  readonly resourceId: string;
  readonly completedAt: string;
}

const TOPIC = 'resource.maintenance.completed';

/** Records an event. `began` is called where the time begins. */
type Record = (payload: Maintenance, began: () => void) => Promise<unknown>;

/** A bus that relays to a receiver: the ways to record an event in it, and its end. */
interface Bus {
  readonly ways: Readonly<{ [way: string]: Record }>;
  readonly stop: () => Promise<unknown>;
}

interface Receiver {
  readonly url: string;
  readonly secret: string;
}

/** The functions of kicks and of posted events: no relay looks by itself. */
async function wokenBus(databaseUrl: string, { url, secret }: Receiver): Promise<Bus> {
  Object.assign(process.env, {
    DATABASE_URL: databaseUrl,
    KICK_SECRET: secret,
    PRODUCER_RESOURCES_SECRET: secret,
    SUBSCRIBER_CALENDAR_URL: url,
    SUBSCRIBER_CALENDAR_SECRET: secret,
  });
  const { default: kicks } = await import('../api/kick.ts');
  const { default: events } = await import('../api/events.ts');
  const { database } = await import('../lib/components/database.ts');
  const server = await listening((request) =>
    (new URL(request.url).pathname === '/api/events' ? events : kicks).fetch(request),
  );
  const kick = createKick({ url: server.url!, secret });
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const committed = async (record: () => Promise<unknown>, began: () => void) => {
    await client.query('begin');
    await record();
    await client.query('commit');
    began();
    void kick();
  };
  return {
    ways: {
      emit: async (payload, began) => await committed(() => emit(client, TOPIC, payload), began),
      sql: async (payload, began) =>
        await committed(
          () => client.query('select postbud_emit($1, $2)', [TOPIC, JSON.stringify(payload)]),
          began,
        ),
      async post(payload, began) {
        const forget = onDue(await database(), began);
        await post(new URL('/api/events', server.url), secret, payload);
        forget();
      },
      async signed(payload, began) {
        began();
        await post(new URL('/api/events', server.url), secret, payload);
      },
    },
    async stop() {
      await client.end();
      await server.close(true);
    },
  };
}

async function post(url: URL, secret: string, data: Maintenance): Promise<void> {
  const id = data.maintenanceId;
  const body = JSON.stringify({ specversion: '1.0', id, source: 'resources', type: TOPIC, data });
  const at = new Date();
  const response = await fetch(url, {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/cloudevents+json',
      'webhook-id': id,
      'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    },
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
}

/** A relay that looks as the cron's does. */
async function lookingBus(databaseUrl: string, receiver: Receiver): Promise<Bus> {
  const { db, close } = await connect(databaseUrl);
  const ending = new AbortController();
  const subscribers = [remoteSubscriber({ name: 'calendar', ...receiver })];
  const relaying = keepRelaying({ db, subscribers, until: Infinity, signal: ending.signal });
  const client = new pg.Client(databaseUrl);
  await client.connect();
  return {
    ways: {
      async emit(payload, began) {
        await client.query('begin');
        await emit(client, TOPIC, payload);
        await client.query('commit');
        began();
      },
    },
    async stop() {
      ending.abort();
      await relaying.catch(() => undefined);
      await client.end();
      await close();
    },
  };
}

/** @returns the times of each way, in milliseconds; the ways take turns. */
async function latenciesOf(
  databaseUrl: string,
  openBus: (databaseUrl: string, receiver: Receiver) => Promise<Bus>,
): Promise<{ [way: string]: number[] }> {
  const arrivedAt = new Map<string, number>();
  const receiving = await listening(async (request) => {
    const at = performance.now();
    const { data } = (await request.json()) as { data: Maintenance };
    arrivedAt.set(data.maintenanceId, at);
    return new Response(null, { status: 204 });
  });
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const bus = await openBus(databaseUrl, { url: receiving.url!, secret });
  const ways = Object.entries(bus.ways);
  const beganAt = new Map<string, number>();
  for (let number = 0; number < EVENTS; number += 1) {
    for (const [way, record] of ways) {
      const maintenanceId = `mnt_${way}_${number}`;
      const payload = { maintenanceId, resourceId: 'res_1', completedAt: new Date().toISOString() };
      await record(payload, () => beganAt.set(maintenanceId, performance.now()));
      await sleep((2 * LOOK_EVERY_MS) / EVENTS);
    }
  }
  while (arrivedAt.size < EVENTS * ways.length) await sleep(50);
  await bus.stop();
  await receiving.close(true);
  return Object.fromEntries(
    ways.map(([way]) => [
      way,
      Array.from(
        { length: EVENTS },
        (_, number) => arrivedAt.get(`mnt_${way}_${number}`)! - beganAt.get(`mnt_${way}_${number}`)!,
      ),
    ]),
  );
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
