import { goal, ms, number, quantile } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { configure, query } from './server.ts';
import { send, warmUp } from './traffic.ts';
import type { Bench } from './turns.ts';
import { singleTopic } from './workload.ts';

// The cost of single events in the database: how long each kind of turn takes, and the statements inside the turns. An
// event costs two turns: one places it and claims its delivery, the next settles the delivery.

const EVENTS = 4000;
const PER_SECOND = 200;
const GOALS = { first: 0.45, second: 0.25, statements: 5.5 };

export async function benchTurnProfile(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  const events = Math.round(EVENTS * bench.scale);
  const pass = async () => {
    await send([contender], { topics: [singleTopic], perSecond: PER_SECOND, seconds: events / PER_SECOND });
  };
  const instrument = async (settings: Readonly<Record<string, string>>) => {
    await configure(contender.url, settings);
    await contender.call('reconnect');
    await warmUp([contender], [singleTopic]);
  };
  try {
    // Without the instruments of the second pass, which make a turn dearer.
    await instrument({ log_min_duration_statement: '0' });
    const logged = listenTo(bench);
    await pass();
    const turns = turnsIn(logged());
    bench.tell('the same again, counting statements …');
    await instrument({ log_min_duration_statement: '-1', 'pg_stat_statements.track': 'all' });
    await query(contender.url, 'select pg_stat_statements_reset()');
    await pass();
    const statements = await query<Inside>(contender.url, INSIDE);
    return [
      kind('a turn that brings no outcomes: it places and claims', turns.first, GOALS.first),
      kind('a turn that settles', turns.second, GOALS.second),
      {
        what: 'turns of an event',
        figure: number((turns.first.length + turns.second.length) / events),
        goal: '',
      },
      ...inTurns(statements, events),
    ];
  } finally {
    await contender.stop();
  }
}

/** Keeps the server's log. @returns a function that ends this and returns the log. */
function listenTo({ server }: Bench): () => string {
  const log: string[] = [];
  server.onLog((text) => log.push(text));
  return () => {
    server.onLog(() => undefined);
    return log.join('');
  };
}

const LOGGED =
  /^ ([\d.]+) ms {2}(bind|execute) \S+ select postbud_turn_[^]*?Parameters: \$1 = ('\{\}'|NULL)?/;

/** Finds the milliseconds of the turns, planning included and the commit after the statement excluded. */
function turnsIn(log: string): { readonly first: readonly number[]; readonly second: readonly number[] } {
  const found = { first: [] as number[], second: [] as number[] };
  const bound = new Map<string, number>();
  // The end of each part is the process that the next one is of.
  const parts = log.split('LOG:  duration:');
  for (const [index, part] of parts.entries()) {
    const [, duration, step, nothing] = LOGGED.exec(part) ?? [];
    const process = /\[(\d+)\] $/.exec(parts[index - 1] ?? '')?.[1];
    if (duration === undefined || process === undefined) continue;
    if (step === 'bind') bound.set(process, Number(duration));
    else found[nothing ? 'first' : 'second'].push((bound.get(process) ?? 0) + Number(duration));
  }
  return found;
}

function kind(what: string, times: readonly number[], most: number): Figure {
  const median = quantile(times, 0.5);
  const mean = times.reduce((total, time) => total + time, 0) / times.length;
  return {
    what: `${what}, p50 (mean)`,
    figure: `${ms(median)} (${ms(mean)})`,
    goal: goal(`at most ${most} ms`, median <= most),
  };
}

interface Inside {
  readonly text: string;
  readonly calls: number;
  readonly totalMs: number;
  readonly isTurn: boolean;
}

/** The turns, and what functions do, which only turns call. */
const INSIDE = `
  select query as text, sum(calls)::float8 as calls, sum(total_exec_time)::float8 as "totalMs", toplevel as "isTurn"
  from pg_stat_statements
  where dbid = (select oid from pg_database where datname = current_database())
    and (not toplevel or query ~* '^select postbud_turn_')
  group by query, toplevel order by sum(total_exec_time) desc`;

function inTurns(statements: readonly Inside[], events: number): Figure[] {
  const turns = statements.filter(({ isTurn }) => isTurn).reduce((total, { calls }) => total + calls, 0);
  const inside = statements.filter(({ isTurn }) => !isTurn);
  const inOne = inside.reduce((total, { calls }) => total + calls, 0) / turns;
  return [
    {
      what: 'statements of a turn, mean',
      figure: number(inOne),
      goal: goal(`at most ${GOALS.statements}`, inOne <= GOALS.statements),
    },
    ...statements.map(({ text, calls, totalMs, isTurn }) => ({
      what: `${isTurn ? 'all turns' : 'in turns'}: ${inShort(text)}`,
      figure: `${number(calls / events)} × ${number((totalMs * 1000) / calls)} µs`,
      goal: '',
    })),
  ];
}

const LENGTH = 90;

/** One line, which stands in a table. */
function inShort(text: string): string {
  const line = text.replaceAll(/--.*/g, '').replaceAll(/\s+/g, ' ').replaceAll('|', '¦').trim();
  return line.length > LENGTH ? `${line.slice(0, LENGTH - 1)}…` : line;
}
