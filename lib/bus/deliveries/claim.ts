import type { TopicName } from '../catalog/catalog.ts';
import type { Subscription } from './subscription.ts';
import type { BusEvent } from '../subscribers/subscriber.ts';

/** A lane that this relay holds, with its next deliveries in order. */
export interface ClaimedLane {
  /** Database key. */
  readonly lane: number;
  /** Number of the claim in the lane's journal: a settlement counts only behind it. */
  readonly number: number;
  readonly token: string;
  /** Of which it is a subscriber. */
  readonly stream: number;
  readonly subscription: Subscription;
  /** Whether it carries ordering keys, each delivered in order by itself. */
  readonly isKeyed: boolean;
  /** How many keys may be handed over at once. */
  readonly handlers: number;
  /** All deliveries up to this position are dealt with, or are open exceptions. */
  readonly head: number;
  /** The open exceptions that are due, each with those behind it of its key; then the log from the head on. */
  readonly deliveries: readonly ClaimedDelivery[];
  /** Keys of the log's deliveries with an open exception that holds them back. */
  readonly openKeys: ReadonlySet<string>;
  /** Whether the relay held the lane before, and goes on with it while handlers run. */
  readonly isContinued: boolean;
  /**
   * When the lease of the relay before this one ran out, in epoch milliseconds; null unless that relay died. Then the only
   * delivery is the first that it may have begun.
   */
  readonly lapsedAtMs: number | null;
  /** Up to here the relay before this one may have begun deliveries. */
  readonly claimedTo: number | null;
}

export interface ClaimedDelivery {
  readonly position: number;
  /** Whether it has a row of its own; the others are beyond the lane's head. */
  readonly isException: boolean;
  /** Whether it is a dead letter that halts its key. */
  readonly isHalted: boolean;
  /** Attempts so far since it was placed, or since the last replay. */
  readonly attempts: number;
  /** How often operators have replayed it. */
  readonly replays: number;
  /** Whether a backfill wrote it. */
  readonly backfilled: boolean;
  /** Epoch milliseconds; null when the delivery does not wait for a retry. */
  readonly nextAttemptAtMs: number | null;
  /**
   * Of one that an operator probes: when its next attempt is due if this one fails, which then costs nothing. Epoch
   * milliseconds; null of any other.
   */
  readonly keptAttemptAtMs: number | null;
  /** Null where it does not exist: somebody wrote or deleted rows by hand. */
  readonly event: BusEvent | null;
}

/** Reads the lanes that a turn claimed. @param token of the turn's leases; a lane that goes on keeps its own. */
export function readClaim(
  { lanes, events }: FoundClaim,
  token: string,
  subscriptions: ReadonlyMap<string, Subscription>,
): ClaimedLane[] {
  const eventsOf = new Map<number, Map<number, BusEvent>>();
  for (const found of events ?? []) {
    const [stream, position] = found;
    const ofStream = eventsOf.get(stream) ?? new Map<number, BusEvent>();
    eventsOf.set(stream, ofStream.set(position, readEvent(found)));
  }
  return (lanes ?? []).map(({ topic, subscriber, stream, rows, positions, openKeys, ...lane }) => {
    const subscription = subscriptions.get(`${topic} ${subscriber}`)!;
    const ofStream = eventsOf.get(stream);
    const eventAt = (position: number) => {
      const event = ofStream?.get(position);
      return event?.topic === topic ? event : null;
    };
    const exceptions = (rows ?? []).map((row) => ({
      ...row,
      isException: true,
      event: eventAt(row.position),
    }));
    const all = exceptions.concat((positions ?? []).map((position) => placed(position, eventAt(position))));
    // One without its event is settled by itself, so that it stops nothing but itself.
    const lacking = all.findIndex(({ event }) => event === null);
    const deliveries = lacking === -1 ? all : all.slice(0, Math.max(1, lacking));
    return {
      ...lane,
      token: lane.token ?? token,
      stream,
      subscription,
      deliveries,
      openKeys: new Set(openKeys),
    };
  });
}

/** A delivery of the log. Written out, because tens of thousands of them are made a second. */
function placed(position: number, event: BusEvent | null) {
  return {
    position,
    isException: false,
    isHalted: false,
    attempts: 0,
    replays: 0,
    backfilled: false,
    nextAttemptAtMs: null,
    keptAttemptAtMs: null,
    event,
  };
}

/** The answer of `postbud_claim_2`. Times are epoch milliseconds. */
export interface FoundClaim {
  readonly lanes: readonly FoundLane[] | null;
  /** Each event once, however many lanes carry it. */
  readonly events: readonly FoundEvent[] | null;
}

interface FoundLane extends Omit<ClaimedLane, 'token' | 'subscription' | 'deliveries' | 'openKeys'> {
  readonly token: string | null;
  readonly topic: string;
  readonly subscriber: string;
  /** The exceptions. */
  readonly rows: readonly Omit<ClaimedDelivery, 'isException' | 'event'>[] | null;
  /** In the log. */
  readonly positions: readonly number[] | null;
  readonly openKeys: readonly string[] | null;
}

type FoundEvent = readonly [
  stream: number,
  position: number,
  id: string,
  topic: TopicName,
  payload: BusEvent['payload'],
  version: number,
  producer: string,
  createdAtMs: number,
  seq: number,
  orderingKey: string,
  correlationId: string,
  causationId: string | null,
  traceparent: string | null,
  erased: boolean,
];

function readEvent([
  ,
  ,
  id,
  topic,
  payload,
  version,
  producer,
  createdAtMs,
  seq,
  orderingKey,
  correlationId,
  causationId,
  traceparent,
  erased,
]: FoundEvent): BusEvent {
  // All subscribers of the event share one object, so none of them may change it.
  return deepFreeze({
    id,
    topic,
    payload,
    version,
    producer,
    // A Date can't be frozen, so each read gives a new one.
    get createdAt() {
      return new Date(createdAtMs);
    },
    seq,
    orderingKey,
    correlationId,
    causationId,
    traceparent,
    erased,
  });
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
