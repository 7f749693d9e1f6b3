import { SECOND, sleep } from '../../../lib/platform/time.ts';
import { payloadOf } from '../../support/bus.ts';
import { AWAITING_PLACE } from '../../support/records.ts';
import { opened } from '../produce.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** Point 4. */
export const prepared: Surrounding = {
  name: 'abandoned-prepared-transaction',
  point: 4,
  inCi: true,
  play: abandoned,
};

const TOPIC = 'payment.captured';

/**
 * A producer prepares a transaction and is gone. The database restarts, the transaction is found and committed, and another
 * one is rolled back.
 */
async function abandoned({ arena, build }: Scene): Promise<Outcome> {
  // All in one lane: that of the transaction's event.
  const before = traffic({ producers: 2, transactions: 6, keys: 0 }, 1);
  const during = traffic({ producers: 3, transactions: 8, keys: 0 }, 2);
  const after = traffic({ producers: 2, transactions: 8, keys: 0 }, 3);
  const stage = await Stage.open(arena, build, { traffic: [...before, ...during, ...after] });
  const broken: string[] = [];
  try {
    await Promise.all([stage.relay(), stage.relay()]);
    await stage.produce(undefined, before);
    await stage.rest(10 * SECOND);
    await prepare(stage, 'lost');
    await stage.produce(undefined, during);
    await stage.rest(10 * SECOND, `topic <> '${TOPIC}'`);
    broken.push(...(await heldAlone(stage)));
    await arena.cluster.crash('fast');
    await stage.produce(undefined, after);
    await stage.rest(15 * SECOND, `topic <> '${TOPIC}'`);
    broken.push(...(await heldAlone(stage)), ...(await untold(stage)));
    await stage.sql("commit prepared 'lost'");
    const left = await stage.rest(20 * SECOND);
    if (left > 0) broken.push(`${left} were still waiting 20 s after the transaction was committed`);
    await prepare(stage, 'given up');
    await sleep(500);
    await stage.sql("rollback prepared 'given up'");
    await stage.rest(10 * SECOND);
    broken.push(...(await stage.broken()));
    return { did: 'prepared, over a restart, then committed; another one rolled back', broken };
  } finally {
    await stage.sql("rollback prepared 'lost'").catch(() => undefined);
    await stage.sql("rollback prepared 'given up'").catch(() => undefined);
    await stage.close();
  }
}

async function prepare(stage: Stage, name: string): Promise<void> {
  const client = await opened(stage.url('producer'));
  await client.query('begin');
  const { id } = await stage.build.bus.emit(client, TOPIC, payloadOf(TOPIC, { intentId: name }));
  await client.query(`prepare transaction '${name}'`);
  await client.end();
  stage.emitted({ id, tag: name, fate: name === 'lost' ? 'committed' : 'rolled back' });
}

/** Its topic waits, and no other one does. */
async function heldAlone(stage: Stage): Promise<string[]> {
  const held = await stage.sql<{ topic: string }>(`select distinct topic from ${AWAITING_PLACE}`);
  const others = held.filter(({ topic }) => topic !== TOPIC);
  return [
    ...others.map(({ topic }) => `${topic} waits for a transaction that emitted to ${TOPIC}`),
    ...(held.length > others.length ? [] : [`${TOPIC} did not wait for the prepared transaction`]),
  ];
}

/** A transaction may take this long before anybody is told of it. */
const TOLD_AFTER_MS = 5 * SECOND;

/** The overview and the doctor name the transaction. */
async function untold(stage: Stage): Promise<string[]> {
  const [found] = await stage.sql<{ ms: number }>(
    "select extract(epoch from clock_timestamp() - prepared)::float8 * 1000 as ms from pg_prepared_xacts where gid = 'lost'",
  );
  await sleep(TOLD_AFTER_MS + 100 - found!.ms);
  const { readOverview, examine } = stage.build.bus;
  const { topics } = await stage.asOperator((db) => readOverview(db, []));
  const { findings } = await stage.asOperator((db) => examine(db));
  const shown = topics.find(({ topic }) => topic === TOPIC)?.heldBackBy;
  return [
    ...(shown?.gid === 'lost' ? [] : ['the overview does not name the prepared transaction']),
    ...(JSON.stringify(findings).includes('prepared transaction') ? [] : ['the doctor does not tell of it']),
  ];
}
