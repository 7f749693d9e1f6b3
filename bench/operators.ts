import { gzipSync } from 'node:zlib';

import pg from 'pg';

import { catalog, topics } from '../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../lib/bus/catalog/catalog.ts';
import { replay } from '../lib/bus/deliveries/operations/replay.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import { relay } from '../lib/bus/relay/relay.ts';
import { countBadges } from '../lib/console/dead-letters/count.ts';
import { metricsFor } from '../lib/console/metrics/read.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { logTo } from '../lib/platform/log.ts';
import { SECOND } from '../lib/platform/time.ts';
import { operatorFunction } from '../tests/support/operator-function.ts';
import { operatorSettings, operatorToken } from '../tests/support/operator-token.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal, ms, quantile, timed } from './figures.ts';
import type { Figure, Section } from './figures.ts';
import { LARGEST_GROUPS, PREVIEWED } from './large-bus-plan.ts';
import { attachedSubscribers, countLargeBus, fillHealth, fillLargeBus } from './large-bus.ts';
import type { LargeBus } from './large-bus.ts';

// The operators' console and the relay on a large event bus, on Postgres with default durability. Relays on the small
// and on the large database take turns, so that other work of the machine slows both.

/** Of some two deliveries each. */
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 10_000_000);
/** A database that an earlier run has filled, whose server still runs: only what is shown of it is measured. */
const FILLED = process.env['BENCH_FILLED_URL'];
const READS = Number(process.env['BENCH_READS'] ?? 40);
const WARM_UP = 5;
const WARM_UP_EVENTS = 40;
const TICKS = 10 * READS;
/** Events with two subscribers each: a busy turn. */
const EVENTS_OF_A_PASS = 100;
const PASSES = READS;

const PAGE = 50;
const DEEP_PAGE = 500;
/** That a list gives. */
const LONGEST_PAGE = 100;

const METRICS = '/platform/metrics';

const PAGE_GOAL_MS = 300;
const TICK_GOAL = 0.2;

const subscribers = attachedSubscribers();

/** Measures the operators' pages on a large event bus, and its cost to the relay. */
export async function benchOperators(): Promise<Section> {
  logTo(() => undefined);
  countStatements();
  if (FILLED !== undefined) return await pagesOf(FILLED);
  console.log('A Postgres of its own …');
  const server = await startPostgres();
  try {
    const largeUrl = await createDatabase(server.url);
    const filledIn = await timed(async () => tellCounts(await fillLargeBus(largeUrl, EVENTS, tell)));
    console.log(`Filled in ${Math.round(filledIn / SECOND)} s. Measuring …`);
    const empty = await connect(await createDatabase(server.url));
    const fresh = await connect(await createDatabase(server.url));
    const large = await connect(largeUrl);
    await emitOneOfEach(fresh.db);
    try {
      await fillReceiptsAndHealth(large.db);
      const rows = [
        ...(await pages(large.db)),
        ...(await relays({ empty: empty.db, fresh: fresh.db, large: large.db })),
        ...(await replays(large.db)),
      ];
      return { title: title(), rows };
    } finally {
      await Promise.all([empty, fresh, large].map(({ close }) => close()));
    }
  } finally {
    await server.stop();
  }
}

async function pagesOf(url: string): Promise<Section> {
  tellCounts(await countLargeBus(url));
  const { db, close } = await connect(url);
  try {
    return { title: title(), rows: await pages(db) };
  } finally {
    await close();
  }
}

let counted: LargeBus | undefined;

function tellCounts(found: LargeBus): void {
  counted = found;
  tell('');
  console.log(found);
}

function title(): string {
  const { delivered, pending, failing, deadLettered, lanes } = counted!;
  const number = (count: number) => count.toLocaleString('en');
  return `The operators’ console with ${number(delivered)} delivered and ${number(
    pending + failing + deadLettered,
  )} unfinished deliveries (${number(deadLettered)} dead letters) in ${number(lanes)} lanes`;
}

function tell(progress: string): void {
  if (process.stdout.isTTY) process.stdout.write(`\r\u001B[K${progress}`);
}

interface Buses {
  /** Has no row, so a relay finds nothing to look at. */
  readonly empty: Database;
  /** Has one delivered event of each topic: the rows that a relay looks at, and no more. */
  readonly fresh: Database;
  readonly large: Database;
}

async function relays(buses: Buses): Promise<Figure[]> {
  const idle = await inTurns(TICKS, buses, tick);
  for (const db of Object.values(buses)) await warmUp(db);
  const busy = await inTurns(PASSES, buses, pass, emitSome);
  const some = `${EVENTS_OF_A_PASS} events to two subscribers each`;
  return [...compared('idle turn of the relay', idle), ...compared(some, busy)];
}

async function emitOneOfEach(db: Database): Promise<void> {
  await db.transaction(async (tx) => {
    for (const [topic, { example }] of topics()) await emit(tx, topic, example as never);
  });
  const { placed } = await relay({ db, subscribers, until: Date.now() + 30 * SECOND });
  if (placed < topics().length) throw new Error(`a relay placed ${placed} only`);
}

async function tick(db: Database): Promise<void> {
  const { ticks } = await relay({ db, subscribers, until: Date.now() + 10 * SECOND });
  if (ticks !== 1) throw new Error(`an idle relay ticked ${ticks} times: there was something to do`);
}

async function pass(db: Database): Promise<void> {
  const { delivered } = await relay({ db, subscribers, until: Date.now() + 10 * SECOND });
  if (delivered < EVENTS_OF_A_PASS) throw new Error(`a relay delivered ${delivered} only`);
}

/** Warms connections by small rounds, like those of a process that has run for a while. */
async function warmUp(db: Database): Promise<void> {
  for (let number = 0; number < WARM_UP_EVENTS; number += 1) {
    await emitSome(db, 1);
    await relay({ db, subscribers, until: Date.now() + 10 * SECOND });
  }
}

async function emitSome(db: Database, events = EVENTS_OF_A_PASS): Promise<void> {
  await db.transaction(async (tx) => {
    for (let number = 0; number < events; number += 1) {
      await emit(tx, 'support.case.opened', catalog['support.case.opened'].example);
    }
  });
}

type Times = { readonly [Name in keyof Buses]: number[] };

async function inTurns(
  rounds: number,
  buses: Buses,
  body: (db: Database) => Promise<void>,
  before: (db: Database) => Promise<void> = async () => {},
): Promise<Times> {
  const times: Times = { empty: [], fresh: [], large: [] };
  const names = ['empty', 'fresh', 'large'] as const;
  for (let round = 0; round < WARM_UP + rounds; round += 1) {
    // Each goes first equally often: the last one leaves its data in the processor's caches.
    const first = round % names.length;
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      await before(buses[name]);
      const time = await timed(() => body(buses[name]));
      if (round >= WARM_UP) times[name].push(time);
    }
  }
  return times;
}

function compared(what: string, { empty, fresh, large }: Times): Figure[] {
  const more = (to: readonly number[]) => quantile(large, 0.5) / quantile(to, 0.5) - 1;
  return [
    { what: `${what}, empty database, p50 / p95`, figure: both(empty), goal: '' },
    { what: `${what}, one delivered event of each topic, p50 / p95`, figure: both(fresh), goal: '' },
    {
      what: `${what}, with all this data, p50 / p95`,
      figure: `${both(large)} (${percent(more(fresh))}; to an empty database ${percent(more(empty))})`,
      goal: goal('p50 within 20 % of one delivered event of each topic', more(fresh) <= TICK_GOAL),
    },
  ];
}

function percent(share: number): string {
  return `${share < 0 ? '−' : '+'}${Math.abs(share * 100).toFixed(0)} %`;
}

function both(times: readonly number[]): string {
  return `${ms(quantile(times, 0.5))} / ${ms(quantile(times, 0.95))}`;
}

const HOME = '/platform/event-bus';

interface Ids {
  readonly group: string;
  readonly delivery: string;
  readonly event: string;
  /** The newest event of a topic that two subscribers are blocked in. */
  readonly blocked: string;
}

const IDS = `
  select (
      select key from error_groups join exceptions on error_group = key
      group by key order by abs(count(*) - $1) limit 1
    ) as "group",
    event_id || '.' || subscriber as delivery, event_id as event, (
      select event_id from streams join log on stream = streams.id
      where topic = 'payment.captured' order by position desc limit 1
    ) as blocked
  from exceptions join lanes on lanes.id = lane
  where dead_lettered_at is not null order by dead_lettered_at offset 100 limit 1`;

/** Two receipts for each event. */
const RECEIPTS = `
  insert into webhook_receipts (provider, event_id, body_sha256, received_at)
  select 'cardpayments', 'evt_' || number, repeat('0', 64),
    clock_timestamp() - number * interval '90 days' / $1::float8
  from generate_series(1, $1::bigint) as number`;

async function fillReceiptsAndHealth(db: Database): Promise<void> {
  await fillHealth(db);
  tell('webhook_receipts');
  await run(driverOf(db), { text: RECEIPTS, values: [2 * EVENTS] });
}

/** Measures what a browser asks for: the time, the size, and the statements that the answer takes. */
async function pages(db: Database): Promise<Figure[]> {
  const [ids] = await run<Ids>(driverOf(db), { text: IDS, values: [PREVIEWED] });
  const get = await consoleOf(db);
  const figures: Figure[] = [];
  for (const [what, path] of await askedFor(ids!, get))
    figures.push(await measuredPage(what, () => get(path)));
  const json = () => get(HOME, 'application/json');
  return [
    ...figures,
    await measuredPage('overview as JSON', json),
    await measuredPage(METRICS, () => get(METRICS, 'text/plain')),
  ];
}

type Asked = readonly (readonly [what: string, path: string])[];

/** The pages, and those lists whose filters or whose depth have plans of their own. */
async function askedFor(ids: Ids, get: Get): Promise<Asked> {
  const { group, delivery, event, blocked } = ids;
  const [topic] = LARGEST_GROUPS.topics;
  const incidents = await itemsOf(get, '/incidents');
  const largest = incidents.toSorted((one, other) => other.owed - one.owed)[0]!;
  const deep = await deepPage(get, '/dead-letters');
  return [
    ['overview', ''],
    [`incidents, ${incidents.length} of them`, '/incidents'],
    ['the incident with the most blocked', `/incidents/${incidents[0]!.incidentId}`],
    ['the incident with the most dead letters', `/incidents/${largest.incidentId}`],
    ['dead letters', '/dead-letters'],
    [`dead letters, page ${DEEP_PAGE}`, deep],
    ['dead letters of a topic', `/dead-letters?topic=${topic}`],
    ['dead letters of a subscriber', '/dead-letters?subscriber=notifications'],
    ['dead letters of a group', `/dead-letters?group=${group}`],
    ['dead letters by part of the error', '/dead-letters?q=refused'],
    ['dead letters of the last 24 hours', '/dead-letters?since=24h'],
    ['one dead letter', `/dead-letters/${delivery}`],
    ['events', '/events'],
    ['events by their correlation id', '/events?q=req-1000'],
    ['an event with a dead letter', `/events/${event}`],
    ['an event behind thousands of others', `/events/${blocked}`],
    ['subscribers', '/subscribers'],
    ['a subscriber of every topic', '/subscribers/audit'],
    ['a busy topic', '/topics/payment.captured'],
    ['a topic with a thousand keys in trouble', '/topics/user.profile.updated'],
    ['webhooks', '/webhooks'],
    ['webhooks by id', '/webhooks?id=evt_500000'],
    ['the operator log', '/replays'],
    ['timers', '/timers'],
    ['AsyncAPI', '/catalog/asyncapi'],
    [`preview of a replay of ${PREVIEWED.toLocaleString('en')}`, `/replay?since=3650d&group=${group}`],
  ].map(([what, path]) => [what!, HOME + path!]);
}

type Get = (path: string, accept?: string) => Promise<string>;

/** Makes the function that answers for a signed-in operator, as the deployed ones do. */
async function consoleOf(db: Database): Promise<Get> {
  const console = operatorFunction({
    settings: operatorSettings,
    db: () => db,
    subscribers: () => subscribers,
    badges: async () => await countBadges(db),
  });
  const bus = { database: async () => db, subscribers: () => subscribers };
  return async (path, accept = 'text/html') => {
    // A token lasts five minutes.
    const headers = { accept, authorization: `Bearer ${await operatorToken()}` };
    const request = new Request(`http://localhost${path}`, { headers });
    const response = await (path === METRICS
      ? metricsFor(request, operatorSettings, bus)
      : console.fetch(request));
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}`);
    return await response.text();
  };
}

async function itemsOf(get: Get, path: string): Promise<readonly { incidentId: string; owed: number }[]> {
  return (JSON.parse(await get(HOME + path, 'application/json')) as { items: never }).items;
}

/** Pages down a list. @returns the path of the page that is measured. */
async function deepPage(get: Get, path: string): Promise<string> {
  let query = `?limit=${LONGEST_PAGE}`;
  for (let page = 1; page < (DEEP_PAGE * PAGE) / LONGEST_PAGE; page += 1) {
    const { nextCursor } = JSON.parse(await get(HOME + path + query, 'application/json')) as {
      nextCursor: string | null;
    };
    if (nextCursor === null) break;
    query = `?limit=${LONGEST_PAGE}&cursor=${encodeURIComponent(nextCursor)}`;
  }
  return path + query.replace(`limit=${LONGEST_PAGE}`, `limit=${PAGE}`);
}

async function measuredPage(what: string, get: () => Promise<string>): Promise<Figure> {
  tell(what);
  const times: number[] = [];
  for (let round = 0; round < WARM_UP + READS; round += 1) {
    const time = await timed(get);
    if (round >= WARM_UP) times.push(time);
  }
  const before = statements;
  const body = await get();
  const sent = statements - before;
  const figure = `${both(times)}; ${kilobytes(body)} / ${kilobytes(gzipSync(body))}; ${sent}`;
  tell('');
  // The whole run takes most of an hour.
  console.log(`${what}: ${figure}`);
  return {
    what: `${what}, p50 / p95; plain / gzipped; statements`,
    figure,
    goal: goal(`p95 under ${PAGE_GOAL_MS} ms`, quantile(times, 0.95) < PAGE_GOAL_MS),
  };
}

/** Sent by this process, over every connection. */
let statements = 0;

function countStatements(): void {
  const query = pg.Client.prototype.query as (...given: unknown[]) => unknown;
  pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]) {
    statements += 1;
    return Reflect.apply(query, this, given);
  } as typeof pg.Client.prototype.query;
}

function kilobytes(body: string | Buffer): string {
  return `${(Buffer.byteLength(body) / 1000).toFixed(1)} kB`;
}

/** Measures replays. Each takes the oldest dead letters, so no two are the same. */
async function replays(db: Database): Promise<Figure[]> {
  const [small, large] = LARGEST_GROUPS.topics;
  return [await replayed(db, small, 1000, 5), await replayed(db, large, 20_000, 1)];
}

async function replayed(db: Database, topic: TopicName, limit: number, times: number): Promise<Figure> {
  const took: number[] = [];
  let count = 0;
  for (let round = 0; round < times; round += 1) {
    const asked = { topic, since: '3650d', limit, reason: 'measured' };
    took.push(await timed(async () => ({ replayed: count } = await replay(db, asked, 'bench'))));
  }
  const rounds = times === 1 ? 'once' : `p50 of ${times}`;
  return {
    what: `replay of ${count.toLocaleString('en')} dead letters, ${rounds}`,
    figure: ms(quantile(took, 0.5)),
    goal: '',
  };
}
