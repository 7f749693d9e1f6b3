import type { Exception, Lane, Outcome, Run, State, Tables } from './state.ts';
import { keyOfEvent, newException } from './world.ts';
import type { World } from './world.ts';

/** The open exceptions of a key, in order. */
function openOf({ exceptions }: Tables, key: number, world: World): Exception[] {
  return exceptions.filter(({ event, isOpen }) => isOpen && keyOfEvent(event, world) === key);
}

/** Says when a relay has to look at a key: `postbud_make_due_1`. */
export function makeDue(db: Tables, key: number, world: World): void {
  const [first] = openOf(db, key, world);
  if (first && !first.isHeld && isAwaited(first)) first.due = first.waits ? 'later' : 'now';
}

const isAwaited = ({ state }: Exception) => state === 'pending' || state === 'failing';

/** Opens a delivery again, or for the first time, in its place: `postbud_replay_1` and `postbud_backfill_2`. */
export function open(db: Tables, position: number, replays: number, world: World): Exception {
  const event = db.log[position - 1]!;
  let one = db.exceptions.find((other) => other.position === position);
  if (!one) {
    one = newException(position, event);
    db.exceptions.push(one);
    db.exceptions.sort((first, second) => first.position - second.position);
  }
  Object.assign(one, { state: 'pending', isOpen: true, waits: false, attempts: 0, replays });
  if (world.mistake !== 'replay-that-nobody-looks-at') makeDue(db, keyOfEvent(event, world), world);
  return one;
}

/** Whether a relay would find the lane: `postbud_find_due_2`. */
function isDue(db: Tables, { scope, mistake }: World): boolean {
  const { lane } = db;
  if (lane.isLeased) return lane.isOver;
  if (db.exceptions.some(({ due }) => due === 'now')) return true;
  if (db.log.length <= lane.head) return false;
  return (
    scope.keys.length > 0 ||
    mistake === 'claim-beside-an-open-exception' ||
    !db.exceptions.some(({ isOpen }) => isOpen)
  );
}

/** A claim that a turn would make. */
export interface Claim {
  readonly isContinued: boolean;
  readonly isLapsed: boolean;
  readonly exceptions: readonly Exception[];
  readonly positions: readonly number[];
  readonly openKeys: readonly number[];
}

/** Reads what is next in the lane, for a relay that looks for lanes or goes on with its own: `postbud_claim_2`. */
export function findClaim(db: Tables, isContinued: boolean, world: World): Claim | null {
  const { scope, mistake } = world;
  const { lane } = db;
  if (!isContinued && !isDue(db, world)) return null;
  const isLapsed = lane.isLeased && !isContinued;
  const isKeyed = scope.keys.length > 0;
  const asked = lane.carefulTo > 0 ? 1 : scope.maxDeliveries;
  const due = isLapsed
    ? db.exceptions.filter((one) => one.position === lane.first && one.isOpen && isAwaited(one))
    : dueOnes(db, world).slice(0, asked);
  const taken = new Set(due.map(({ position }) => position));
  const beside = db.exceptions.filter(({ isOpen, position }) => isOpen && !taken.has(position));
  let positions = db.log.map((_, index) => index + 1).filter((position) => position > lane.head);
  positions = isLapsed ? positions.filter((position) => position === lane.first) : positions.slice(0, asked);
  const isHeldBack =
    (due.length > 0 && (isLapsed || lane.carefulTo > 0)) ||
    (!isKeyed && !isLapsed && beside.length > 0 && mistake !== 'claim-beside-an-open-exception') ||
    (db.backfill !== 'none' && mistake !== 'live-before-backfilled');
  if (isHeldBack) positions = [];
  if (due.length === 0 && positions.length === 0 && !isLapsed) return null;
  const keysBeside = new Set(beside.map(({ event }) => keyOfEvent(event, world)));
  const keys = new Set(positions.map((position) => keyOfEvent(db.log[position - 1]!, world)));
  const openKeys =
    isKeyed && mistake !== 'key-handed-over-behind-its-exception'
      ? [...keys].filter((key) => keysBeside.has(key)).toSorted((one, other) => one - other)
      : [];
  return { isContinued, isLapsed, exceptions: due, positions, openKeys };
}

/** The exceptions that are due, each with those behind it of its key. */
function dueOnes(db: Tables, world: World): Exception[] {
  const keys = new Set(db.exceptions.map(({ event }) => keyOfEvent(event, world)));
  return [...keys]
    .flatMap((key) => {
      const all = openOf(db, key, world);
      const [first] = all;
      return first?.due === 'now' && !first.waits && !first.isHeld && isAwaited(first) ? all : [];
    })
    .toSorted((one, other) => one.position - other.position);
}

/** Leases the lane. */
export function lease({ db }: State, claim: Claim, token: number, world: World): void {
  const { lane } = db;
  const { isContinued, isLapsed, exceptions, positions } = claim;
  if (isLapsed && world.mistake !== 'held-left-by-the-dead') release(db);
  const all = [...exceptions.map(({ position }) => position), ...positions];
  const first = all.length > 0 ? Math.min(exceptions[0]?.position ?? Infinity, positions[0] ?? Infinity) : 0;
  const keepsClaim = isContinued || isLapsed;
  remember(db);
  db.lane = {
    head: lane.head,
    number: isContinued ? lane.number + 1 : 0,
    token,
    isLeased: true,
    isOver: false,
    first: isContinued && lane.first > 0 ? Math.min(lane.first, first || Infinity) : first,
    claimedTo: Math.max(keepsClaim ? lane.claimedTo : 0, ...all),
    carefulTo: isLapsed || (first > 0 && lane.carefulTo >= first) ? lane.carefulTo : 0,
  };
}

/** What a dead relay had in hand may go on. */
export function release(db: Tables): void {
  for (const one of db.exceptions)
    if (one.isOpen && one.isHeld) Object.assign(one, { isHeld: false, due: one.waits ? 'later' : 'now' });
}

/** Writes a row of the journal that lets the lane go, of a relay that is gone: no settlement of it counts any more. */
export function letGo(db: Tables, carefulTo: number): void {
  remember(db);
  Object.assign(db.lane, {
    token: 0,
    number: 0,
    isLeased: false,
    isOver: false,
    first: 0,
    claimedTo: 0,
    carefulTo,
  });
}

/** The journal's newest row has another one behind it now. */
function remember({ lane: { token, number }, journal }: Tables): void {
  journal.push({ token, number });
}

/** Records an outcome, if its relay holds the lane still: `postbud_settle_4`. */
export function settle(state: State, run: Run, outcome: Outcome, world: World): 'held' | 'repeated' | 'lost' {
  const { db } = state;
  const { lane } = db;
  const { mistake } = world;
  const isOwn = lane.token === run.token;
  const isBehindDoubt = outcome.isDoubtful && lane.number === outcome.number + 1 && lane.isLeased;
  const isNewest = lane.number === outcome.number || isBehindDoubt || mistake === 'settle-without-number';
  const number = outcome.number + (outcome.isDoubtful ? 2 : 1);
  if (!(isOwn && isNewest) && mistake !== 'settle-without-token') {
    const isMade = (row: Pick<Lane, 'token' | 'number'>) => row.token === run.token && row.number === number;
    return isMade(lane) || db.journal.some(isMade) ? 'repeated' : 'lost';
  }
  if (!isOwn) state.broken = 'holder';
  // The statement fails each time, and its relay never gets any further.
  if (new Set(outcome.exceptional.map(({ position }) => position)).size < outcome.exceptional.length)
    state.broken = 'survival';
  const head = lane.head;
  remember(db);
  const kept = outcome.isKept
    ? { isLeased: true, first: outcome.first, claimedTo: lane.claimedTo }
    : { isLeased: false, first: 0, claimedTo: 0 };
  db.lane = {
    head: Math.max(head, outcome.head),
    number,
    token: run.token,
    isOver: false,
    carefulTo: outcome.carefulTo || lane.carefulTo,
    ...kept,
  };
  for (const one of outcome.exceptional) record(db, one, head, world);
  for (const { position, kind } of outcome.exceptional)
    if (kind !== 'running') makeDue(db, keyOfEvent(db.log[position - 1]!, world), world);
  return 'held';
}

/** Writes what did not go well, or did in the end, into the delivery's own row. */
function record(
  db: Tables,
  { position, kind, replays }: Outcome['exceptional'][number],
  head: number,
  { scope, mistake }: World,
): void {
  let one = db.exceptions.find((other) => other.position === position);
  if (one && (!one.isOpen || (replays >= 0 && one.replays !== replays))) return;
  // It was delivered by a commit that was not answered.
  if (!one && position <= head) return;
  if (!one) {
    one = newException(position, db.log[position - 1]!);
    db.exceptions.push(one);
    db.exceptions.sort((first, second) => first.position - second.position);
  }
  if (kind === 'failed') one.state = 'failing';
  else if (kind === 'delivered' || kind === 'dead') one.state = kind;
  const halts = kind === 'dead' && scope.haltsAtDeadLetter && mistake !== 'successor-escapes-a-halt';
  one.isOpen = kind === 'failed' || kind === 'parked' || kind === 'running' || halts;
  one.isHeld = kind === 'running';
  one.due = 'no';
  if (kind !== 'running') one.waits = kind === 'failed';
  if (kind !== 'parked' && kind !== 'running') one.attempts += 1;
}
