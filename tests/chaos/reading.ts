import { WOKEN } from './history.ts';
import type {
  DeliveryVersion,
  End,
  History,
  LaneVersion,
  LogEntry,
  Start,
  SubscriberLimits,
} from './history.ts';
import { ROUNDING_MS } from './promises/promises.ts';

/** One call of a handler, with its end if it was noted. */
export interface Call {
  readonly start: Start;
  readonly end: (End & { readonly index: number }) | null;
  /** Place in the log. */
  readonly index: number;
}

export interface Lease {
  readonly claim: LaneVersion;
  /** As far as was known at the time that was asked about. */
  readonly endsAt: number;
  /** Whether it was over when the handler was called: run out, let go or taken by another relay. */
  readonly isOver: boolean;
}

/** One delivery's fate. */
export interface DeliveryHistory {
  /** As the bus writes it: `lane-position`. */
  readonly id: string;
  readonly laneId: string;
  readonly position: number;
  readonly eventId: string;
  readonly limits: SubscriberLimits;
  readonly versions: readonly DeliveryVersion[];
  readonly calls: readonly Call[];
}

/**
 * A moved clock is time that passes while everybody stands still, which may fall between a relay's look at its lease
 * and the call of the handler. So much of the machine's time after such a fault nobody is blamed for that.
 */
const DISTURBED_MS = 1500;

/** A history, arranged. */
export class Reading {
  readonly history: History;
  readonly calls: readonly Call[];
  readonly callsByLane: ReadonlyMap<string, readonly Call[]>;
  readonly lanes: ReadonlyMap<string, readonly LaneVersion[]>;
  readonly deliveries: ReadonlyMap<string, DeliveryHistory>;
  readonly #limits: ReadonlyMap<string, SubscriberLimits>;
  readonly #disturbances: readonly LogEntry[];

  constructor(history: History) {
    this.history = history;
    this.#limits = new Map(history.subscribers.map((limits) => [limits.name, limits]));
    this.calls = callsOf(history.log);
    this.callsByLane = grouped(this.calls, ({ start }) => start.laneId);
    this.lanes = grouped(history.lanes, ({ id }) => id);
    const calls = grouped(this.calls, ({ start }) => `${start.laneId}-${start.position}`);
    const versions = grouped(history.deliveries, ({ laneId, position }) => `${laneId}-${position}`);
    this.deliveries = new Map(
      Array.from(versions, ([id, ofOne]) => {
        const { laneId, position, eventId } = ofOne[0]!;
        const limits = this.limitsOf(this.lanes.get(laneId)![0]!.subscriber);
        return [id, { id, laneId, position, eventId, limits, versions: ofOne, calls: calls.get(id) ?? [] }];
      }),
    );
    this.#disturbances = history.log.filter(
      (entry) => entry.k === 'fault' && (entry.ms !== undefined || entry.fault === WOKEN),
    );
  }

  limitsOf(subscriber: string): SubscriberLimits {
    return this.#limits.get(subscriber)!;
  }

  /** The claim under which a handler was called, and what became of its lease until `t`. Null: there is none. */
  lease({ start }: Call, t: number): Lease | null {
    const versions = this.lanes.get(start.laneId) ?? [];
    const place = versions.findLastIndex(
      (version, index) =>
        version.by === start.relay && version.at <= start.t + ROUNDING_MS && isClaim(versions, index),
    );
    const claim = versions[place];
    if (!claim) return null;
    const kept = versions.filter(({ token, at }) => token === claim.token && at <= t);
    const endsAt = Math.max(claim.dueAt ?? 0, ...kept.map(({ dueAt }) => dueAt ?? 0));
    const isTaken = versions
      .slice(place + 1)
      .some(({ token, at }) => token !== claim.token && at <= start.t - ROUNDING_MS);
    return { claim, endsAt, isOver: isTaken || endsAt < start.t };
  }

  /** Whether time was moved, or a process woken, between two instants of the machine's clock or shortly before. */
  isDisturbed(fromReal: number, toReal: number): boolean {
    return this.#disturbances.some(({ real }) => real >= fromReal - DISTURBED_MS && real <= toReal);
  }
}

/** Whether this version of a lane is the first under its token. */
export function isClaim(versions: readonly LaneVersion[], index: number): boolean {
  const { token } = versions[index]!;
  return token !== null && token !== (versions[index - 1]?.token ?? null);
}

/** Whether a delivery has come to its end, for good or until it is replayed. */
export function hasEnded({ state }: DeliveryVersion): boolean {
  return state === 'delivered' || state === 'dead_lettered';
}

/** How often a delivery was marked delivered. */
export function timesDelivered(versions: readonly DeliveryVersion[]): number {
  return versions.filter(
    ({ state }, index) => state === 'delivered' && versions[index - 1]?.state !== 'delivered',
  ).length;
}

/** `Map.groupBy`, which Node 20 does not have. */
export function grouped<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

function callsOf(log: readonly LogEntry[]): Call[] {
  const ends = new Map<string, End & { index: number }>();
  for (const [index, entry] of log.entries()) {
    if (entry.k === 'end') ends.set(`${entry.relay} ${entry.n}`, { ...entry, index });
  }
  return log.flatMap((entry, index) =>
    entry.k === 'start' ? [{ start: entry, end: ends.get(`${entry.relay} ${entry.n}`) ?? null, index }] : [],
  );
}
