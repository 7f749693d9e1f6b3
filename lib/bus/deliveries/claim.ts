import type { TopicName } from '../catalog/catalog.ts';
import type { BusEvent } from '../subscribers/subscriber.ts';
import type { Subscription } from './subscription.ts';

/** A lane that this relay holds, with its next deliveries in order. */
export interface ClaimedLane {
  /** Database key, as text. */
  readonly id: string;
  /** The lane that holds its deliveries, whose ids begin with this one: another lane only for a key in trouble. */
  readonly home: string;
  readonly token: string;
  readonly subscription: Subscription;
  /** Whether it carries many ordering keys, each delivered in order by itself. */
  readonly isShared: boolean;
  /** All deliveries up to this position are settled. */
  readonly head: number;
  /** Position of the lane's newest delivery at the claim; its front where it has one. */
  readonly newest: number;
  /** When the lease of the relay before this one ran out, in epoch milliseconds; null unless that relay died. */
  readonly lapsedAtMs: number | null;
  /** The newest payload version that the relay before this one could read, and so may have begun; null if unknown. */
  readonly lapsedVersion: number | null;
  /**
   * The deliveries up to the first whose payload is newer than its handler. A shared lane whose handler takes one event
   * at a time includes the newer ones, because their keys leave the lane one by one.
   */
  readonly deliveries: readonly ClaimedDelivery[];
  /** The first newer one and all deliveries behind it: they wait for a relay of a release that can read it. */
  readonly unreadable: readonly ClaimedDelivery[];
  /** Whether its one delivery probes whether a subscriber answers that did not. */
  readonly isProbe: boolean;
  /** Whether `deliveries` reaches the lane's end, or its front. */
  readonly isWhole: boolean;
  /**
   * Whether deliveries are left out that were put before these while the relay before this one held the lane and died:
   * these are what that relay had, and nothing more of it is handed over before them.
   */
  readonly leavesOut: boolean;
  /**
   * Whether the only delivery has no event of its topic: somebody wrote or deleted rows by hand. No handler can be given
   * it. Its `event` is a stand-in.
   */
  readonly lacksEvent: boolean;
}

export interface ClaimedDelivery {
  readonly position: number;
  /** Attempts so far since fan-out or the last replay. */
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
  readonly event: BusEvent;
}

/** Reads the lanes that a turn claimed. @param token of the turn's leases. */
export function readClaim(
  claimed: FoundClaim,
  token: string,
  subscriptions: ReadonlyMap<string, Subscription>,
): ClaimedLane[] {
  const events = new Map(claimed.events?.map((event) => [event[0], readEvent(event)]));
  return claimed.lanes.map((lane) => {
    const subscription = subscriptions.get(`${lane.topic} ${lane.subscriber}`)!;
    const found = deliveriesOf(lane, events);
    // A delivery without its event stops what is behind it only until it is settled, by itself.
    const lacking = found.findIndex(({ event }) => event.topic !== lane.topic);
    const lacksEvent = lacking === 0;
    const all = lacking === -1 ? found : found.slice(0, Math.max(1, lacking));
    // Keys with payloads that this release can't read leave such a lane one by one.
    const newer =
      (lane.is_shared && isOneByOne(subscription)) || lacksEvent
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
      isProbe: lane.is_probe,
      lapsedAtMs: lane.lapsed_at,
      lapsedVersion: lane.lapsed_version,
      deliveries: all.slice(0, readable),
      unreadable: all.slice(readable),
      isWhole: lane.is_whole === true && newer === -1 && lacking === -1,
      leavesOut: lane.is_whole === null,
      lacksEvent,
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
    const [, attempts, replays, nextAttemptAtMs, backfilled, keptAttemptAtMs] =
      earlier.get(position) ?? UNTOUCHED;
    const event = events.get(position) ?? NO_EVENT;
    return { position, attempts, replays, backfilled, nextAttemptAtMs, keptAttemptAtMs, event };
  });
}

const UNTOUCHED = [0, 0, 0, null, false, null] as const;

/** The answer of `postbud_lease_1`. Times are epoch milliseconds. */
export interface FoundClaim {
  readonly lanes: readonly FoundLane[];
  /** Each event once, however many lanes carry it. */
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
  readonly is_probe: boolean;
  readonly lapsed_at: number | null;
  readonly lapsed_version: number | null;
  /**
   * Null where deliveries are left out. The head is another than the lane's then, as if these had been claimed before
   * those were put there, so that the settlement sees that it moved.
   */
  readonly is_whole: boolean | null;
  readonly positions: readonly number[];
  /** Those with an earlier attempt, replay or wait, and those of a backfill. */
  readonly begun:
    | readonly (readonly [
        position: number,
        attempts: number,
        replays: number,
        next: number | null,
        backfilled: boolean,
        kept: number | null,
      ])[]
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
  erased: boolean,
];

function readEvent([
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

/** Stands for an event that does not exist. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- no topic of the catalog, and no handler is given it
const NO_EVENT = readEvent([0, '', '', {}, 0, '', 0, 0, '', '', null, null, false] as unknown as FoundEvent);

function deepFreeze<Value extends object>(value: Value): Value {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
