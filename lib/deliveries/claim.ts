import type { TopicName } from '../catalog/catalog.ts';
import type { BusEvent } from '../subscribers/subscriber.ts';
import type { Subscription } from './subscription.ts';

/** A lane that this relay holds, with its next deliveries in order. */
export interface ClaimedLane {
  /** Database key, as text. */
  readonly id: string;
  /** The lane that its deliveries stand in, and that their ids begin with: another one only for a key in trouble. */
  readonly home: string;
  readonly token: string;
  readonly subscription: Subscription;
  /** Whether it carries many ordering keys, each in an order of its own. */
  readonly isShared: boolean;
  /** All before this position are settled. */
  readonly head: number;
  /** Where the lane's newest delivery stood when it was claimed. */
  readonly newest: number;
  /** When the relay that held the lane before was due to settle, in epoch milliseconds; null unless it died. */
  readonly lapsedAtMs: number | null;
  /** The newest payload version that the relay before could read, and so may have begun; null where that is unknown. */
  readonly lapsedVersion: number | null;
  /**
   * Up to the first whose payload is of a newer version than the handler was written for; of a shared lane whose
   * deliveries are handed over one by one, also those.
   */
  readonly deliveries: readonly ClaimedDelivery[];
  /** That first one, and those behind it: they wait for a relay of a release that can read it. */
  readonly unreadable: readonly ClaimedDelivery[];
  /** Whether `deliveries` reaches the lane's end. */
  readonly isWhole: boolean;
}

export interface ClaimedDelivery {
  readonly position: number;
  /** Attempts so far since fan-out or the last replay. */
  readonly attempts: number;
  readonly replayed: boolean;
  /** Epoch milliseconds; null when nothing keeps it waiting. */
  readonly nextAttemptAtMs: number | null;
  readonly event: BusEvent;
}

/** Reads what a turn has claimed. @param token of the turn's leases. */
export function readClaim(
  found: Found,
  token: string,
  subscriptions: ReadonlyMap<string, Subscription>,
): ClaimedLane[] {
  const events = new Map(found.events?.map((event) => [event[0], readEvent(event)]));
  return found.lanes.map((lane) => {
    const subscription = subscriptions.get(`${lane.topic} ${lane.subscriber}`)!;
    const all = deliveriesOf(lane, events);
    // Of a shared lane that is handed over one by one, the keys that this release can't read leave it one by one.
    const newer =
      lane.is_shared && isOneByOne(subscription)
        ? -1
        : all.findIndex(({ event }) => event.version > subscription.version);
    const readable = newer === -1 ? all.length : newer;
    return {
      id: String(lane.id),
      home: String(lane.home),
      token,
      subscription,
      isShared: lane.is_shared,
      head: lane.head,
      newest: lane.newest,
      lapsedAtMs: lane.lapsed_at,
      lapsedVersion: lane.lapsed_version,
      deliveries: all.slice(0, readable),
      unreadable: all.slice(readable),
      isWhole: lane.is_whole && newer === -1,
    };
  });
}

function isOneByOne({ subscriber }: Subscription): boolean {
  return !subscriber.transactional && subscriber.batch === null;
}

function deliveriesOf(
  { positions, begun }: FoundLane,
  events: ReadonlyMap<number, BusEvent>,
): ClaimedDelivery[] {
  const earlier = new Map(begun?.map((delivery) => [delivery[0], delivery]));
  return positions.map((position) => {
    const [, attempts, replays, nextAttemptAtMs] = earlier.get(position) ?? [position, 0, 0, null];
    return { position, attempts, replayed: replays > 0, nextAttemptAtMs, event: events.get(position)! };
  });
}

/** What `postbud_claim_1` answers. Times are epoch milliseconds. */
export interface Found {
  readonly lanes: readonly FoundLane[];
  /** Each once, however many lanes carry it. */
  readonly events: readonly FoundEvent[] | null;
}

interface FoundLane {
  readonly id: number;
  readonly home: number;
  readonly is_shared: boolean;
  readonly topic: string;
  readonly subscriber: string;
  readonly head: number;
  readonly newest: number;
  readonly lapsed_at: number | null;
  readonly lapsed_version: number | null;
  readonly is_whole: boolean;
  readonly positions: readonly number[];
  /** Those that were tried, put back or asked to wait before. */
  readonly begun:
    | readonly (readonly [position: number, attempts: number, replays: number, next: number | null])[]
    | null;
}

type FoundEvent = readonly [
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
];

function readEvent(found: FoundEvent): BusEvent {
  const [
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
  ] = found;
  // One object serves all subscribers of the event: what one does to it must not reach the others.
  return deepFreeze({
    id,
    topic,
    payload,
    version,
    producer,
    // A date can't be frozen, so each reader gets one of its own.
    get createdAt() {
      return new Date(createdAtMs);
    },
    seq,
    orderingKey,
    correlationId,
    causationId,
    traceparent,
  });
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
