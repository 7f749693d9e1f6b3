import { encode } from './state.ts';
import type { Delivery, Lane, Run, State, Tables } from './state.ts';
import { conclude, failed } from './runs.ts';
import { keepDisk } from './world.ts';
import type { World } from './world.ts';

/** Ends a turn in one step: nobody sees what is between its locks on lanes and its commit, or changes what it reads. */
export function finish(state: State, who: number, world: World): void {
  const relay = state.relays[who]!;
  const { db } = state;
  const isDurable = relay.reserving !== null || relay.runs.some(({ isGathered }) => isGathered);
  keepDisk(state);
  fanOut(state, who, world);
  if (relay.reserving) db.reserved = relay.reserving;
  for (const run of relay.runs.filter(({ isGathered }) => isGathered)) settle(state, who, run, world);
  relay.runs = relay.runs.filter(({ isGathered }) => !isGathered);
  if (world.scope.handsOver) claim(state, who, world);
  if (isDurable || (state.disk && encode(state.disk) === encode(db))) state.disk = null;
  if (relay.next) {
    relay.memory = { ...relay.next, reserved: relay.reserving?.until ?? relay.next.reserved };
  }
  abandon(state, who);
}

/** What is left of a turn when it ends, however it does. */
export function abandon(state: State, who: number): void {
  Object.assign(state.relays[who]!, {
    phase: 'idle',
    snapshot: null,
    at: 0,
    numberNow: 0,
    holders: null,
    placed: [],
    next: null,
    reserving: null,
  });
  for (const run of state.relays[who]!.runs) run.isGathered = false;
  if (state.fanOutLock !== who) return;
  // Who waits for the fan-out lock has it at once.
  state.fanOutLock = state.relays.findIndex(({ phase }) => phase === 'waits');
  const next = state.relays[state.fanOutLock];
  if (next) next.phase = 'clock';
}

/** Writes the deliveries of what a turn has placed, and lengthens lanes: `postbud_place_2`. */
function fanOut(state: State, who: number, { scope, mistake }: World): void {
  const { db } = state;
  for (const { event, position } of state.relays[who]!.placed) {
    db.markers = db.markers.filter((marker) => marker.event !== event);
    const known = mistake === 'fan-out-by-own-catalog' && who === 0 ? 1 : scope.subscribers;
    for (let home = 0; home < known; home += 1) {
      db.deliveries.push({
        home,
        position,
        event,
        state: 'pending',
        attempts: 0,
        replays: 0,
        waits: false,
        backfilled: false,
      });
      const lane = laneOf(db, home, 0)!;
      lane.tail = Math.max(lane.tail, position);
      if (lane.token === 0 && lane.due === 'no') lane.due = 'now';
    }
  }
  db.deliveries.sort((one, other) => one.home - other.home || one.position - other.position);
}

export function laneOf(db: Tables, home: number, key: number): Lane | undefined {
  return db.lanes.find((lane) => lane.home === home && lane.key === key);
}

/** The lane that delivers a delivery: of its key, where that is in trouble. */
export function laneFor(db: Tables, { home, event }: Delivery, { scope }: World): Lane {
  return laneOf(db, home, scope.keys[event] ?? -1) ?? laneOf(db, home, 0)!;
}

export const isOpen = ({ state }: Delivery) => state === 'pending' || state === 'failing';

/** Those of one key, in a lane that keys share. */
export function inStrand(one: Delivery, home: number, key: number, { scope }: World): boolean {
  return one.home === home && (key === 0 || scope.keys[one.event] === key);
}

/** Up to where a lane may be delivered: `postbud_front_1`. */
function frontOf(db: Tables, lane: Pick<Lane, 'home' | 'key'>, world: World): number | null {
  const backfill =
    db.backfill === null || world.mistake === 'live-before-backfilled' ? [] : [db.backfill.front];
  const fronts = [...haltsOf(db, lane, world), ...backfill];
  return fronts.length === 0 ? null : Math.min(...fronts);
}

/** The positions of the dead letters that halt a lane. */
function haltsOf(db: Tables, { home, key }: Pick<Lane, 'home' | 'key'>, world: World): number[] {
  if (world.mistake === 'successor-escapes-a-halt') return [];
  return db.halts
    .filter((halt) => halt.home === home)
    .map(({ position }) => db.deliveries.find((one) => one.home === home && one.position === position)!)
    .filter(
      (one) => one.state === 'dead' && (world.scope.keys.length === 0 || world.scope.keys[one.event] === key),
    )
    .map(({ position }) => position);
}

/** Leases what is due and nobody holds, or whose lease is over: `postbud_find_due_1`, `postbud_lease_1`, `postbud_next_2`. */
function claim(state: State, who: number, world: World): void {
  const { db } = state;
  const relay = state.relays[who]!;
  let room = world.scope.maxLanes - relay.runs.length;
  for (const lane of db.lanes) {
    if (room === 0 || !isDue(state, lane, who, world)) continue;
    room -= 1;
    const front = frontOf(db, lane, world);
    const asked = lane.head < lane.carefulTo ? 1 : world.scope.maxDeliveries;
    const open = openOf(db, lane, world).filter(({ position }) => front === null || position <= front);
    const known = readable(open, who, world);
    const next = known.slice(0, asked);
    const run: Run = {
      home: lane.home,
      key: lane.key,
      head: lane.head,
      newest: front ?? lane.tail,
      isWhole: next.length < asked && known.length === open.length,
      positions: next.map(({ position }) => position),
      events: next.map(({ event }) => event),
      keys: next.map(({ event }) => world.scope.keys[event] ?? 0),
      ends: next.map(({ waits }) => (waits ? 'early' : '')),
      aloneTo: -1,
      carefulTo: 0,
      isDone: next.length === 0,
      isGathered: false,
      isOver: false,
      isExcused: false,
      isOfBackfill: db.backfill?.isBegun ?? false,
    };
    relay.runs.push(run);
    if (lane.token > 0) recordLapse(state, run, world);
    conclude(run, world);
    lane.token = who + 1;
    lane.due = 'no';
  }
}

/**
 * The relay before this one died, or was stopped for too long. It certainly began the first delivery, unless several share a
 * transaction; the others are claimed one by one.
 */
function recordLapse(state: State, run: Run, world: World): void {
  if (run.positions.length === 0 || run.ends[0] === 'early') return;
  run.carefulTo = run.positions.at(-1)!;
  run.isDone = true;
  if (world.scope.handler === 'transactional' && run.positions.length > 1) return;
  failed(state, run, 0, world);
  state.seen[run.home]![run.events[0]!]!.lapses += 1;
}

export function isDue({ db }: State, lane: Lane, who: number, world: World): boolean {
  const open = openOf(db, lane, world);
  const canRead = open.length === 0 || readable(open, who, world).length > 0;
  return lane.due === 'now' && !db.isPaused && canRead;
}

/** The next open deliveries of a lane; a shared one leaves out keys in trouble. */
function openOf(db: Tables, { home, key, head }: Lane, world: World): Delivery[] {
  const inTrouble =
    key === 0 ? db.lanes.filter((lane) => lane.home === home && lane.key > 0).map((lane) => lane.key) : [];
  const leavesOut = world.mistake !== 'key-handed-over-by-both-its-lanes';
  return db.deliveries.filter(
    (one) =>
      inStrand(one, home, key, world) &&
      one.position > head &&
      isOpen(one) &&
      !(leavesOut && inTrouble.includes(world.scope.keys[one.event] ?? 0)),
  );
}

/** An older release stops before what it cannot read: the last event. */
function readable(open: readonly Delivery[], who: number, { scope, mistake }: World): readonly Delivery[] {
  if (!scope.hasOldRelease || who !== 0 || mistake === 'newer-version-handed-over') return open;
  const newer = open.findIndex(({ event }) => event === scope.fannedOut - 1);
  return newer === -1 ? open : open.slice(0, newer);
}

/** Where the head may stand, by what the relay knows: `lib/bus/relay/progress.ts`. */
function headOf({ head, positions, ends, keys, newest, isWhole, key }: Run, { scope }: World): number {
  const isShared = scope.keys.length > 0 && key === 0;
  const left = new Set(
    keys.filter(
      (_, place) => ends[place] === 'failed' || (ends[place] === 'dead' && scope.haltsAtDeadLetter),
    ),
  );
  const isPassed = (place: number) =>
    ['delivered', 'committed', 'dead'].includes(ends[place]!) || (isShared && left.has(keys[place]!));
  let place = 0;
  while (place < positions.length && isPassed(place)) place += 1;
  const last = place === 0 ? head : positions[place - 1]!;
  return place < positions.length || !isWhole ? last : Math.max(head, last, newest);
}

/** Records outcomes and lets the lane go, if the relay holds it still: `postbud_settle_3`. */
function settle(state: State, who: number, run: Run, world: World): void {
  const { db } = state;
  const { scope, mistake } = world;
  const lane = laneOf(db, run.home, run.key);
  const isHeld = lane?.token === who + 1;
  if (!lane || (!isHeld && mistake !== 'settle-without-token')) return;
  if (!isHeld) state.usurped = true;
  const to = headOf(run, world);
  const hasMoved = lane.head !== run.head;
  const isShared = scope.keys.length > 0 && run.key === 0;
  let retries = false;
  for (const [place, end] of run.ends.entries()) {
    const position = run.positions[place]!;
    const delivery = db.deliveries.find((one) => one.home === run.home && one.position === position);
    retries ||= end === 'early' || (end === 'failed' && !isShared);
    if (!delivery || !isOpen(delivery) || !['delivered', 'failed', 'dead'].includes(end)) continue;
    delivery.attempts += 1;
    delivery.waits = end === 'failed';
    delivery.state = end === 'delivered' ? 'delivered' : end === 'dead' ? 'dead' : 'failing';
    if (end === 'delivered') state.seen[run.home]![delivery.event]!.times += 1;
    const halts = end === 'dead' && scope.haltsAtDeadLetter;
    if (halts) db.halts.push({ home: run.home, position });
    if (isShared && (end === 'failed' || halts)) leaveTrouble(db, lane, run, delivery, { halts, hasMoved });
  }
  if (!hasMoved) lane.head = to;
  const front = frontOf(db, lane, world);
  lane.tail = Math.max(lane.tail, to);
  lane.carefulTo = Math.max(lane.carefulTo, run.carefulTo);
  lane.token = 0;
  lane.due = 'no';
  const mayLetGo =
    run.key > 0 &&
    !retries &&
    haltsOf(db, lane, world).length === 0 &&
    (!db.deliveries.some(
      (one) => inStrand(one, run.home, run.key, world) && one.position > to && isOpen(one),
    ) ||
      (mistake === 'lane-of-key-deleted-too-early' && run.head !== to));
  if (hasMoved) lane.due = 'now';
  else if (mayLetGo) lane.due = 'no';
  else if (front !== null && to >= front) lane.due = 'at its front';
  else if (retries) lane.due = 'later';
  else lane.due = run.key > 0 || lane.tail > to ? 'now' : 'no';
  // The key is through.
  if (run.key > 0 && lane.due === 'no') db.lanes = db.lanes.filter((other) => other !== lane);
}

/** Gives a key that has to wait a lane of its own. */
function leaveTrouble(
  db: Tables,
  home: Lane,
  run: Run,
  { event, position }: Delivery,
  { halts, hasMoved }: { readonly halts: boolean; readonly hasMoved: boolean },
): void {
  const key = run.keys[run.events.indexOf(event)]!;
  const head = hasMoved ? Math.min(position - 1, home.head) : halts ? position : position - 1;
  const due = hasMoved ? 'now' : halts ? 'at its front' : 'later';
  const known = laneOf(db, home.home, key);
  const carefulTo = Math.max(home.carefulTo, run.carefulTo, known?.carefulTo ?? 0);
  if (known) Object.assign(known, { head: Math.min(known.head, head), due, carefulTo });
  else {
    db.lanes.push({ home: home.home, key, head, tail: position, carefulTo, token: 0, due });
    db.lanes.sort((one, other) => one.home - other.home || one.key - other.key);
  }
}

/** Settles a transactional handler's deliveries in its own transaction, and keeps the lane. @returns whether it holds it. */
export function settleAlone(
  state: State,
  who: number,
  run: Run,
  places: readonly number[],
  world: World,
): boolean {
  const { db } = state;
  const lane = laneOf(db, run.home, run.key);
  if (lane?.token !== who + 1) return false;
  for (const place of places) {
    const delivery = db.deliveries.find(
      (one) => one.home === run.home && one.position === run.positions[place] && isOpen(one),
    );
    if (!delivery) return false;
    Object.assign(delivery, { state: 'delivered', attempts: delivery.attempts + 1, waits: false });
    run.ends[place] = 'committed';
    const seen = state.seen[run.home]![delivery.event]!;
    seen.times += 1;
    seen.effects += 1;
  }
  const to = headOf(run, world);
  if (lane.head === run.head) lane.head = run.head = to;
  state.disk = null;
  return true;
}

/** The mistake's: settles a failure in the transaction that failed, and lets the lane go. */
export function settleFailure({ db }: State, run: Run, place: number): void {
  const { home, key, positions, ends } = run;
  const lane = laneOf(db, home, key)!;
  const delivery = db.deliveries.find((one) => one.home === home && one.position === positions[place])!;
  const isDead = ends[place] === 'dead';
  Object.assign(delivery, {
    state: isDead ? 'dead' : 'failing',
    attempts: delivery.attempts + 1,
    waits: !isDead,
  });
  if (isDead) lane.head = delivery.position;
  Object.assign(lane, { token: 0, due: isDead ? 'now' : 'later' });
  Object.assign(run, { ends: ends.map(() => ''), isDone: true, isOver: true });
}
