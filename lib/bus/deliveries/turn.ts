import { randomUUID } from 'node:crypto';

import type { Database } from '../../platform/db/connect.ts';
import { isInDoubt } from '../../platform/db/in-doubt.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { logError } from '../../platform/log.ts';
import { onceFor } from '../../platform/once-for.ts';
import type { Subscription } from './subscription.ts';
import { boundsOf } from './bounds.ts';
import type { Known } from './bounds.ts';
import { readClaim } from './claim.ts';
import type { ClaimedLane, FoundClaim } from './claim.ts';
import { noteLostClaim } from './lost-claims.ts';
import { settlementValues } from './settle.ts';
import type { LaneOutcome, Settled } from './settle.ts';

export interface TurnOptions {
  /** Outcomes to settle, after events got their places and before lanes are claimed. */
  readonly outcomes: readonly LaneOutcome[];
  /** Lanes that this relay holds and that may go on, while handlers of them run. */
  readonly continued: readonly Pick<LaneOutcome, 'lane' | 'token'>[];
  /** See `Turn`, of the one before; null for a relay that does not wait for others. */
  readonly behind: readonly number[] | null;
  /** The topics to which events were emitted; null to settle only. */
  readonly topics: readonly string[] | null;
  /** Whose lanes to claim. */
  readonly subscriptions: ReadonlyMap<string, Subscription>;
  readonly maxLanes: number;
  /** How many lanes to claim, by their ids, where another loop is to have the others; null for all. */
  readonly share: number | null;
  /** Over all lanes. */
  readonly maxDeliveries: number;
  /** How many events of a topic get their places at most. */
  readonly maxEvents: number;
  /** Whether to look at all topics, and for all due lanes. */
  readonly isLooking: boolean;
  /** Backends of this process whose commits have just been sent; see `EarlyLook`. */
  readonly awaited: readonly number[];
  /** The relay's reading of the database's clock, in epoch milliseconds. */
  readonly clockMs: number;
  /** Overrides the database's clock in tests; ISO 8601. */
  readonly now: string | null;
}

/** The results of a turn in the database. */
export interface Turn {
  /** The database's clock (or its override) that the leases count from, in epoch milliseconds. */
  readonly nowMs: number;
  /** The same at the end of the turn. */
  readonly clockMs: number;
  /** Null when there was nothing to settle. */
  readonly settled: Settled | null;
  /** Events that got their places. */
  readonly placed: number;
  /** Whether events wait for their places: for a producer's transaction, or for the next turn. */
  readonly isAwaited: boolean;
  /** Whether the `awaited` transactions had all ended when it looked. */
  readonly isMet: boolean;
  /** Whether the clock was ahead and is back; see `takeBackTimes`. */
  readonly isClockBack: boolean;
  /** Whether it looked at all due lanes and there may be more. */
  readonly hasMore: boolean;
  /** When the rate of a subscriber, for which deliveries wait, allows the next one; null where none does. */
  readonly limitedInMs: number | null;
  readonly lanes: readonly ClaimedLane[];
  /** Lanes that other relays hold, in which events wait that no claim of theirs includes. */
  readonly behind: readonly number[];
}

/**
 * Takes one turn of a relay in one round trip: gives events their places, settles outcomes, leases lanes that have more to hand
 * over, and reads their next deliveries.
 *
 * The statement calls `postbud_turn_5` (drizzle/functions). Its name has a version, so that releases which share a database each
 * call their own.
 *
 * @throws the driver's error. When it is unknown whether lanes were leased, `releaseLostClaims` will release them.
 */
export async function takeTurn(db: Database, options: TurnOptions): Promise<Turn> {
  const { outcomes, subscriptions, now } = options;
  const token = randomUUID();
  const bounds = boundsOf(db);
  const isWhole = options.isLooking && bounds.isWholeDue();
  const asked = ask(db, (isCareful) => [
    ...settlementValues(outcomes, options.clockMs),
    token,
    options.topics && arrayText(options.topics.map((topic) => JSON.stringify(topic))),
    bounds.textFor(options.isLooking ? null : options.topics),
    ...textsOf(subscriptions),
    JSON.stringify({
      lanes: options.maxLanes,
      share: options.share,
      deliveries: options.maxDeliveries,
      events: options.maxEvents,
      server: bounds.server,
      looks: options.isLooking,
      isWhole,
      isCareful,
      continued: options.continued,
      behind: options.behind,
    }),
    options.awaited.length > 0 ? arrayText(options.awaited) : null,
    now,
  ]);
  const answer = await asked.catch((error: unknown) => {
    if (options.maxLanes > 0 && isInDoubt(error)) noteLostClaim(db, token);
    throw error;
  });
  bounds.note(answer, isWhole);
  const { settled, claimed } = answer;
  return {
    nowMs: answer.now,
    clockMs: answer.clock,
    settled: settled && {
      held: new Set(settled.held),
      repeated: new Set(settled.repeated),
      lapsed: new Set(settled.lapsed),
    },
    placed: answer.placed,
    isAwaited: answer.isAwaited,
    isMet: answer.isMet,
    isClockBack: answer.isClockBack,
    hasMore: answer.hasMore,
    limitedInMs: answer.limitedInMs,
    behind: answer.behind,
    lanes: claimed.flatMap((one) => readClaim(one, token, subscriptions)),
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
    logError('a turn of the relay failed; events are placed one by one', error);
    return await turn(true);
  }
}

/** Whether a statement failed because of what a row holds. @see https://www.postgresql.org/docs/current/errcodes-appendix.html */
function isOfRow(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  // Data, integrity and program limits, such as an index entry that is too long.
  return typeof code === 'string' && /^(22|23|54)/.test(code);
}

/** The answer of `postbud_turn_5`: one JSON value, which all drivers parse alike. Times are epoch milliseconds. */
interface TurnAnswer
  extends
    Known,
    Pick<Turn, 'placed' | 'isAwaited' | 'isMet' | 'isClockBack' | 'hasMore' | 'limitedInMs' | 'behind'> {
  readonly now: number;
  readonly clock: number;
  readonly settled: Readonly<Record<keyof Settled, readonly number[]>> | null;
  readonly claimed: readonly FoundClaim[];
}

const TURN = `select postbud_turn_5($1::json, $2::jsonb, $3::uuid, $4::text[], $5::jsonb, $6::text, $7::text, $8::text, $9::text,
  $10::jsonb, $11::int[], $12::timestamptz) as answer`;

/** Writes subscriptions as `postbud_turn_5` takes them, once for each map. */
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
