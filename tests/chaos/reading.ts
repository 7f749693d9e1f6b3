import { BACK, CRASHES, WOKEN } from './history.ts';
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
  /** Whether it had run out, and was lengthened after that. */
  readonly hasRevived: boolean;
}

/** One delivery's fate. */
export interface DeliveryHistory {
  /** As the bus writes it: `<eventId>.<subscriber>`. */
  readonly id: string;
  readonly laneId: string;
  /** The lane, or in a lane with keys the key: within it there is an order. */
  readonly strand: string;
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

/**
 * No relay waits for the disk. For so long what it has claimed and settled may be taken back by a crash, and for so long after
 * it handlers may run under a claim that the database does not know of any more.
 */
const UNKNOWN_MS = 3000;

/** A history, arranged. */
export class Reading {
  readonly history: History;
  readonly calls: readonly Call[];
  readonly callsByStrand: ReadonlyMap<string, readonly Call[]>;
  /** Rows of journals that are the first under their token. */
  readonly claims: ReadonlySet<LaneVersion>;
  /** From their places to the end, by their ids. */
  readonly deliveries: ReadonlyMap<string, DeliveryHistory>;
  readonly #limits: ReadonlyMap<string, SubscriberLimits>;
  readonly #disturbances: readonly LogEntry[];
  /** By the machine's clock: from a crash of the database to its end. */
  readonly #crashes: readonly (readonly [from: number, to: number])[];
  readonly #lanes: ReadonlyMap<string, readonly LaneVersion[]>;

  constructor(history: History) {
    this.history = history;
    this.#limits = new Map(history.subscribers.map((limits) => [limits.name, limits]));
    this.calls = callsOf(history.log);
    this.claims = claimsAmong(history.lanes);
    this.#lanes = grouped(history.lanes, ({ id }) => id);
    const subscriberOf = ({ laneId }: DeliveryVersion) => this.#lanes.get(laneId)![0]!.subscriber;
    const versions = grouped(history.deliveries, (version) =>
      deliveryIdOf({ eventId: version.eventId, subscriber: subscriberOf(version) }),
    );
    const calls = grouped(this.calls, ({ start }) => deliveryIdOf(start));
    this.deliveries = new Map(
      Array.from(versions, ([id, ofOne]) => {
        const { laneId, laneKey, position, eventId } = ofOne[0]!;
        const limits = this.limitsOf(subscriberOf(ofOne[0]!));
        const strand = `${laneId} ${laneKey ?? ''}`;
        const about = { id, laneId, strand, position, eventId, limits };
        return [id, { ...about, versions: ofOne, calls: calls.get(id) ?? [] }];
      }),
    );
    this.callsByStrand = grouped(
      this.calls,
      ({ start }) => this.deliveries.get(deliveryIdOf(start))?.strand ?? deliveryIdOf(start),
    );
    this.#disturbances = history.log.filter(
      (entry) => entry.k === 'fault' && (entry.ms !== undefined || entry.fault === WOKEN),
    );
    this.#crashes = crashesAmong(history.log);
  }

  limitsOf(subscriber: string): SubscriberLimits {
    return this.#limits.get(subscriber)!;
  }

  /** The lane of a call's delivery. */
  laneOf(start: Start): string | undefined {
    return this.deliveries.get(deliveryIdOf(start))?.laneId;
  }

  /** The journal of the lane that a delivery is handed over from. */
  holding(start: Start): readonly LaneVersion[] {
    return this.#lanes.get(this.laneOf(start) ?? '') ?? [];
  }

  /** Whether the database may have forgotten, in a crash, the claim that a handler was called under. */
  mayBeTakenBack({ real }: Start): boolean {
    return this.#crashes.some(([from, to]) => real >= from - UNKNOWN_MS && real <= to + UNKNOWN_MS);
  }

  /** The claim under which a handler was called, and what became of its lease until `t`. Null: there is none. */
  lease({ start }: Call, t: number): Lease | null {
    const versions = this.holding(start);
    const place = versions.findLastIndex(
      (version) =>
        version.by === start.relay && version.at <= start.t + ROUNDING_MS && this.claims.has(version),
    );
    const claim = versions[place];
    if (!claim) return null;
    const kept = versions.filter(({ token, at }) => token === claim.token && at <= t);
    const endsAt = Math.max(claim.dueAt ?? 0, ...kept.map(({ dueAt }) => dueAt ?? 0));
    const isTaken = versions
      .slice(place + 1)
      .some(({ token, at }) => token !== claim.token && at <= start.t - ROUNDING_MS);
    const hasRevived = kept.some(
      ({ at }, index) => index > 0 && at > Math.max(...kept.slice(0, index).map(({ dueAt }) => dueAt ?? 0)),
    );
    return { claim, endsAt, isOver: isTaken || endsAt < start.t, hasRevived };
  }

  /** An instant that comes this long after another one, or later where the clock was moved meanwhile. */
  soonAfter(t: number, ms: number): number {
    let soon = t + ms;
    for (const entry of this.#disturbances) {
      const movedMs = entry.k === 'fault' ? (entry.ms ?? 0) : 0;
      const isMeanwhile = entry.t >= t - ROUNDING_MS && entry.t <= t + ms;
      if (isMeanwhile) soon = Math.max(soon, entry.t + movedMs + ms);
    }
    return soon;
  }

  /** Whether time was moved, or a process woken, between two instants of the machine's clock or shortly before. */
  isDisturbed(fromReal: number, toReal: number): boolean {
    return this.#disturbances.some(({ real }) => real >= fromReal - DISTURBED_MS && real <= toReal);
  }
}

function crashesAmong(log: readonly LogEntry[]): (readonly [from: number, to: number])[] {
  return log.flatMap((entry, index) => {
    if (entry.k !== 'fault' || entry.fault !== CRASHES) return [];
    const back = log.slice(index).find((later) => later.k === 'fault' && later.fault === BACK);
    return [[entry.real, back?.real ?? Infinity] as const];
  });
}

/** As the bus writes it. */
export function deliveryIdOf(of: { readonly eventId: string; readonly subscriber: string }): string {
  return `${of.eventId}.${of.subscriber}`;
}

function claimsAmong(lanes: readonly LaneVersion[]): ReadonlySet<LaneVersion> {
  const tokens = new Map<string, string | null>();
  const claims = new Set<LaneVersion>();
  for (const version of lanes) {
    const { id, token } = version;
    if (token !== null && token !== (tokens.get(id) ?? null)) claims.add(version);
    tokens.set(id, token);
  }
  return claims;
}

/** Whether a delivery has come to its end, permanently or until it is replayed. */
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
