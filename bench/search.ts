import { indexEvents } from '../lib/components/identifiers/index-events.ts';
import { readEvent } from '../lib/console/event/read.ts';
import { eventsQuery } from '../lib/console/events/fields.ts';
import { readEvents } from '../lib/console/events/read.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { logTo } from '../lib/platform/log.ts';
import { SECOND } from '../lib/platform/time.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal, ms, number, quantile, timed } from './figures.ts';
import type { Figure, Section } from './figures.ts';
import { attachedSubscribers, EVENTS_OF_A_STORY, fillLargeBus } from './large-bus.ts';

// Searches and lists of events on a large event bus, whose index is filled by the cron's own code.

const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 10_000_000);

const READS = Number(process.env['BENCH_READS'] ?? 60);
const WARM_UP = 10;
/** Places that the events of reads are chosen from. */
const SAMPLED = 10_000;

const SEARCH_GOAL_MS = 50;
const LIST_GOAL_MS = 300;
const INDEX_GOAL = 1000;

/** Measures how long it takes to find one event among many, and to list some of them. */
export async function benchSearch(): Promise<Section> {
  logTo(() => undefined);
  const server = await startPostgres();
  try {
    const url = await createDatabase(server.url);
    console.log('Filling …');
    const filled = await fillLargeBus(url, EVENTS, () => undefined);
    const { db, close } = await connect(url);
    try {
      console.log(`${number(filled.events)} events. Indexing …`);
      const indexed = await indexing(db);
      console.log('Measuring …');
      return {
        title: `Finding one event among ${number(filled.events)}, with ${number(filled.deadLettered)} dead letters in ${number(filled.lanes)} lanes`,
        rows: [
          ...indexed,
          ...(await searches(db, filled.events)),
          ...(await lists(db)),
          await pages(db, filled.events),
        ],
      };
    } finally {
      await close();
    }
  } finally {
    await server.stop();
  }
}

async function indexing(db: Database): Promise<Figure[]> {
  let events = 0;
  const took = await timed(async () => (events = await indexEvents({ db, until: Infinity })));
  const [size] = await run<{ index: number; events: number }>(driverOf(db), {
    text: `select (pg_total_relation_size('identifiers') + pg_total_relation_size('event_blocks'))::float8 as index,
      pg_total_relation_size('events')::float8 as events`,
    values: [],
  });
  const perSecond = (events * SECOND) / took;
  return [
    {
      what: 'old events added to the index, without a pause',
      figure: `${number(perSecond)}/s`,
      goal: goal(`at least ${number(INDEX_GOAL)}/s`, perSecond >= INDEX_GOAL),
    },
    {
      what: 'size of the index, beside that of the events',
      figure: `${number(size!.index / events)} B an event (${number(size!.events / events)} B)`,
      goal: '',
    },
  ];
}

type Query = Readonly<Record<string, string>>;

/** Each time another one, so that no search finds its pages warmed by the one before. */
async function searches(db: Database, events: number): Promise<Figure[]> {
  const any = () => Math.floor(Math.random() * events);
  const someDeliveries = await sample(db, events);
  let next = 0;
  const some = () => someDeliveries[(next += 1) % someDeliveries.length]!;
  const asked: readonly (readonly [what: string, query: () => Query, isFound?: boolean])[] = [
    ['event id', () => ({ q: some().event })],
    ['the first 13 characters of an event id', () => ({ q: some().event.slice(0, 13) })],
    ['delivery id', () => ({ q: some().delivery })],
    ['correlation id', () => ({ q: `req-${Math.floor(any() / EVENTS_OF_A_STORY)}` })],
    ['an id in a payload', () => ({ q: `bkg_48213${Math.floor(any() / EVENTS_OF_A_STORY)}` })],
    ['ordering key of thousands of events', () => ({ q: `key ${any() % 300}` })],
    ['an id that is nowhere', () => ({ q: `nowhere-${any()}` }), false],
  ];
  const figures: Figure[] = [];
  for (const [what, query, isFound = true] of asked)
    figures.push(await read(db, `search: ${what}`, query, SEARCH_GOAL_MS, isFound));
  return figures;
}

async function lists(db: Database): Promise<Figure[]> {
  const asked: readonly (readonly [what: string, query: Query])[] = [
    ['all', {}],
    ['a busy topic', { topic: 'booking.created' }],
    ['a topic with thousands of keys', { topic: 'user.profile.updated' }],
    ['a subscriber of most topics', { subscriber: 'audit' }],
    ['a subscriber, of the last 7 days', { subscriber: 'audit', since: '7d' }],
    ['pending', { state: 'pending' }],
    ['failing', { state: 'failing' }],
    ['dead-lettered', { state: 'dead_lettered' }],
    ['dead-lettered, of a subscriber', { state: 'dead_lettered', subscriber: 'notifications' }],
    ['delivered, of a topic', { state: 'delivered', topic: 'booking.created' }],
  ];
  const figures: Figure[] = [];
  for (const [what, query] of asked) {
    figures.push(await read(db, `list: ${what}`, () => query, LIST_GOAL_MS));
    const cursor = await cursorAfter(db, query, 20);
    if (cursor !== null)
      figures.push(await read(db, `list: ${what}, page 20`, () => ({ ...query, cursor }), LIST_GOAL_MS));
  }
  return figures;
}

/** Some deliveries, from all over the log. */
async function sample(db: Database, events: number): Promise<{ event: string; delivery: string }[]> {
  return await run(driverOf(db), {
    text: `select event_id::text as event, event_id || '.' || subscriber as delivery
      from log tablesample system (least(100, $2::float8)) join lanes using (stream) order by random() limit $1`,
    values: [WARM_UP + READS, (100 * SAMPLED) / events],
  });
}

/** The page of an event: why it waits, its causes, and its effects from the index. Each time another one. */
async function pages(db: Database, events: number): Promise<Figure> {
  const attached = attachedSubscribers();
  const times: number[] = [];
  for (const { event } of await sample(db, events))
    times.push(await timed(async () => await readEvent(db, event, { attached })));
  const measured = times.slice(WARM_UP);
  const [half, most] = [quantile(measured, 0.5), quantile(measured, 0.95)];
  return {
    what: 'the page of an event, p50 / p95',
    figure: `${ms(half)} / ${ms(most)}`,
    goal: goal(`p95 under ${LIST_GOAL_MS} ms`, most < LIST_GOAL_MS),
  };
}

async function cursorAfter(db: Database, query: Query, pages: number): Promise<string | null> {
  let cursor: string | null = null;
  for (let page = 1; page < pages; page += 1) {
    ({ nextCursor: cursor } = await readEvents(
      db,
      eventsQuery.parse({ ...query, ...(cursor && { cursor }) }),
    ));
    if (cursor === null) return null;
  }
  return cursor;
}

/** Measures a read. @param goalMs the limit of its p95. */
async function read(
  db: Database,
  what: string,
  query: () => Query,
  goalMs: number,
  isFound = true,
): Promise<Figure> {
  const times: number[] = [];
  let found = 0;
  for (let round = 0; round < WARM_UP + READS; round += 1) {
    const asked = eventsQuery.parse(query());
    const time = await timed(async () => (found += (await readEvents(db, asked)).items.length));
    if (round >= WARM_UP) times.push(time);
  }
  if (found > 0 !== isFound) throw new Error(`${what}: ${found} found`);
  const [half, most] = [quantile(times, 0.5), quantile(times, 0.95)];
  console.log(what, ms(half), ms(most));
  return {
    what: `${what}, p50 / p95`,
    figure: `${ms(half)} / ${ms(most)}`,
    goal: goal(`p95 under ${goalMs} ms`, most < goalMs),
  };
}
