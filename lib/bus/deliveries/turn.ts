import { randomUUID } from 'node:crypto';

import type { Database } from '../../platform/db/connect.ts';
import { isInDoubt } from '../../platform/db/in-doubt.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { logError } from '../../platform/log.ts';
import { onceFor } from '../../platform/once-for.ts';
import { readClaim } from './claim.ts';
import type { ClaimedLane, FoundClaim } from './claim.ts';
import { noteLostClaim } from './lost-claims.ts';
import { readSettled, settlementValues } from './settle.ts';
import type { FoundSettled, LaneOutcome, Settled } from './settle.ts';
import type { Subscription } from './subscription.ts';

export interface TurnOptions {
  /** Outcomes to settle, after the fan-out and before lanes are claimed. */
  readonly outcomes: readonly LaneOutcome[];
  /** Whose lanes to claim, in this order. */
  readonly subscriptions: ReadonlyMap<string, Subscription>;
  /** 0 to settle only. */
  readonly maxLanes: number;
  /** Over all lanes. */
  readonly maxDeliveries: number;
  /** How many events to fan out at most. */
  readonly maxFannedOut: number;
  /** Whether to look for all due lanes even when this turn's fan-out brings some. */
  readonly isLooking: boolean;
  /**
   * Backends of this process that have emitted and whose commits have just been sent. Where nothing is settled, the turn waits
   * in the database for those that are still open, a few milliseconds at most.
   */
  readonly awaited: readonly number[];
  /** Overrides the database's clock in tests; ISO 8601. */
  readonly now: string | null;
}

/** The results of a turn in the database. */
export interface Turn {
  /** The database's clock (or its override) that the leases count from, in epoch milliseconds. */
  readonly nowMs: number;
  /** The same when the lanes were leased, after everything that was settled in them before. */
  readonly clockMs: number;
  /** Null when there was nothing to settle. */
  readonly settled: Settled | null;
  /** Number of events. */
  readonly fannedOut: number;
  /** Whether events still wait for fan-out: for a producer's transaction, for another relay, or for the next turn. */
  readonly isAwaited: boolean;
  /** Whether the `awaited` transactions had all ended when it looked: their commits need no turn of their own. */
  readonly isMet: boolean;
  /** When the latest of the outages that are over ended; null where none is, or it did not look. See `endOutages`. */
  readonly recoveredAtMs: number | null;
  /** Whether the clock was ahead and is back; see `takeBackTimes`. */
  readonly isClockBack: boolean;
  /** Whether it looked at all due lanes and found some, so that there may be more. */
  readonly hasFoundDue: boolean;
  /** When the rate of a subscriber, for which deliveries wait, allows the next one; null where none does. */
  readonly limitedInMs: number | null;
  readonly lanes: readonly ClaimedLane[];
}

/**
 * Takes one turn of a relay in one round trip: fans out the events whose place in the order is certain, settles
 * outcomes, leases due lanes that no relay holds, and reads their next deliveries. An idle turn is one statement too.
 *
 * The statement calls `postbud_turn_4` (drizzle/functions). Its name has a version, so that releases which share a database
 * each call their own. A lane whose lease ran out is due like any other, because its relay died.
 *
 * @throws the driver's error. When it is unknown whether lanes were leased, `releaseLostClaims` will release them.
 */
export async function takeTurn(db: Database, options: TurnOptions): Promise<Turn> {
  const { outcomes, subscriptions, maxLanes, maxDeliveries, isLooking, maxFannedOut, awaited, now } = options;
  const token = randomUUID();
  const asked = ask(db, (isCareful) => [
    ...settlementValues(outcomes),
    memories.get(db) ?? null,
    token,
    ...textsOf(subscriptions),
    maxLanes,
    maxDeliveries,
    isLooking,
    maxFannedOut,
    isCareful,
    awaited.length > 0 ? `{${awaited.join(',')}}` : null,
    now,
  ]);
  const answer = await asked.catch((error: unknown) => {
    if (maxLanes > 0 && isInDoubt(error)) noteLostClaim(db, token);
    throw error;
  });
  const { now: nowMs, clock: clockMs, memory, settled, claimed, ...found } = answer;
  if (memory !== null) memories.set(db, JSON.stringify(memory));
  return {
    ...found,
    nowMs,
    clockMs,
    settled: settled && readSettled(settled),
    lanes: claimed ? readClaim(claimed, token, subscriptions) : [],
  };
}

/**
 * Asks the database for a turn. Where a row makes it fail that should not exist, it asks again for a careful one, which
 * sets that row aside.
 */
async function ask(db: Database, valuesOf: (isCareful: boolean) => unknown[]): Promise<TurnAnswer> {
  const turn = async (isCareful: boolean) => {
    const [row] = await run<{ answer: TurnAnswer }>(driverOf(db), {
      name: 'turn',
      text: TURN,
      values: valuesOf(isCareful),
      limitMs: TURN_LIMIT_MS,
      isTurn: true,
    });
    return row!.answer;
  };
  try {
    return await turn(false);
  } catch (error) {
    if (!isOfRow(error)) throw error;
    logError('a turn of the relay failed; events are fanned out one by one', error);
    return await turn(true);
  }
}

/** Whether a statement failed because of what a row holds. @see https://www.postgresql.org/docs/current/errcodes-appendix.html */
function isOfRow(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  // Data, integrity and program limits, such as an index entry that is too long.
  return typeof code === 'string' && /^(22|23|54)/.test(code);
}

/** The answer of `postbud_turn_4`: one JSON value, which all drivers parse alike. Times are epoch milliseconds. */
interface TurnAnswer extends Omit<Turn, 'nowMs' | 'clockMs' | 'settled' | 'lanes'> {
  readonly now: number;
  readonly clock: number;
  /** Null when it is as before. */
  readonly memory: object | null;
  readonly settled: FoundSettled | null;
  readonly claimed: FoundClaim | null;
}

const TURN = `select postbud_turn_4($1::postbud_outcome_2[], $2::bigint[], $3::bigint[], $4::text[], $5::float8[],
  $6::int[], $7::jsonb, $8::jsonb, $9::jsonb, $10::uuid, $11::text, $12::text, $13::text, $14::text, $15::int,
  $16::int, $17::boolean, $18::int, $19::boolean, $20::int[], $21::timestamptz) as answer`;

/**
 * What each turn in a database leaves for the next one: how far all is fanned out, and the quiet fence, which says which
 * transactions had to end before their topics' events may be. It is kept longer than a relay lives, because transactions may
 * be longer than that. See `postbud_fan_out_3`.
 *
 * Turns of one process run side by side, and their answers may arrive out of order: an older memory is as true, and has the
 * next turn read a little more.
 */
const memories = new WeakMap<Database, string>();

/** Writes subscriptions as `postbud_turn_4` takes them, once for each map. */
const textsOf = onceFor((subscriptions: TurnOptions['subscriptions']): readonly string[] => {
  const all = [...subscriptions.values()];
  return [
    all.map(({ topic, subscriber }) => `${topic} ${subscriber.name}`).join(','),
    arrayText(all.map(({ version }) => version)),
    arrayText(all.map(({ leaseMs }) => leaseMs)),
    arrayText(all.map(({ subscriber }) => (subscriber.outage === 'wait' ? 't' : 'f'))),
  ];
});

const arrayText = (values: readonly (number | string)[]) => `{${values.join(',')}}`;
