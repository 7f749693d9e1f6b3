import type { Claim } from './lane.ts';
import type { Exceptional, InHand, Outcome, Run, State } from './state.ts';
import { keyOfEvent } from './world.ts';
import type { World } from './world.ts';

/** Takes a claim into a relay's hands: `lib/bus/relay/lane-run.ts`. @param known the run that goes on. */
export function begin({ db }: State, claim: Claim, known: Run | null, world: World): Run {
  const running = known ? known.hand.filter(({ state }) => state === 'running') : [];
  const blocked = running.map(({ key }) => key);
  const inHand = (position: number, more: Partial<InHand>): InHand => ({
    position,
    event: db.log[position - 1]!,
    key: keyOfEvent(db.log[position - 1]!, world),
    isException: false,
    state: 'open',
    isHeld: false,
    isBarred: false,
    attempts: 0,
    replays: 0,
    ...more,
  });
  const exceptions = claim.exceptions
    .map(({ position, attempts, replays, waits, state }) =>
      inHand(position, { isException: true, attempts, replays, isBarred: waits || state === 'dead' }),
    )
    // A replay may have made due what stands behind a running one.
    .filter(({ key }) => !blocked.includes(key) || world.mistake === 'continued-beside-a-running-one');
  return {
    token: db.lane.token,
    number: db.lane.number,
    head: db.lane.head,
    hand: [...running, ...exceptions, ...claim.positions.map((position) => inHand(position, {}))],
    blocked: world.mistake === 'continued-beside-a-running-one' ? [] : blocked,
    openKeys: [...claim.openKeys],
    exceptional: known?.exceptional ?? [],
    carefulTo: 0,
    isCut: false,
    isOver: false,
    isExcused: false,
    isDoubtful: false,
    isOfBackfill: db.backfill !== 'none',
    outcome: null,
    isRepeated: false,
  };
}

/** Charges the first delivery that the relay before this one may have begun. */
export function recordLapse(state: State, run: Run, claimedTo: number, world: World): void {
  const [first] = run.hand;
  if (!first || first.isBarred) return;
  run.carefulTo = claimedTo;
  state.seen[first.event]!.blamed += 1;
  fail(state, run, first, world);
}

/** The deliveries whose handlers may be called now: the first of each key that none is called for. */
export function handable({ hand, blocked, openKeys, isCut, isOver }: Run): InHand[] {
  if (isCut || isOver) return [];
  // The keys of those that are held are blocked.
  const busy = new Set(
    hand.filter(({ state, isHeld }) => state === 'running' && !isHeld).map(({ key }) => key),
  );
  const found = new Set<number>();
  return hand.filter((one) => {
    if (!mayBegin(one, blocked, openKeys) || found.has(one.key)) return false;
    found.add(one.key);
    return !busy.has(one.key) && !one.isBarred;
  });
}

function mayBegin({ state, key, isException }: InHand, blocked: Run['blocked'], openKeys: Run['openKeys']) {
  return state === 'open' && !blocked.includes(key) && (isException || !openKeys.includes(key));
}

/** Makes the keys wait whose first delivery may not begin. */
function barred({ hand, blocked, openKeys }: Run): number[] {
  const first = new Map<number, InHand>();
  for (const one of hand)
    if (mayBegin(one, blocked, openKeys) && !first.has(one.key)) first.set(one.key, one);
  return [...blocked, ...[...first].filter(([, one]) => one.isBarred).map(([key]) => key)];
}

/** Whether all that it claimed has ended. */
export function isDone(run: Run): boolean {
  return !run.hand.some(({ state }) => state === 'running') && handable(run).length === 0;
}

/** Whether it may go on with a further claim, while handlers run for long. */
export function mayGoOn(run: Run, world: World): boolean {
  const { scope, mistake } = world;
  const { isCut, isOver, isDoubtful, outcome } = run;
  if (scope.keys.length === 0 || isCut || isOver || isDoubtful || outcome) return false;
  // A claim would read again what is not settled.
  return isIdle(run) && (!hasNews(run, world) || mistake === 'continued-with-news');
}

/** Whether handlers run for long, whose deliveries are exceptions, and all else that it claimed has ended. */
export function isIdle(run: Run): boolean {
  const running = run.hand.filter(({ state }) => state === 'running');
  return running.length > 0 && running.every(({ isHeld }) => isHeld) && handable(run).length === 0;
}

/** Whether there is something to settle. */
export function hasNews(run: Run, { scope }: World): boolean {
  const { exceptional, hand, head } = run;
  const next = hand.find(({ isException, position }) => !isException && position > head);
  // Nobody sees how long it has run.
  const isNext = next !== undefined && next.state !== 'running' && mayPass(run, next, scope.keys.length > 0);
  return isNext || exceptional.some((one) => mayStand(one, head));
}

/** No exception stands beyond the head. */
const mayStand = ({ replays, position }: Exceptional, head: number) => replays !== -1 || position <= head;

export function deliver(run: Run, one: InHand): void {
  one.state = 'delivered';
  if (one.isException) note(run, one, 'delivered');
}

/** Records a failed attempt. After the last one the delivery is a dead letter. */
export function fail(state: State, run: Run, one: InHand, { scope }: World, isForGood = false): void {
  const isDead = isForGood || one.attempts + 1 >= scope.maxAttempts;
  note(run, one, isDead ? 'dead' : 'failed');
  one.state = 'recorded';
  if (isDead) state.seen[one.event]!.hasEnded = true;
  if (!isDead || scope.haltsAtDeadLetter) run.blocked = [...run.blocked, one.key];
}

function note(run: Run, { position, isException, replays }: InHand, kind: Exceptional['kind']): void {
  run.exceptional = [...run.exceptional, { position, kind, replays: isException ? replays : -1 }];
}

/** Takes what is recorded, for a turn to settle. @param isWhole whether it lets its lane go; else what runs has run for long. */
export function take(run: Run, isWhole: boolean, world: World): Outcome {
  const isKeyed = world.scope.keys.length > 0;
  run.blocked = barred(run);
  let stands = true;
  const isThrough = isWhole || isIdle(run);
  const recordedTo = isThrough ? run.hand.findLastIndex(({ state }) => state === 'recorded') : -1;
  for (const [index, one] of run.hand.entries()) {
    if (one.isException) {
      if (isKeyed && one.state === 'running' && !one.isHeld) hold(run, one);
      continue;
    }
    stands &&= mayPass(run, one, isKeyed) || index < recordedTo;
    if (!stands) continue;
    if (one.state === 'running') hold(run, one);
    else if (one.state === 'open' || one.state === 'left') park(run, one, world);
    run.head = Math.max(run.head, one.position);
  }
  const ahead = run.hand.filter(
    (one) => one.state === 'running' || one.state === 'left' || mayBegin(one, run.blocked, run.openKeys),
  );
  const { number, head, carefulTo, isDoubtful } = run;
  const exceptional = run.exceptional.filter((one) => mayStand(one, head));
  run.exceptional = run.exceptional.filter((one) => !mayStand(one, head));
  run.carefulTo = 0;
  const first = isWhole || ahead.length === 0 ? 0 : Math.min(...ahead.map(({ position }) => position));
  return { number, head, exceptional, isKept: !isWhole, first, carefulTo, isDoubtful };
}

/** Whether the head may pass a delivery of the log: it has an outcome, runs for long, or waits and gets a row of its own. */
function mayPass(run: Run, one: InHand, isKeyed: boolean): boolean {
  if (one.state === 'delivered' || one.state === 'recorded') return true;
  if (!isKeyed || one.state === 'left') return false;
  return one.state === 'running' || !mayBegin(one, barred(run), run.openKeys);
}

function park(run: Run, one: InHand, { mistake }: World): void {
  if (mistake !== 'parked-key-passed') note(run, one, 'parked');
  one.state = 'recorded';
}

function hold(run: Run, one: InHand): void {
  note(run, one, 'running');
  Object.assign(one, { isException: true, isHeld: true });
  run.blocked = [...run.blocked, one.key];
}
