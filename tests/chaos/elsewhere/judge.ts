import type pg from 'pg';

import type { Database } from '../../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../../lib/platform/db/statement.ts';
import { COMPONENTS } from './orders.ts';
import { RECORDS } from '../../support/records.ts';

export interface Judged {
  readonly events: number;
  /** Of all components. */
  readonly effects: number;
  /** Attempts that failed or were cut off. */
  readonly failedAttempts: number;
  /** Deliveries that were given up, and replayed at the end: their place in the order is lost, as that of all refused ones. */
  readonly replayed: number;
  /** How often a component was told that the event before was missing. */
  readonly gaps: number;
  /** Each in a sentence; none where each event had its effect once, in order, and each gap was one. */
  readonly faults: readonly string[];
}

interface Delivery {
  readonly subscriber: string;
  readonly key: string;
  readonly id: string;
  readonly isReplayed: boolean;
  readonly attempts: number;
}

interface Effect {
  readonly subscriber: string;
  readonly id: string;
}

/** Compares the effects with the events, as the bus ordered them. */
export async function judge(db: Database, pool: pg.Pool): Promise<Judged> {
  const deliveries = await run<Delivery>(driverOf(db), { text: DELIVERIES, values: [] });
  const { rows: effects } = await pool.query<Effect>(
    'select subscriber, event_id as id from effects order by place',
  );
  const { rows: gaps } = await pool.query<Effect & { was_skipped: boolean }>(
    'select subscriber, missing_id as id, was_skipped from gaps',
  );
  // A relay that has heard a refusal goes on with the lane, and settles later. One that is killed in between leaves the
  // event to the next relay, which hands it over again, behind those that came after it.
  const { rows: refusals } = await pool.query<Effect>('select subscriber, event_id as id from refusals');
  const refused = new Set(refusals.map(nameOf));
  const replayed = deliveries.filter(({ isReplayed }) => isReplayed);
  const given = new Set([...replayed.map(nameOf), ...refused]);
  const told = new Set(gaps.map(nameOf));
  const faults = [
    ...COMPONENTS.flatMap(({ name }) => faultsOf(name, deliveries, effects, refused)),
    ...skipped(deliveries, effects)
      .filter((delivery) => !told.has(nameOf(delivery)))
      .map(({ subscriber, id }) => `${subscriber} was not told that ${id} is missing`),
    ...gaps
      .filter((gap) => !gap.was_skipped || !given.has(nameOf(gap)))
      .map((gap) => `${gap.subscriber} was told that ${gap.id} is missing, which the bus did not give up`),
  ];
  return {
    events: deliveries.length / COMPONENTS.length,
    effects: effects.length,
    failedAttempts: deliveries.reduce((sum, { attempts }) => sum + attempts - 1, 0),
    replayed: replayed.length,
    gaps: gaps.length,
    faults,
  };
}

function faultsOf(
  name: string,
  all: readonly Delivery[],
  effects: readonly Effect[],
  refused: ReadonlySet<string>,
): string[] {
  const deliveries = all.filter(({ subscriber }) => subscriber === name);
  const places = new Map<string, number[]>();
  for (const [place, { subscriber, id }] of effects.entries())
    if (subscriber === name) places.set(id, [...(places.get(id) ?? []), place]);
  const faults: string[] = [];
  const last = new Map<string, number>();
  for (const { id, key, isReplayed } of deliveries) {
    const found = places.get(id) ?? [];
    if (found.length !== 1) faults.push(`${id} had ${found.length} effects in ${name}`);
    if (found.length === 0 || isReplayed || refused.has(nameOf({ subscriber: name, id }))) continue;
    if (found[0]! < (last.get(key) ?? -1)) faults.push(`${id} came too late in ${name}, key '${key}'`);
    last.set(key, found[0]!);
  }
  return faults;
}

/** Lists the deliveries that the next one of their order overtook, and was not given up itself. */
function skipped(deliveries: readonly Delivery[], effects: readonly Effect[]): Delivery[] {
  const places = new Map(effects.map((effect, place) => [nameOf(effect), place]));
  const last = new Map<string, Delivery>();
  return deliveries.flatMap((delivery) => {
    const order = `${delivery.subscriber} ${delivery.key}`;
    const before = last.get(order);
    last.set(order, delivery);
    if (!before?.isReplayed || delivery.isReplayed) return [];
    return places.get(nameOf(before))! > places.get(nameOf(delivery))! ? [before] : [];
  });
}

const nameOf = ({ subscriber, id }: Effect) => `${subscriber} ${id}`;

const DELIVERIES = `
  select subscriber, events.ordering_key as key, events.id::text as id, replays > 0 as "isReplayed",
    (attempts + coalesce(jsonb_array_length(attempt_log), 0))::int as attempts
  from ${RECORDS} join events on events.id = event_id
  where subscriber in ('ledger', 'accounting') order by created_at, seq`;
