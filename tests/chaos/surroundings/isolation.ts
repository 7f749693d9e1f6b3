import { randomUUID } from 'node:crypto';

import pg from 'pg';

import { DAY, SECOND, sleep } from '../../../lib/platform/time.ts';
import { payloadOf } from '../../support/bus.ts';
import { SECRET, eventOf, requestOf } from '../../support/receive.ts';
import { opened } from '../produce.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** First half of the key of the lock under which a topic's events get their places. */
const PLACING_LOCK = 36952;

const LEVELS = ['repeatable read', 'serializable'] as const;
const PLACES = ['database', 'role', 'url'] as const;
type Place = (typeof PLACES)[number];

const setting = (level: string) => `default_transaction_isolation = '${level}'`;

/** Point 1. Each level once in every test run. */
export const isolation: readonly Surrounding[] = LEVELS.flatMap((level, index) =>
  PLACES.map((place) => ({
    name: `${level.replace(' ', '-')}-by-the-${place}`,
    point: 1,
    inCi: place === (index === 0 ? 'database' : 'url'),
    play: (scene: Scene) => inIsolation(scene, level, place),
  })),
);

async function inIsolation({ arena, build }: Scene, level: string, place: Place): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 5, transactions: 20 }),
    pauses: { relays: { chance: 0.4, longestMs: 80 }, producers: { chance: 0.1, longestMs: 20 } },
  });
  try {
    const { database } = stage;
    if (place === 'database') await stage.sql(`alter database ${database} set ${setting(level)}`);
    if (place === 'role')
      await stage.sql(`alter role postgres in database ${database} set ${setting(level)}`);
    // In a start-up option a blank needs a backslash.
    const options = place === 'url' ? `-c default_transaction_isolation=${level.replace(' ', '\\ ')}` : '';
    const url = (by: string) => stage.url(by, { options });
    await Promise.all([stage.relay(url), stage.relay(url)]);
    for (const round of [1, 2, 3]) await overtake(stage, url, round);
    let isOver = false;
    const operators = operate(stage, url('operator'), () => isOver);
    const [, refused] = await Promise.all([stage.produce(url('producer')), receive(stage, url('receiver'))]);
    isOver = true;
    const failed = await operators;
    stage.clock.steady();
    await stage.rest(20 * SECOND);
    const broken = [...refused, ...failed, ...(await stage.broken())];
    return {
      did: `two relays, five producers, replays, backfills and prunes, and a receiver's twins`,
      broken,
    };
  } finally {
    await stage.close();
  }
}

/**
 * A producer commits late, and another one overtakes it, while a turn that began in between waits for another one that
 * places events of the topic. In READ COMMITTED that turn sees both.
 */
async function overtake(stage: Stage, url: (by: string) => string, round: number): Promise<void> {
  const [placing, late, quick] = await Promise.all([1, 2, 3].map(() => opened(url('producer'))));
  await placing!.query(`begin; select pg_advisory_xact_lock(${PLACING_LOCK}, hashtext('payment.captured'))`);
  for (const [by, tag] of [
    [late!, `late ${round}`],
    [quick!, `quick ${round}`],
  ] as const) {
    await by.query('begin');
    const { id } = await stage.build.bus.emit(
      by,
      'payment.captured',
      payloadOf('payment.captured', { intentId: tag }),
    );
    stage.emitted({ id, tag, fate: 'committed' });
  }
  await quick!.query('commit');
  const waiting = `select from pg_locks where locktype = 'advisory' and classid = ${PLACING_LOCK} and not granted`;
  for (let looks = 0; looks < 100 && (await stage.sql(waiting)).length === 0; looks += 1) await sleep(20);
  await late!.query('commit');
  await placing!.query('commit');
  await stage.rest(5 * SECOND);
  await Promise.all([placing, late, quick].map((client) => client!.end()));
}

/** Replays, backfills and prunes, again and again. @returns why any of them failed. */
async function operate(stage: Stage, url: string, isOver: () => boolean): Promise<string[]> {
  const { connect, replay, backfill, advanceBackfills, prune } = stage.build.bus;
  const { db, close } = await connect(url);
  const failed = new Set<string>();
  const attempt = async (name: string, act: () => Promise<unknown>) => {
    await act().catch((error: unknown) => failed.add(`a ${name} fails: ${inOneLine(error)}`));
  };
  const again = async (name: string, act: () => Promise<unknown>) => {
    while (!isOver()) {
      await attempt(name, act);
      await sleep(200);
    }
  };
  const request = { topic: 'payment.captured', since: '365d', include: 'all', limit: 5 } as const;
  const since = new Date(Date.now() - DAY);
  const until = Date.now() + 20 * SECOND;
  const asked = { topic: 'payment.failed', subscriber: 'audit', since, by: 'an operator', until };
  await Promise.all([
    again('replay', () => replay(db, request, 'an operator', new Date())),
    again('backfill', async () => {
      // One that failed is under way for ever, unless the cron goes on with it.
      await advanceBackfills(db, until);
      await backfill(db, asked);
    }),
    again('prune', () => prune({ db, until })),
  ]);
  await attempt('backfill', () => advanceBackfills(db, until));
  await close();
  return [...failed];
}

/** Has a receiver take each of its events twice at once. @returns answers and effects that should not be. */
async function receive(stage: Stage, url: string): Promise<string[]> {
  const { RECEIVED_TABLE, receiver } = stage.build.bus;
  const pool = new pg.Pool({ connectionString: url, max: 20 });
  pool.on('error', () => undefined);
  await stage.sql(`${RECEIVED_TABLE}; create table public.received_effects (event_id uuid not null)`);
  const answer = receiver({
    subscriber: 'ledger',
    secrets: SECRET,
    database: pool,
    handlers: {
      'payment.captured': async ({ id }, tx) => {
        await tx.query('insert into public.received_effects values ($1)', [id]);
      },
    },
    onError: () => undefined,
  });
  const ids = Array.from({ length: 40 }, () => randomUUID());
  const answers = await Promise.all(
    ids.flatMap((id) => [1, 2].map(() => answer(requestOf(eventOf({ id, orderingKey: 'one key' }))))),
  );
  const bad = answers.filter(({ status }) => status >= 500).length;
  const [found] = await stage.sql<{ effects: number }>(
    'select count(*)::int as effects from public.received_effects',
  );
  await pool.end();
  return [
    ...(bad === 0 ? [] : [`the receiver answers 500 to ${bad} of ${answers.length} requests`]),
    ...(found!.effects === ids.length ? [] : [`${ids.length} events had ${found!.effects} effects`]),
  ];
}

export function inOneLine(error: unknown): string {
  const { cause, message } = error as Error;
  return (cause === undefined ? message : inOneLine(cause)).split('\n')[0]!;
}
