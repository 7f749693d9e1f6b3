import { watchIncidents } from '../lib/components/incidents/watch.ts';
import { sampleBacklog } from '../lib/components/subscriber-health/sample-backlog.ts';
import { countBadges } from '../lib/console/dead-letters/count.ts';
import { readIncident } from '../lib/console/incidents/read.ts';
import { incidentQuery, readIncidents } from '../lib/console/incidents/read.ts';
import { readTopic } from '../lib/console/lanes/views.ts';
import { readMetrics } from '../lib/console/metrics/read.ts';
import { readOverview } from '../lib/console/overview/read.ts';
import { readSubscriber } from '../lib/console/subscribers/read.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { logTo } from '../lib/platform/log.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal, ms, number, quantile, timed } from './figures.ts';
import type { Figure, Section } from './figures.ts';
import { fillKeysInTrouble } from './keys-in-trouble.ts';
import type { Trouble } from './keys-in-trouble.ts';
import { attachedSubscribers } from './large-bus.ts';

// What an operator opens first, beside a subscription whose every key is in trouble.

const KEYS = Number(process.env['BENCH_KEYS'] ?? 100_000);
const READS = 20;
const WARM_UP = 2;
const GOAL_MS = 300;

const TROUBLES: Readonly<Record<Trouble, string>> = {
  waiting: 'that wait for a retry',
  due: 'whose retry is due',
  halted: 'that a dead letter halts',
};

/** Measures the first screens of the console beside many keys in trouble, on Postgres with default durability. */
export async function benchTrouble(): Promise<Section> {
  logTo(() => undefined);
  const server = await startPostgres();
  try {
    const rows: Figure[] = [];
    for (const [trouble, words] of Object.entries(TROUBLES) as [Trouble, string][]) {
      console.log(`${number(KEYS)} keys ${words} …`);
      const { db, close } = await connect(await createDatabase(server.url));
      try {
        await fillKeysInTrouble(db, KEYS, trouble);
        rows.push(...(await screens(db, words)));
      } finally {
        await close();
      }
    }
    return { title: `The console beside ${number(KEYS)} keys in trouble`, rows };
  } finally {
    await server.stop();
  }
}

async function screens(db: Database, words: string): Promise<Figure[]> {
  const subscribers = attachedSubscribers();
  const topic = 'user.profile.updated';
  await watchIncidents(db);
  const { items } = await readIncidents(db, incidentQuery.parse({}));
  const attachments = { subscribers: () => subscribers, refusals: () => [] };
  const read: readonly (readonly [what: string, body: () => Promise<unknown>])[] = [
    ['overview', () => Promise.all([readOverview(db, subscribers), countBadges(db)])],
    ['the topic', () => readTopic(db, subscribers, topic)],
    ['the subscriber', () => readSubscriber(db, 'notifications', attachments)],
    ['incidents, brought up to date', () => watchIncidents(db)],
    ['incidents', () => readIncidents(db, incidentQuery.parse({}))],
    ...items
      .slice(0, 1)
      .map(({ incidentId }) => ['the incident', () => readIncident(db, incidentId)] as const),
    ['metrics', () => readMetrics(db, subscribers)],
    ['sample of every backlog’s age', () => sampleBacklog(db)],
  ];
  const figures: Figure[] = [];
  for (const [what, body] of read) {
    const times: number[] = [];
    for (let round = 0; round < WARM_UP + READS; round += 1) {
      const time = await timed(body);
      if (round >= WARM_UP) times.push(time);
    }
    const p95 = quantile(times, 0.95);
    figures.push({
      what: `${what}, keys ${words}, p50 / p95`,
      figure: `${ms(quantile(times, 0.5))} / ${ms(p95)}`,
      goal: goal(`p95 under ${GOAL_MS} ms`, p95 < GOAL_MS),
    });
  }
  return figures;
}
