import { v4 as uuidv4 } from 'uuid';

import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';
import { readClaim } from './claim.ts';
import type { ClaimedLane, Found } from './claim.ts';
import { readSettled, settlement } from './settle.ts';
import type { FoundSettled, LaneOutcome, Settled } from './settle.ts';
import type { Subscription } from './subscription.ts';

export interface TurnOptions {
  /** What is done: recorded first. */
  readonly outcomes: readonly LaneOutcome[];
  /** Whose lanes to claim, asked in this order, which the relay turns from turn to turn so that none is always last. */
  readonly subscriptions: ReadonlyMap<string, Subscription>;
  /** 0: only settle. */
  readonly maxLanes: number;
  /** Deliveries over all lanes. */
  readonly maxDeliveries: number;
  /** Whether to ask for all lanes that are due, also when this turn's fan-out brings some. */
  readonly isLooking: boolean;
  /** Overrides the database's clock in tests; ISO 8601. */
  readonly now: string | null;
}

/** What a turn did. */
export interface Turn {
  /** The database's clock (or its override) that the leases count from, in epoch milliseconds. */
  readonly nowMs: number;
  /** The same when the lanes were leased: after all that was settled in them before. */
  readonly clockMs: number;
  /** Null when there was nothing to settle. */
  readonly settled: Settled | null;
  /** Events that were fanned out. */
  readonly fannedOut: number;
  /** Whether events still wait for fan-out: for a producer's transaction, another relay, or the next turn. */
  readonly isAwaited: boolean;
  /** Whether there are events that do not say whom they are for: see `addressEvents`. */
  readonly hasUnaddressed: boolean;
  readonly lanes: readonly ClaimedLane[];
}

/**
 * One turn of a relay in one round trip: fans out the events whose place in the order is certain, records outcomes,
 * leases the due lanes that no relay holds, and reads their next deliveries. An idle turn is this one statement too.
 *
 * It calls a function of the database that migrations make, of a version of its own: releases that share a database each
 * call theirs. A lane whose lease ran out is due like any other: its relay died.
 */
export async function turn(db: Database, options: TurnOptions): Promise<Turn> {
  const { outcomes, subscriptions, maxLanes, maxDeliveries, isLooking, now } = options;
  const token = uuidv4();
  const [row] = await run<{ answer: Answer }>(driverOf(db), {
    name: 'turn',
    text: TURN,
    values: [
      ...settlement(outcomes),
      fenceOf(db),
      token,
      ...asked(subscriptions),
      maxLanes,
      maxDeliveries,
      isLooking,
      now,
    ],
  });
  const { answer } = row!;
  remember(db, answer);
  return {
    nowMs: answer.now,
    clockMs: answer.clock,
    settled: answer.settled && readSettled(answer.settled),
    fannedOut: answer.fannedOut,
    isAwaited: answer.isAwaited,
    hasUnaddressed: answer.hasUnaddressed,
    lanes: answer.claimed ? readClaim(answer.claimed, token, subscriptions) : [],
  };
}

/** One JSON value, which no driver parses its own way. Times are epoch milliseconds. */
interface Answer {
  readonly now: number;
  readonly clock: number;
  readonly fannedOut: number;
  readonly isAwaited: boolean;
  readonly hasUnaddressed: boolean;
  readonly fence: unknown;
  readonly fenceAt: number | null;
  readonly settled: FoundSettled | null;
  readonly claimed: Found | null;
}

const TURN = `select postbud_turn_1($1::postbud_outcome_1[], $2::bigint[], $3::bigint[], $4::text[], $5::float8[],
  $6::int[], $7::jsonb, $8::jsonb, $9::jsonb, $10::uuid, $11::text[], $12::text[], $13::int[], $14::float8[], $15::int,
  $16::int, $17::boolean, $18::timestamptz) as answer`;

/**
 * What the last fan-out knew of transactions that must end before their topics' events may be fanned out (the quiet
 * fence). It outlives a relay: transactions may be longer than that.
 */
const fences = new WeakMap<Database, { readonly atMs: number; readonly fence: string | null }>();

function fenceOf(db: Database): string | null {
  return fences.get(db)?.fence ?? null;
}

/** Relays of one process take turns side by side: what an earlier look saw does not replace what a later one did. */
function remember(db: Database, { fence, fenceAt }: Answer): void {
  if (fenceAt === null || fenceAt < (fences.get(db)?.atMs ?? 0)) return;
  fences.set(db, { atMs: fenceAt, fence: fence === null ? null : JSON.stringify(fence) });
}

const written = new WeakMap<TurnOptions['subscriptions'], readonly string[]>();

/** The subscriptions as four arrays, written once for each map. Names of topics and components need no quotes. */
function asked(subscriptions: TurnOptions['subscriptions']): readonly string[] {
  const known = written.get(subscriptions);
  if (known) return known;
  const all = [...subscriptions.values()];
  const arrays = [
    all.map(({ topic }) => topic),
    all.map(({ subscriber }) => subscriber.name),
    all.map(({ version }) => version),
    all.map(({ leaseMs }) => leaseMs),
  ].map((values) => `{${values.join(',')}}`);
  written.set(subscriptions, arrays);
  return arrays;
}
