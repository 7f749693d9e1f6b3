import { findClaim, lease, letGo, settle } from './lane.ts';
import type { Claim } from './lane.ts';
import { abandon, beginToPlace, hasMarkers } from './placing.ts';
import { begin, handable, hasNews, isDone, isIdle, mayGoOn, recordLapse, take } from './progress.ts';
import { encode, tokensOf } from './state.ts';
import type { Relay, Run, State } from './state.ts';
import type { Step, StepName } from './steps.ts';
import { keepDisk, mayHappen, spend } from './world.ts';
import type { World } from './world.ts';

/** What a relay may do next between its turns, and at the end of one. */
export function* turnSteps(state: State, who: number, world: World): Generator<Step> {
  const { phase, run, lost, isRepeating } = state.relays[who]!;
  const step = (name: StepName) => ({ name, who, what: 0 });
  if (phase === 'finish') {
    yield step('finish');
    if (mayHappen(state, 'lose')) yield* [step('answer lost'), step('turn fails')];
  }
  if (phase !== 'idle') return;
  if (lost > 0) yield step('release lost');
  else if (isRepeating || hasWork(state, who, world)) yield step('look');
  else if (hasMarkers(state, who, true)) yield step('look at all');
  if (lost > 0 || !run || run.outcome || isRepeating) return;
  const isRunning = run.hand.some((one) => one.state === 'running' && !one.isHeld);
  // Of a transaction nothing is settled but by itself.
  const maySettle = !world.scope.isTransactional && (isRunning || (hasNews(run, world) && !isDone(run)));
  if (maySettle && mayHappen(state, 'long')) yield step('look partially');
}

/** Whether a turn would change anything. One that would not is left out. */
function hasWork(state: State, who: number, world: World): boolean {
  const { run } = state.relays[who]!;
  if (hasMarkers(state, who, false) || run?.outcome) return true;
  if (run && (isDone(run) || settlesNews(run, world))) return true;
  return claimOf(state, run, false, world) !== null;
}

/** Whether a run that may go on has to be settled first. */
function settlesNews(run: Run, world: World): boolean {
  return isIdle(run) && hasNews(run, world) && world.mistake !== 'continued-with-news';
}

/** @param run that the relay has in hand. */
function claimOf({ db }: State, run: Run | null, isRepeating: boolean, world: World): Claim | null {
  if (!world.scope.handsOver || isRepeating) return null;
  if (!run) return findClaim(db, false, world);
  const isHeld = run.token === db.lane.token && db.lane.isLeased;
  return isHeld && mayGoOn(run, world) ? findClaim(db, true, world) : null;
}

export function takeTurnStep(state: State, name: StepName, who: number, world: World): void {
  const relay = state.relays[who]!;
  switch (name) {
    case 'look':
    case 'look at all':
    case 'look partially':
      look(state, who, name, world);
      break;
    case 'finish':
      finish(state, who, world, true);
      break;
    case 'answer lost':
      spend(state, 'lose');
      finish(state, who, world, false);
      break;
    case 'turn fails':
      spend(state, 'lose');
      noteFailure(relay, world);
      abandon(state, who);
      break;
    default:
      releaseLost(state, relay);
  }
}

function look(state: State, who: number, name: StepName, world: World): void {
  const relay = state.relays[who]!;
  if (relay.run?.isRepeated && relay.run.isOver) Object.assign(relay, { run: null, isRepeating: false });
  const { run } = relay;
  if (name === 'look partially') spend(state, 'long');
  if (run && !run.outcome) {
    if (isDone(run)) run.outcome = take(run, true, world);
    else if (name === 'look partially' || settlesNews(run, world)) run.outcome = take(run, false, world);
  }
  const isWhole = name === 'look at all';
  if (relay.isRepeating || !hasMarkers(state, who, isWhole)) relay.phase = 'finish';
  else beginToPlace(state, who, isWhole, world);
}

/** Ends a turn in one step: nobody sees what is between its locks on lanes and its commit, or changes what it reads. */
function finish(state: State, who: number, world: World, isAnswered: boolean): void {
  const relay = state.relays[who]!;
  keepDisk(state);
  const { placed, nextBound } = relay;
  for (const { event } of placed) {
    state.db.markers = state.db.markers.filter((marker) => marker.event !== event);
    state.db.log.push(event);
  }
  const { run } = relay;
  const outcome = run?.outcome ?? null;
  const settled = run && outcome ? settle(state, run, outcome, world) : null;
  if (run && outcome && settled && isAnswered) {
    if (settled === 'lost' || !outcome.isKept) relay.run = null;
    else {
      run.number = outcome.number + (outcome.isDoubtful ? 2 : 1);
      run.isDoubtful = false;
      // How long the lease is, only a settlement says that was not made before.
      if (settled === 'repeated' && world.mistake === 'lease-longer-by-a-repetition')
        run.isOver = run.isExcused = false;
    }
    run.outcome = null;
    run.isRepeated = false;
  }
  // Where it lets its lane go, the same turn may claim that again.
  const goesOn = outcome !== null && outcome.isKept && settled !== 'lost';
  const claim = goesOn ? null : claimOf(state, outcome ? null : run, relay.isRepeating, world);
  if (claim) {
    // Its relay would forget what became of these.
    if (
      claim.isContinued &&
      relay.run!.hand.some((one) => !one.isException && claim.positions.includes(one.position))
    )
      state.broken = 'survival';
    // A lane that goes on keeps its token.
    const token = claim.isContinued ? state.db.lane.token : Math.max(...tokensOf(state)) + 1;
    const { claimedTo } = state.db.lane;
    lease(state, claim, token, world);
    if (!isAnswered) relay.lost = claim.isContinued ? 0 : token;
    else {
      relay.run = begin(state, claim, claim.isContinued ? relay.run : null, world);
      if (claim.isLapsed) recordLapse(state, relay.run, claimedTo, world);
    }
  }
  if (isAnswered) {
    relay.isRepeating = false;
    if (nextBound > 0) relay.memory = { life: state.life, bound: nextBound };
  } else noteFailure(relay, world);
  if (state.disk && encode(state.disk) === encode(state.db)) state.disk = null;
  abandon(state, who);
}

/**
 * It is unknown whether a turn has settled its outcomes: the next one sends them again, and does nothing else. And whether it has
 * gone on with a lane.
 */
export function noteFailure(relay: Relay, world: World): void {
  const { run } = relay;
  relay.isRepeating = run !== null && run.outcome !== null;
  if (run?.outcome) run.isRepeated = true;
  else if (run && mayGoOn(run, world)) run.isDoubtful = true;
}

/** Releases the lane of a claim whose answer was lost: `postbud_release_lost_1`. */
function releaseLost({ db }: State, relay: Relay): void {
  const { lane } = db;
  if (lane.token === relay.lost && lane.isLeased) letGo(db, lane.carefulTo);
  relay.lost = 0;
}

/** Whether a relay may still begin something under its claim, or has begun it. */
export function isAtWork({ run }: Relay): boolean {
  return run !== null && (run.hand.some(({ state }) => state === 'running') || handable(run).length > 0);
}
