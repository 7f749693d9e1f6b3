import type pg from 'pg';

import { catalog } from '../lib/bus/catalog/catalog.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import { createKick } from '../lib/bus/relay/kick.ts';
import { subscriber } from '../lib/bus/subscribers/subscriber.ts';
import { duties } from '../lib/edge/cron/duties.ts';
import { runCron } from '../lib/edge/cron/run-cron.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Connection } from '../lib/platform/db/connect.ts';
import { RELAY_LIFE_MS, KICK_BUDGET_MS, handlersUntil, withinLife } from '../lib/platform/lifetime.ts';
import { logTo } from '../lib/platform/log.ts';
import { MINUTE, SECOND, sleep } from '../lib/platform/time.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal } from './figures.ts';
import type { Section } from './figures.ts';

/** The cron's calls: on time and late. */
const CALLED_AT_MS = [0, 63 * SECOND, 120 * SECOND];
const OBSERVED_MS = 3 * MINUTE;

/** How long handlers take; their limit is 10 seconds. */
const HANDLER_MS = 9 * SECOND;
const LIMIT_MS = 10 * SECOND;
const KICK_EVERY_MS = SECOND / 2;

/** The promises of the contract's rule 5. */
const GOALS = { gapMs: 6 * SECOND, kickMs: KICK_BUDGET_MS + LIMIT_MS };

/** Measures for three minutes on a real clock how often relays look for work and how long their functions live. */
export async function benchTime(): Promise<Section> {
  logTo(() => undefined);
  const server = await startPostgres();
  const databases = await Promise.all(
    [1, 2, 3].map(async () => await connect(await createDatabase(server.url))),
  );
  console.log(`Calls of the cron and kicks for ${OBSERVED_MS / MINUTE} minutes …`);
  const [cron, oneLane, manyLanes] = await Promise.all([
    observeCron(databases[0]!),
    observeKicks(databases[1]!, () => ''),
    observeKicks(databases[2]!, (number) => `lane ${number}`),
  ]);
  await Promise.all(databases.map(({ close }) => close()));
  await server.stop();
  const calls = CALLED_AT_MS.map((at) => at / SECOND).join(', ');
  return {
    title: 'How long functions live and how often the relay looks',
    rows: [
      {
        what: `longest gap between two looks for work, cron called after ${calls} s`,
        figure: inSeconds(cron.longestGapMs),
        goal: goal('at most 6 s', cron.longestGapMs <= GOALS.gapMs),
      },
      {
        what: 'longest call of the cron',
        figure: inSeconds(cron.longestLifeMs),
        goal: goal('under 90 s', cron.longestLifeMs < RELAY_LIFE_MS),
      },
      {
        what: 'longest time a kick kept its function alive, one lane for all',
        figure: inSeconds(oneLane.longestLifeMs),
        goal: goal('at most 20 s', oneLane.longestLifeMs <= GOALS.kickMs),
      },
      {
        what: 'longest time a kick kept its function alive, one lane each',
        figure: inSeconds(manyLanes.longestLifeMs),
        goal: goal('at most 20 s', manyLanes.longestLifeMs <= GOALS.kickMs),
      },
      {
        what: 'commit to handler, one lane each, longest',
        figure: inSeconds(manyLanes.longestWaitMs),
        goal: goal('under 1 s', manyLanes.longestWaitMs < SECOND),
      },
    ],
    notes: [
      `${OBSERVED_MS / MINUTE} minutes each, on Postgres with default durability: two events and two kicks a second, handlers that take ${HANDLER_MS / SECOND} s of the ${LIMIT_MS / SECOND} s that they may. The cron has five such events to deliver, in one lane, and then none.`,
    ],
  };
}

const inSeconds = (ms: number) => `${(ms / SECOND).toFixed(2)} s`;

/** A slow ledger that records when it was called with which payment. */
function slowLedger() {
  const calledAt = new Map<number, number>();
  const handle = async (number: number) => {
    calledAt.set(number, performance.now());
    await sleep(HANDLER_MS);
  };
  const ledger = subscriber(
    'ledger',
    { 'payment.captured': ({ payload }) => handle(payload.amountMinor) },
    { timeoutMs: LIMIT_MS },
  );
  return { ledger, calledAt };
}

/** Emits payments at an even pace until the time is up. @returns the time of each commit, by number. */
async function produce({ db }: Connection, keyOf: (number: number) => string, then: () => void) {
  const committedAt = new Map<number, number>();
  const startedAt = performance.now();
  for (let number = 1; performance.now() - startedAt < OBSERVED_MS; number += 1) {
    const payload = { ...catalog['payment.captured'].example, amountMinor: number };
    await db.transaction((tx) => emit(tx, 'payment.captured', payload, { orderingKey: keyOf(number) }));
    committedAt.set(number, performance.now());
    then();
    await sleep(startedAt + number * KICK_EVERY_MS - performance.now());
  }
  return committedAt;
}

async function observeCron(connection: Connection) {
  const { db } = connection;
  const startedAt = performance.now();
  const looks = [0];
  (db.$client as pg.Pool).on('connect', (client) => {
    const query = client.query.bind(client) as (...asked: unknown[]) => unknown;
    Object.assign(client, {
      query(...asked: [{ name?: string }]) {
        if (asked[0].name?.startsWith('turn_')) looks.push(performance.now() - startedAt);
        return query(...asked);
      },
    });
  });
  const { ledger } = slowLedger();
  const call = async (at: number) => {
    await sleep(at);
    const calledAt = performance.now();
    await withinLife(RELAY_LIFE_MS, () =>
      runCron({ db, subscribers: [ledger], duties, handlersUntil: handlersUntil() }),
    );
    return performance.now() - calledAt;
  };
  // A burst to wait for, then nothing for two minutes: relays mostly have nothing to do.
  for (let number = 1; number <= 5; number += 1) {
    await db.transaction((tx) => emit(tx, 'payment.captured', catalog['payment.captured'].example));
  }
  const lives = await Promise.all(CALLED_AT_MS.map(call));
  const within = [...looks.filter((at) => at <= OBSERVED_MS), OBSERVED_MS];
  const gaps = within.slice(1).map((at, index) => at - within[index]!);
  return { longestGapMs: Math.max(...gaps), longestLifeMs: Math.max(...lives) };
}

async function observeKicks(connection: Connection, keyOf: (number: number) => string) {
  const { ledger, calledAt } = slowLedger();
  const lives: Promise<number>[] = [];
  const kick = createKick({
    db: connection.db,
    subscribers: [ledger],
    waitUntil: (work) => {
      const kickedAt = performance.now();
      lives.push(work.then(() => performance.now() - kickedAt));
    },
    onError: (error) => console.error(error),
  });
  const committedAt = await produce(connection, keyOf, kick);
  const lived = await Promise.all(lives);
  const waits = Array.from(calledAt, ([number, at]) => at - committedAt.get(number)!);
  return { longestLifeMs: Math.max(...lived), longestWaitMs: Math.max(...waits) };
}
