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
import { RENAMING } from './releases.ts';

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
  /** As the bus writes it: `lane-position`. */
  readonly id: string;
  readonly laneId: string;
  /** The lane, or in a shared lane the key: within it there is an order. */
  readonly strand: string;
  readonly position: number;
  readonly eventId: string;
  readonly limits: SubscriberLimits;
  readonly versions: readonly DeliveryVersion[];
  readonly calls: readonly Call[];
  /** When it was moved to the lane of another name. */
  readonly leftAt: number | null;
}

/**
 * A moved clock is time that passes while everybody stands still, which may fall between a relay's look at its lease
 * and the call of the handler. So much of the machine's time after such a fault nobody is blamed for that.
 */
const DISTURBED_MS = 1500;

/**
 * A claim does not wait for the disk. Its handlers run for less than this before what they made of their events is
 * settled, which does, and takes the claim along; and for less than this once the database is back, which does not know
 * of the claim any more.
 */
const UNKNOWN_MS = 3000;

/** A history, arranged. */
export class Reading {
  readonly history: History;
  readonly calls: readonly Call[];
  readonly callsByStrand: ReadonlyMap<string, readonly Call[]>;
  /** Versions of lanes that are the first under their token. */
  readonly claims: ReadonlySet<LaneVersion>;
  /** From fan-out to the end, under the last name of their subscriber. */
  readonly deliveries: ReadonlyMap<string, DeliveryHistory>;
  /** The same in each lane that they stood in: a renamed subscriber's stood in two. */
  readonly stays: ReadonlyMap<string, DeliveryHistory>;
  readonly #limits: ReadonlyMap<string, SubscriberLimits>;
  readonly #disturbances: readonly LogEntry[];
  /** By the machine's clock: from a crash of the database to its end. */
  readonly #crashes: readonly (readonly [from: number, to: number])[];
  /** Deliveries by event and subscriber, for calls whose own one a crash has taken back. */
  readonly #again: ReadonlyMap<string, string>;
  /** Of each lane that deliveries stand in, and of the lanes of its keys. */
  readonly #lanes: ReadonlyMap<string, readonly LaneVersion[]>;
  readonly #strands = new Map<string, readonly LaneVersion[]>();

  constructor(history: History) {
    this.history = history;
    this.#limits = new Map(history.subscribers.map((limits) => [limits.name, limits]));
    this.calls = callsOf(history.log);
    this.claims = claimsAmong(history.lanes);
    this.#lanes = grouped(history.lanes, ({ id, homeId }) => homeId ?? id);
    const versions = grouped(history.deliveries, deliveryIdOf);
    this.#again = new Map(
      Array.from(versions, ([id, [first]]) => {
        const { subscriber } = this.#lanes.get(first!.laneId)![0]!;
        return [`${first!.eventId} ${subscriber}`, id];
      }),
    );
    const idOf = (start: Start) => this.#idOf(start, versions);
    const calls = grouped(this.calls, ({ start }) => idOf(start));
    const left = leftAmong(versions, (id) => this.#lanes.get(id)![0]!.subscriber);
    this.stays = new Map(
      Array.from(versions, ([id, ofOne]) => {
        const { laneId, laneKey, position, eventId } = ofOne[0]!;
        const limits = this.limitsOf(this.#lanes.get(laneId)![0]!.subscriber);
        const strand = strandOf(laneId, laneKey);
        const about = { id, laneId, strand, position, eventId, limits };
        const leftAt = left.get(id)?.at ?? null;
        return [id, { ...about, versions: ofOne, calls: calls.get(id) ?? [], leftAt }];
      }),
    );
    this.deliveries = joined(this.stays, left);
    this.callsByStrand = grouped(this.calls, ({ start }) => this.#strandOf(start));
    this.#disturbances = history.log.filter(
      (entry) => entry.k === 'fault' && (entry.ms !== undefined || entry.fault === WOKEN),
    );
    this.#crashes = crashesAmong(history.log);
  }

  limitsOf(subscriber: string): SubscriberLimits {
    return this.#limits.get(subscriber)!;
  }

  /**
   * The lane that a delivery is handed over from, as it was written: that of its key while there is one, otherwise the one
   * that it stands in. Who had claimed the latter before the former was there, or while it was, has no claim to the key.
   */
  holding(start: Start): readonly LaneVersion[] {
    const strand = this.#strandOf(start);
    const { laneId } = this.#stayOf(start) ?? start;
    const known = this.#strands.get(strand);
    if (known) return known;
    const versions: LaneVersion[] = [];
    let hasOwn = false;
    for (const version of this.#lanes.get(laneId) ?? []) {
      if (version.homeId === null) {
        if (!hasOwn) versions.push(version);
      } else if (strandOf(version.homeId, version.heldKey) === strand) {
        hasOwn = !version.isGone;
        versions.push(hasOwn ? version : { ...version, token: null });
      }
    }
    this.#strands.set(strand, versions);
    return versions;
  }

  #strandOf(start: Start): string {
    return this.#stayOf(start)?.strand ?? strandOf(start.laneId, null);
  }

  #stayOf(start: Start): DeliveryHistory | undefined {
    return this.stays.get(this.#idOf(start, this.stays));
  }

  /** The delivery that a call was one of: by its id, or by its event where a crash took back the id. */
  #idOf(start: Start, known: ReadonlyMap<string, unknown>): string {
    const id = deliveryIdOf(start);
    return known.has(id) ? id : (this.#again.get(`${start.eventId} ${start.subscriber}`) ?? id);
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

/** By the id that it had: the first version of a delivery in the lane that a rename has moved it to. */
function leftAmong(
  versions: ReadonlyMap<string, readonly DeliveryVersion[]>,
  subscriberOf: (laneId: string) => string,
): ReadonlyMap<string, DeliveryVersion> {
  const left = new Map<string, DeliveryVersion>();
  const all = [...versions].map(([id, [first]]) => ({ id, first: first! }));
  const formers = new Map(
    all.flatMap(({ id, first }) =>
      subscriberOf(first.laneId) === RENAMING.from ? [[first.eventId, id] as const] : [],
    ),
  );
  for (const { first } of all) {
    const former = formers.get(first.eventId);
    if (first.log.at(-1)?.outcome === 'renamed' && former !== undefined) left.set(former, first);
  }
  return left;
}

/** A delivery that was moved is one delivery. */
function joined(
  stays: ReadonlyMap<string, DeliveryHistory>,
  left: ReadonlyMap<string, DeliveryVersion>,
): ReadonlyMap<string, DeliveryHistory> {
  const deliveries = new Map([...stays].filter(([id]) => !left.has(id)));
  for (const [id, moved] of left) {
    const former = stays.get(id)!;
    const present = stays.get(deliveryIdOf(moved))!;
    deliveries.set(present.id, {
      ...present,
      versions: [...former.versions, ...present.versions],
      calls: [...former.calls, ...present.calls],
    });
  }
  return deliveries;
}

/** As the bus writes it. */
export function deliveryIdOf({
  laneId,
  position,
}: {
  readonly laneId: string;
  readonly position: number;
}): string {
  return `${laneId}-${position}`;
}

function strandOf(laneId: string, key: string | null): string {
  return `${laneId} ${key ?? ''}`;
}

/** A key that leaves its lane while its handler runs takes the lease along: that is no claim. */
function claimsAmong(lanes: readonly LaneVersion[]): ReadonlySet<LaneVersion> {
  const tokens = new Map<string, string | null>();
  const claims = new Set<LaneVersion>();
  for (const version of lanes) {
    const { id, homeId, token } = version;
    const before = tokens.get(id) ?? (tokens.has(id) ? null : (tokens.get(homeId ?? '') ?? null));
    if (token !== null && token !== before) claims.add(version);
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
