import { catalog } from '../lib/bus/catalog/catalog.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import { keepRelaying } from '../lib/bus/relay/keep-relaying.ts';
import { relay } from '../lib/bus/relay/relay.ts';
import { keepStepping } from '../lib/edge/cron/keep-stepping.ts';
import { indexing as work } from '../lib/edge/cron/stepped-work.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { logTo } from '../lib/platform/log.ts';
import { SECOND } from '../lib/platform/time.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { atMost, measured, number, quantile, spreadOf } from './figures.ts';
import type { Figure, Section } from './figures.ts';
import { attachedSubscribers } from './large-bus.ts';

// What the index of identifiers costs those who emit and deliver: with it and without it in turns, on databases of their
// own, in one process, as the cron's function does both.

const ROUNDS = 9;
const PRODUCERS = 8;
const EMIT_MS = 6 * SECOND;
/** Long enough for some slices of the indexer. */
const BACKLOG = Number(process.env['BENCH_BACKLOG'] ?? 150_000);
const TOPIC = 'booking.created';
const DELIVERIES = catalog[TOPIC].subscribers.length;

const GOAL = 1.05;

/** Measures emitting and draining beside an index that is kept up to date, and without. */
export async function benchIndexing(): Promise<Section> {
  logTo(() => undefined);
  const server = await startPostgres();
  try {
    const rows: Figure[] = [];
    for (const [what, body] of [
      [`emit, ${PRODUCERS} producers beside a relay`, emitting],
      [`a backlog of ${number(BACKLOG * DELIVERIES)} deliveries, drained`, draining],
    ] as const)
      rows.push(...(await compared(server.url, what, body)));
    const note = `${ROUNDS} rounds, with and without the index in turns, on Postgres with default durability: medians [and ranges].`;
    return { title: 'The cost of the index of identifiers', rows, notes: [note] };
  } finally {
    await server.stop();
  }
}

async function compared(
  serverUrl: string,
  what: string,
  body: (db: Database) => Promise<number>,
): Promise<Figure[]> {
  const speeds = { with: [] as number[], without: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    // Each goes first equally often.
    const turns = round % 2 === 0 ? (['with', 'without'] as const) : (['without', 'with'] as const);
    for (const turn of turns) speeds[turn].push(await measuredOnce(serverUrl, body, turn === 'with'));
    console.log(what, round, speeds.with.at(-1), speeds.without.at(-1));
  }
  const [withIt, without] = [spreadOf(speeds.with), spreadOf(speeds.without)];
  // Of each round by itself, since other work of the machine slows both of its turns.
  const ratios = speeds.with.map((speed, round) => speeds.without[round]! / speed);
  return [
    measured(`${what}: without the index`, without, '/s'),
    measured(`${what}: with the index`, withIt, '/s'),
    atMost(`${what}: time with the index, relative to without`, quantile(ratios, 0.5), GOAL),
  ];
}

async function measuredOnce(
  serverUrl: string,
  body: (db: Database) => Promise<number>,
  isIndexed: boolean,
): Promise<number> {
  const { db, close } = await connect(await createDatabase(serverUrl));
  const stopped = new AbortController();
  // The cron's loop.
  const indexing = isIndexed && keepStepping(work, { db, until: Infinity, signal: stopped.signal });
  try {
    return await body(db);
  } finally {
    stopped.abort();
    await indexing;
    await close();
  }
}

const subscribers = attachedSubscribers();

/** @returns events a second. */
async function emitting(db: Database): Promise<number> {
  const stopped = new AbortController();
  const relaying = keepRelaying({ db, subscribers, until: Infinity, signal: stopped.signal });
  const until = performance.now() + EMIT_MS;
  let events = 0;
  const produce = async () => {
    while (performance.now() < until) {
      await db.transaction((tx) => emit(tx, TOPIC, catalog[TOPIC].example));
      events += 1;
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, produce));
  stopped.abort();
  await relaying.catch(() => undefined);
  return (events * SECOND) / EMIT_MS;
}

/** @returns deliveries a second. */
async function draining(db: Database): Promise<number> {
  await run(driverOf(db), {
    text: `with event as (
        insert into events (id, topic, payload, version, producer, subscribers, correlation_id, created_at)
        select uuidv7(), $1::text, replace($2::text, 'bkg_', 'bkg_' || number)::jsonb, 1, 'bench',
          $3::text[], 'req-' || number, clock_timestamp()
        from generate_series(1, $4::int) as number
        returning *
      )
      insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, subscribers, bytes)
      select topic, created_at, seq, id, ordering_key, version, subscribers, octet_length(payload::text) from event`,
    values: [
      TOPIC,
      JSON.stringify(catalog[TOPIC].example),
      `{${catalog[TOPIC].subscribers.join(',')}}`,
      BACKLOG,
    ],
  });
  const startedAt = performance.now();
  const { delivered } = await relay({ db, subscribers, until: Date.now() + 120 * SECOND });
  return (delivered * SECOND) / (performance.now() - startedAt);
}
