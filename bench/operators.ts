import { gzipSync } from 'node:zlib';

import { SignJWT } from 'jose';

import { catalog, topics } from '../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../lib/bus/catalog/catalog.ts';
import { replayRequest } from '../lib/console/kit/replay-request.ts';
import { replay } from '../lib/bus/deliveries/operations/replay.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import { relay } from '../lib/bus/relay/relay.ts';
import { watchIncidents } from '../lib/components/incidents/watch.ts';
import { sampleBacklog } from '../lib/components/subscriber-health/sample-backlog.ts';
import { countBadges } from '../lib/console/dead-letters/count.ts';
import { readDeadLetter } from '../lib/console/event/delivery.ts';
import { deadLetterQuery } from '../lib/console/dead-letters/query.ts';
import { readDeadLetters } from '../lib/console/dead-letters/read.ts';
import { operatorEndpoint } from '../lib/console/endpoint.ts';
import { readEvent } from '../lib/console/event/read.ts';
import { readIncident } from '../lib/console/incidents/detail.ts';
import type { Incident } from '../lib/console/incidents/incident.ts';
import { incidentQuery, readIncidents } from '../lib/console/incidents/read.ts';
import type { Bus } from '../lib/console/kit/route.ts';
import { readTopic } from '../lib/console/lanes/read.ts';
import { metricsFor } from '../lib/console/metrics/read.ts';
import { readOverview } from '../lib/console/overview/read.ts';
import { previewReplay } from '../lib/console/replays/preview.ts';
import { readSubscriberHealth } from '../lib/console/subscribers/read.ts';
import { readStandings } from '../lib/console/subscribers/standing.ts';
import { readTail, tailQuery } from '../lib/console/tail/read.ts';
import { webhookQuery } from '../lib/console/webhooks/query.ts';
import { readWebhooks } from '../lib/console/webhooks/read.ts';
import { endpointsOf } from '../lib/edge/webhooks/endpoints.ts';
import { testSender } from '../lib/edge/webhooks/send-test.ts';
import { readConfig } from '../lib/platform/config.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { logTo } from '../lib/platform/log.ts';
import { SECOND } from '../lib/platform/time.ts';
import { operatorRoutes } from '../tests/support/operator-function.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal, ms, quantile, timed } from './figures.ts';
import type { Figure, Section } from './figures.ts';
import { LARGEST_GROUPS, PREVIEWED } from './large-bus-plan.ts';
import { attachedSubscribers, fillHealth, fillLargeBus } from './large-bus.ts';
import type { LargeBus } from './large-bus.ts';

// The operators' console and the relay on a large event bus, on Postgres with default durability. Relays on the small
// and on the large database take turns, so that other work of the machine slows both.

/** Of some two deliveries each. */
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 4_600_000);
const READS = Number(process.env['BENCH_READS'] ?? 40);
const WARM_UP = 5;
const WARM_UP_EVENTS = 40;
const TICKS = 10 * READS;
/** Events with two subscribers each: a busy turn. */
const EVENTS_OF_A_PASS = 100;
const PASSES = READS;

const PAGE = 50;
const DEEP_PAGE = 500;

/** A window without dead letters: none was added since the database was filled. */
const NOTHING_SINCE = '1s';

const OVERVIEW_GOAL_MS = 300;
const PAGE_GOAL_MS = 20;
const TICK_GOAL = 0.2;

const subscribers = attachedSubscribers();

/** Measures the operators' pages on a large event bus, and its cost to the relay. */
export async function benchOperators(): Promise<Section> {
  logTo(() => undefined);
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
      const rows = [
        ...(await relays({ empty: empty.db, fresh: fresh.db, large: large.db })),
        ...(await views(large.db)),
        ...(await pages(large.db)),
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

async function readOneIncident(db: Database, { incidentId }: Incident): Promise<void> {
  if ((await readIncident(db, incidentId)) === null) throw new Error('the incident is gone');
}

/** Reads the subscriber with the most topics. */
async function readHealth(db: Database, span: 'hours' | 'days'): Promise<void> {
  const health = await readSubscriberHealth(db, {
    subscriber: 'audit',
    span,
    attachments: { subscribers: () => [], refusals: () => [] },
  });
  if (!health?.intervals.every(({ delivered }) => delivered > 0)) throw new Error('an interval is empty');
}

async function views(db: Database): Promise<Figure[]> {
  await fillHealth(db);
  const [group] = await run<{ key: string; topic: TopicName; letters: number }>(driverOf(db), {
    text: `select key, topic, count(*)::int as letters from error_groups join exceptions on error_group = key
      group by key order by abs(count(*) - $1) limit 1`,
    values: [PREVIEWED],
  });
  const letters = (query: object) => async () => {
    const page = await readDeadLetters(db, deadLetterQuery.parse({ limit: PAGE, ...query }));
    const isExpected = 'since' in query && query.since === NOTHING_SINCE;
    if ((page.items.length === 0) !== isExpected)
      throw new Error(`found: ${page.items.length} of ${JSON.stringify(query)}`);
  };
  const [topic] = LARGEST_GROUPS.topics;
  const [one] = await run<{ id: string; event: string }>(driverOf(db), {
    text: `select event_id || '.' || subscriber as id, event_id as event from exceptions join lanes on lanes.id = lane
      where dead_lettered_at is not null order by dead_lettered_at offset 100 limit 1`,
    values: [],
  });
  const asked = replayRequest.parse({ topic: group!.topic, since: '3650d', group: group!.key });
  const cursor = await deepCursor(db, null);
  const blocked = await lastOfBlocked(db);
  const { items: incidents } = await readIncidents(db, incidentQuery.parse({}));
  const largest = incidents.toSorted((first, second) => second.owed - first.owed)[0]!;
  return [
    await read('the newest outcomes', () => readTail(db, tailQuery.parse({})), OVERVIEW_GOAL_MS),
    await read(
      'the newest outcomes that failed, for one subscriber',
      () => readTail(db, tailQuery.parse({ subscriber: 'audit', outcome: 'failing' })),
      OVERVIEW_GOAL_MS,
    ),
    await read('incidents, brought up to date', () => watchIncidents(db), OVERVIEW_GOAL_MS),
    await read(
      `incidents, ${incidents.length} of them`,
      () => readIncidents(db, incidentQuery.parse({})),
      OVERVIEW_GOAL_MS,
    ),
    await read(
      'the incident with the most blocked',
      () => readOneIncident(db, incidents[0]!),
      OVERVIEW_GOAL_MS,
    ),
    await read(
      'the incident with the most dead letters',
      () => readOneIncident(db, largest),
      OVERVIEW_GOAL_MS,
    ),
    await read('overview, read', () => readOverview(db, subscribers), OVERVIEW_GOAL_MS),
    await read('dead letters, first page', letters({}), PAGE_GOAL_MS),
    await read(`dead letters, page ${DEEP_PAGE}`, letters({ cursor }), PAGE_GOAL_MS),
    await read('dead letters, the page before that', letters({ cursor: asNewer(cursor) }), PAGE_GOAL_MS),
    await read('dead letters of a topic', letters({ topic }), PAGE_GOAL_MS),
    await read(
      'dead letters of a topic, half way down',
      letters({ topic, cursor: await deepCursor(db, topic) }),
      PAGE_GOAL_MS,
    ),
    await read('dead letters of a subscriber', letters({ subscriber: 'notifications' }), PAGE_GOAL_MS),
    await read('dead letters of a group', letters({ group: group!.key }), PAGE_GOAL_MS),
    await read('dead letters by part of the error', letters({ q: 'refused' }), PAGE_GOAL_MS),
    await read('dead letters of the last 24 hours', letters({ since: '24h' }), PAGE_GOAL_MS),
    await read('dead letters of the last 30 days', letters({ since: '30d' }), PAGE_GOAL_MS),
    await read('dead letters of the last 30 days in a topic', letters({ topic, since: '30d' }), PAGE_GOAL_MS),
    await read(
      'dead letters of a short period, less than a page',
      letters({ since: await fewSince(db) }),
      PAGE_GOAL_MS,
    ),
    await read('dead letters, none found', letters({ since: NOTHING_SINCE }), PAGE_GOAL_MS),
    await read('dead letters of an event', letters({ q: one!.event }), PAGE_GOAL_MS),
    await read('dead letters by delivery id', letters({ q: one!.id }), PAGE_GOAL_MS),
    await read('one dead letter', () => readDeadLetter(db, one!.id)),
    await read('an event with a dead letter', () => readOne(db, one!.event), OVERVIEW_GOAL_MS),
    await read('an event behind thousands of others', () => readOne(db, blocked), OVERVIEW_GOAL_MS),
    await read('a busy topic', () => readTopic(db, subscribers, 'payment.captured')),
    await read('a topic with a thousand keys in trouble', () =>
      readTopic(db, subscribers, 'user.profile.updated'),
    ),
    await read('all subscribers', () => readStandings(db, subscribers), OVERVIEW_GOAL_MS),
    await read('one subscriber and its health, 48 hours', () => readHealth(db, 'hours'), OVERVIEW_GOAL_MS),
    await read('one subscriber and its health, 30 days', () => readHealth(db, 'days'), OVERVIEW_GOAL_MS),
    await read('sample of every backlog’s age', () => sampleBacklog(db)),
    ...(await webhooks(db)),
    await read(`preview of a replay of ${group!.letters.toLocaleString('en')}`, async () => {
      const { matched } = await previewReplay(db, subscribers, asked);
      if (matched !== group!.letters) throw new Error(`${matched} dead letters match`);
    }),
  ];
}

/** Measures the list of webhooks, beside two receipts for each event. */
async function webhooks(db: Database): Promise<Figure[]> {
  const endpoints = endpointsOf(readConfig());
  tell('webhook_receipts');
  await run(driverOf(db), { text: RECEIPTS, values: [2 * EVENTS] });
  const list = (query: object) => () => readWebhooks(db, endpoints, webhookQuery.parse(query));
  let cursor: string | undefined;
  for (let page = 1; page < DEEP_PAGE; page += 1) {
    const { receipts } = await list({ cursor })();
    cursor = receipts.nextCursor ?? cursor;
  }
  return [
    await read('webhooks', list({}), OVERVIEW_GOAL_MS),
    await read(`webhooks, page ${DEEP_PAGE}`, list({ cursor }), OVERVIEW_GOAL_MS),
    await read('webhooks by id', list({ id: 'evt_500000' }), OVERVIEW_GOAL_MS),
  ];
}

const RECEIPTS = `
  insert into webhook_receipts (provider, event_id, body_sha256, received_at)
  select 'cardpayments', 'evt_' || number, repeat('0', 64),
    clock_timestamp() - number * interval '90 days' / $1::float8
  from generate_series(1, $1::bigint) as number`;

async function readOne(db: Database, eventId: string): Promise<void> {
  const event = await readEvent(db, eventId, { attached: subscribers });
  if (event === null) throw new Error(`no event ${eventId}`);
}

/** The newest event of a topic that two subscribers are blocked in. */
async function lastOfBlocked(db: Database): Promise<string> {
  const [row] = await run<{ id: string }>(driverOf(db), {
    text: `select event_id as id from streams join log on stream = streams.id
      where topic = 'payment.captured' order by position desc limit 1`,
    values: [],
  });
  return row!.id;
}

/** Finds a window with half a page of dead letters, with room for the time that the reads take. */
async function fewSince(db: Database): Promise<string> {
  const [row] = await run<{ seconds: number }>(driverOf(db), {
    text: `select extract(epoch from clock_timestamp() - dead_lettered_at)::int as seconds from exceptions
      where dead_lettered_at is not null order by dead_lettered_at desc offset ${PAGE / 2} limit 1`,
    values: [],
  });
  return `${row!.seconds}s`;
}

/** Pages down. @returns the cursor of the measured page. */
async function deepCursor(db: Database, topic: string | null): Promise<string> {
  const [row] = await run<{ at: string; lane: string; position: string }>(driverOf(db), {
    text: `with dead as (
        select dead_lettered_at, lane, position, row_number() over (order by dead_lettered_at desc, lane desc,
          position desc) as number, count(*) over () as total
        from exceptions where dead_lettered_at is not null
          and ($1::text is null or lane in (select id from lanes where topic = $1::text))
      )
      select to_char(dead_lettered_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at,
        lane::text as lane, position::text as position
      from dead where number = least($2::int, total / 2)`,
    values: [topic, (DEEP_PAGE - 1) * PAGE],
  });
  return encoded([row!.at, row!.lane, row!.position, 'older']);
}

function asNewer(cursor: string): string {
  const place = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as readonly string[];
  return encoded([...place.slice(0, 3), 'newer']);
}

function encoded(cursor: readonly string[]): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

/** Measures a read. @param goalMs the limit of its p95. */
async function read(what: string, body: () => Promise<unknown>, goalMs?: number): Promise<Figure> {
  tell(what);
  const times: number[] = [];
  for (let round = 0; round < WARM_UP + READS; round += 1) {
    const time = await timed(body);
    if (round >= WARM_UP) times.push(time);
  }
  tell('');
  const reached = goalMs === undefined ? '' : goal(`p95 under ${goalMs} ms`, quantile(times, 0.95) < goalMs);
  return { what: `${what}, p50 / p95`, figure: both(times), goal: reached };
}

const METRICS = '/platform/metrics';

async function pages(db: Database): Promise<Figure[]> {
  const settings = {
    issuer: 'postbud',
    audience: 'postbud-operators',
    maxAgeSeconds: 86_400,
    kind: 'secret',
    secret: new TextEncoder().encode('a secret of thirty-two bytes or more'),
  } as const;
  const bus: Bus = {
    database: async () => db,
    subscribers: () => subscribers,
    refusals: () => [],
    relays: () => true,
    alerts: () => readConfig().alerts,
    ownUrl: () => null,
    testWebhooks: () => testSender(readConfig().webhooks),
    webhooks: () => endpointsOf(readConfig()),
  };
  const console = operatorEndpoint({
    settings: () => settings,
    environment: () => 'Local',
    badges: () => countBadges(db),
    actions: async () => await import('../lib/console/actions.ts'),
    bus,
    routes: operatorRoutes,
  });
  const token = await new SignJWT({ scope: 'event-bus:read event-bus:replay' })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject('bench')
    .setIssuer(settings.issuer)
    .setAudience(settings.audience)
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(settings.secret);
  const get = async (path: string, accept: string) => {
    const headers = { accept, authorization: `Bearer ${token}` };
    const request = new Request(`http://localhost${path}`, { headers });
    const response = await (path === METRICS ? metricsFor(request, settings, bus) : console.fetch(request));
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}`);
    return await response.text();
  };
  const home = '/platform/event-bus';
  const asked = [
    ['overview page', home, 'text/html', OVERVIEW_GOAL_MS],
    ['overview as JSON', home, 'application/json', OVERVIEW_GOAL_MS],
    ['health page of a subscriber', `${home}/subscribers/audit`, 'text/html', OVERVIEW_GOAL_MS],
    ['dead letters page', `${home}/dead-letters`, 'text/html', undefined],
    ...['events', 'incidents', 'subscribers', 'timers', 'set-aside', 'backfills', 'catalog'].map(
      (list) => [`${list} page`, `${home}/${list}`, 'text/html', OVERVIEW_GOAL_MS] as const,
    ),
    [`GET ${METRICS}`, METRICS, 'text/plain', OVERVIEW_GOAL_MS],
  ] as const;
  const figures: Figure[] = [];
  for (const [what, path, accept, goalMs] of asked) {
    figures.push(await read(what, () => get(path, accept), goalMs));
    const body = await get(path, accept);
    figures.push({
      what: `${what}, plain / gzipped`,
      figure: `${kilobytes(body)} / ${kilobytes(gzipSync(body))}`,
      goal: '',
    });
  }
  return figures;
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
