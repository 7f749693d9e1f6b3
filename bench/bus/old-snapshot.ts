import { sleep } from '../../lib/platform/time.ts';
import type { ContenderName } from '../figure-names.ts';
import { atMost, goal, ms, number, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import type { Contender } from './contender.ts';
import { besideSnapshot, query, watched } from './server.ts';
import { send, warmUp } from './traffic.ts';
import type { Bench } from './turns.ts';
import { singleTopic } from './workload.ts';

// Steady traffic beside a transaction that holds a snapshot of its beginning, as a dump or a long report does: vacuum may
// remove nothing that died since. Each contender has a database, hence a held transaction, of its own.

const MEASURED = ['ours', 'graphile-worker'] as const satisfies readonly ContenderName[];
const PER_SECOND = 150;
const SECONDS = 600;
/** Of the beginning and of the end. */
const PART_SECONDS = 60;
/** A disk that stalls for a third of a second would be the p99 of a minute, so each stretch of one has its own. */
const STRETCH_SECONDS = 10;
/** What Node compiles in its first seconds would flatter the end. */
const WARM_UP_SECONDS = 10;
const TICKS = 100;
const GOALS = { ratio: 1.5, idleMs: 1 };
const TABLES = 8;

export async function benchOldSnapshot(bench: Bench): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const name of MEASURED) {
    const contender = await startContender(bench.runtime, name, await bench.server.createDatabase());
    try {
      figures.push(...(await underLoad(bench, contender)));
    } finally {
      await contender.stop();
    }
  }
  return figures;
}

async function underLoad(bench: Bench, contender: Contender): Promise<Figure[]> {
  const { name, url } = contender;
  const isOurs = name === 'ours';
  const traffic = { topics: [singleTopic] as const, perSecond: PER_SECOND };
  const seconds = SECONDS * bench.scale;
  await warmUp([contender], [singleTopic]);
  await send([contender], { ...traffic, seconds: WARM_UP_SECONDS * bench.scale });
  const idleBefore = isOurs ? await idleTurnMs(contender) : null;
  return await besideSnapshot(url, async () => {
    bench.tell(`${name}: ${PER_SECOND}/s for ${number(seconds)} s beside an old snapshot …`);
    const { times, lost } = await send([contender], { ...traffic, seconds });
    const events = Math.round(PART_SECONDS * bench.scale) * PER_SECOND;
    const [begin, end] = [times.slice(0, events), times.slice(-events)];
    bench.tell(
      `${name}: p50 ${ms(typical(begin, 0.5))} in the beginning, ${ms(typical(end, 0.5))} in the end`,
    );
    const what = (share: string) => `beside an old snapshot, ${share}: ${name}`;
    const latencies = [['p50', 0.5] as const, ['p99', 0.99] as const].flatMap(([share, part]) => {
      const [first, last] = [typical(begin, part), typical(end, part)];
      return [
        {
          what: `${what(share)}, first and last minute, the median of ten-second stretches`,
          figure: `${ms(first)}, ${ms(last)}`,
          goal: '',
        },
        atMost(`${what(share)}, the last relative to the first`, last / first, isOurs ? GOALS.ratio : null),
      ];
    });
    const idleAfter = isOurs ? await idleTurnMs(contender) : null;
    return [
      ...latencies,
      ...(lost > 0 ? [{ what: what('events not handled'), figure: number(lost), goal: '' }] : []),
      ...(idleBefore === null || idleAfter === null
        ? []
        : [
            { what: 'an idle turn before the snapshot, in the database', figure: ms(idleBefore), goal: '' },
            {
              what: 'an idle turn beside the old snapshot, in the database',
              figure: ms(idleAfter),
              goal: goal(`less than ${GOALS.idleMs} ms`, idleAfter < GOALS.idleMs),
            },
          ]),
      ...(await sizes(contender)),
    ];
  });
}

/** The median of the quantiles of a part's stretches. */
function typical(times: readonly number[], part: number): number {
  const each = STRETCH_SECONDS * PER_SECOND;
  const stretches = Array.from({ length: Math.ceil(times.length / each) }, (_, index) =>
    times.slice(index * each, (index + 1) * each),
  );
  return quantile(
    stretches.map((stretch) => quantile(stretch, part)),
    0.5,
  );
}

/** The mean of what an idle relay has the server do, with every subscription of the catalog attached. */
async function idleTurnMs(contender: Contender): Promise<number> {
  const idle = () => contender.call('idle', { ticks: TICKS });
  await idle();
  const { work } = await watched(contender.url, idle);
  return work.statements.reduce((total, { totalMs }) => total + totalMs, 0) / TICKS;
}

interface Size {
  readonly name: string;
  readonly live: number;
  readonly dead: number;
  readonly table: string;
  readonly indexes: string;
}

/** The largest tables, with what autovacuum counts in them. */
async function sizes({ name, url }: Contender): Promise<Figure[]> {
  // A session reports what it changed once it has been idle for a second.
  await sleep(2000);
  const found = await query<Size>(
    url,
    `select relname as name, n_live_tup::float8 as live, n_dead_tup::float8 as dead,
       pg_size_pretty(pg_table_size(relid)) as table, pg_size_pretty(pg_indexes_size(relid)) as indexes
     from pg_stat_user_tables where n_live_tup + n_dead_tup > 0
     order by pg_total_relation_size(relid) desc limit $1`,
    [TABLES],
  );
  return found.map(({ name: table, live, dead, table: size, indexes }) => ({
    what: `after that, ${name}: ${table}`,
    figure: `${number(live)} live and ${number(dead)} dead rows in ${size}, indexes ${indexes}`,
    goal: '',
  }));
}
