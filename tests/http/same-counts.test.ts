import { describe, expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { drainLive, emitPayments } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';
import { repeatDeadLetters } from '../support/scenes.ts';

interface Counts {
  readonly subscriber: string;
  readonly pending: number;
  readonly failing: number;
  readonly deadLettered: number;
}
interface Held {
  readonly deliveryId: string;
  readonly eventId: string;
  readonly behind: number;
  readonly attempts: number;
  readonly maxAttempts: number;
}
interface Incident {
  readonly incidentId: string;
  readonly state: string;
  readonly blockedLanes: number;
  readonly waiting: number;
  readonly owed: number;
}
interface Overview {
  readonly totals: { readonly deliveries: Counts };
  readonly incidents: readonly Incident[];
  readonly topics: readonly { readonly topic: string; readonly subscribers: readonly Counts[] }[];
}

const TOPIC = 'payment.captured';
const OF_LEDGER = `topic=${TOPIC}&subscriber=ledger`;

/** Six dead letters for two reasons, another that was dismissed, and a lane that one delivery holds before two others. */
async function prepare({ db }: Bus, operators: Operators): Promise<void> {
  const failWith = async (from: number, to: number, error: Error) => {
    await emitPayments(db, from, to);
    await drainLive(db, [
      ledger(() => {
        throw error;
      }),
    ]);
  };
  await failWith(1, 4, new PermanentError('no such account'));
  await failWith(5, 7, new PermanentError('the account is closed'));
  const [first] = await operators.idsIn('dead_lettered');
  await operators.ask('/dismiss', { json: { deliveryIds: [first], reason: 'test data' } });
  await failWith(8, 10, new TypeError('the ledger is down'));
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** Asks for every answer that has one of the counts. */
async function look(operators: Operators, { db }: Bus) {
  const json = async <Answer>(path: string, body?: object) =>
    (await operators.ask(path, body && { json: body })).json as Answer;
  const samples = await readMetrics(db, operators.attached);
  const asked = { topic: TOPIC, subscriber: 'ledger', since: '1h', reason: 'again', dryRun: true };
  return {
    incidents: (await json<{ items: Incident[] }>('/incidents')).items,
    overview: await json<Overview>(''),
    topic: await json<{ topic: { subscribers: Counts[] }; heldLanes: Held[]; errors: { count: number }[] }>(
      `/topics/${TOPIC}`,
    ),
    list: await json<{ items: Counts[] }>('/subscribers'),
    one: await json<{ items: Counts[]; heldLanes: Held[]; incidents: Incident[] }>('/subscribers/ledger'),
    deadLetters: await json<{ total: number; totalInAll: number; groups: { count: number }[] }>(
      `/dead-letters?${OF_LEDGER}`,
    ),
    dismissal: await json<{ matched: number }>('/dismiss', asked),
    replay: await json<{ matched: number }>('/replay', asked),
    metric: (name: string, state?: string) =>
      sum(
        samples
          .split('\n')
          .filter((line) => line.startsWith(`postbud_${name}{`) && line.includes('subscriber="ledger"'))
          .filter((line) => state === undefined || line.includes(`state="${state}"`))
          .map((line) => Number(line.split(' ').at(-1))),
      ),
  };
}

describe('on a bus with dead letters and a held lane', () => {
  test('each count is the same wherever it is shown', async ({ bus, operators }) => {
    await prepare(bus, operators);
    const { overview, incidents, topic, list, one, deadLetters, dismissal, replay, metric } = await look(
      operators,
      bus,
    );
    const rowOf = (rows: readonly Counts[]) => rows.find(({ subscriber }) => subscriber === 'ledger')!;
    const rows = [
      rowOf(overview.topics.find((row) => row.topic === TOPIC)!.subscribers),
      rowOf(topic.topic.subscribers),
      rowOf(list.items),
      one.items[0]!,
    ];
    const incidentsOf = [overview.incidents, incidents, one.incidents];
    const happening = incidentsOf.map((all) => all.find(({ state }) => state === 'happening')!);
    const held = [topic.heldLanes, one.heldLanes];

    const dead = [
      ...rows.map(({ deadLettered }) => deadLettered),
      ...incidentsOf.map((all) => sum(all.map(({ owed }) => owed))),
      deadLetters.total,
      deadLetters.totalInAll,
      sum(deadLetters.groups.map(({ count }) => count)),
      sum(topic.errors.map(({ count }) => count)),
      dismissal.matched,
      replay.matched,
      metric('deliveries', 'dead_lettered'),
      overview.totals.deliveries.deadLettered,
    ];
    expect(dead).toEqual(dead.map(() => 6));
    const waiting = [
      ...rows.map(({ pending, failing }) => pending + failing),
      ...happening.map((incident) => incident.waiting),
      ...held.map((lanes) => sum(lanes.map(({ behind }) => behind + 1))),
      metric('deliveries', 'pending') + metric('deliveries', 'failing'),
    ];
    expect(waiting).toEqual(waiting.map(() => 3));
    const failing = [
      ...rows.map((row) => row.failing),
      metric('deliveries', 'failing'),
      ...held.map((lanes) => lanes.length),
      ...happening.map(({ blockedLanes }) => blockedLanes),
      metric('lanes_blocked'),
    ];
    expect(failing).toEqual(failing.map(() => 1));
  });

  test('the attempts of the delivery that holds the lane are told as 1 of 5 on every page of it', async ({
    bus,
    operators,
  }) => {
    await prepare(bus, operators);
    const { incidents, topic } = await look(operators, bus);
    const [held] = topic.heldLanes;
    expect(held).toMatchObject({ attempts: 1, maxAttempts: 5 });
    const happening = incidents.find(({ state }) => state === 'happening')!;
    const paths = [
      `/topics/${TOPIC}`,
      '/subscribers/ledger',
      `/incidents/${happening.incidentId}`,
      `/events/${held!.eventId}`,
      `/dead-letters/${held!.deliveryId}`,
    ];
    for (const path of paths)
      expect((await operators.ask(path, { accept: BROWSER })).text, path).toContain('1 of 5 attempts');
    expect((await operators.ask(`/dead-letters/${held!.deliveryId}`)).json).toMatchObject({
      failures: 1,
      maxAttempts: 5,
    });
    operators.attached = [];
    expect((await operators.ask(`/dead-letters/${held!.deliveryId}`)).json).toMatchObject({
      maxAttempts: null,
    });
  });
});

test('the entry of dead letters in the navigation counts them up to 10,000', async ({ bus, operators }) => {
  const counted = async () => {
    const { text } = await operators.ask('/timers', { accept: BROWSER });
    return /Dead letters <span class="pill dead"\s*>([^<]*)</.exec(text)?.[1];
  };
  await operators.died(3);
  await repeatDeadLetters(bus.db, 3332);
  expect(await counted()).toBe('9,999');
  await operators.died(1);
  expect(await counted()).toBe('10,000+');
  await operators.died(1);
  expect(await counted()).toBe('10,000+');
});
