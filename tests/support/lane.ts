import type { ClaimedDelivery, ClaimedLane } from '../../lib/bus/deliveries/claim.ts';
import type { LaneOutcome, UnfinishedAttempt } from '../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { LaneRun } from '../../lib/bus/relay/lane-run.ts';
import { RelayTime } from '../../lib/bus/relay/relay-time.ts';
import type { Clocks, RunOptions } from '../../lib/bus/relay/run-state.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';

/** The key of a delivery of a lane, or its key with other fields than the default. */
export type Laid = string | (Partial<ClaimedDelivery> & { readonly key: string; readonly version?: number });

/** A claimed lane without a database, its head at 0, with deliveries of these keys. */
export function laneOf(
  subscriber: AttachedSubscriber,
  laid: readonly Laid[],
  lane: Partial<ClaimedLane> = {},
): ClaimedLane {
  const [subscription] = subscriptionsOf([subscriber]).values();
  return {
    lane: 1,
    number: 1,
    token: '00000000-0000-4000-8000-000000000000',
    stream: 1,
    subscription: subscription!,
    isKeyed: true,
    handlers: 64,
    head: 0,
    deliveries: deliveriesAt(1, laid),
    openKeys: new Set(),
    isContinued: false,
    lapsedAtMs: null,
    claimedTo: laid.length,
    ...lane,
  };
}

function deliveriesAt(first: number, laid: readonly Laid[]): ClaimedDelivery[] {
  return laid.map((one, index) => {
    const { key, version = 1, ...more } = typeof one === 'string' ? { key: one } : one;
    const position = first + index;
    const event = {
      id: `event ${position}`,
      orderingKey: key,
      version,
      payload: {},
      createdAt: new Date(0),
    } as BusEvent;
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
      ...more,
    };
  });
}

/** Makes the outcome of a claimed lane, which is let go. Without `more`, nothing of it was handed over. */
export const outcomeOf = (
  { lane, number, token, head }: Pick<LaneOutcome, 'lane' | 'number' | 'token' | 'head'>,
  more: Partial<LaneOutcome> = {},
): LaneOutcome => ({
  lane,
  number,
  token,
  head,
  first: null,
  delivered: [],
  exceptional: [],
  keepMs: null,
  nextClaimed: null,
  carefulTo: null,
  isDoubtful: false,
  ...more,
});

/** Makes the options of a run without a database and without a time limit. */
export const options = (more: Partial<RunOptions> = {}): RunOptions => ({
  db: undefined as unknown as Database,
  time: new RelayTime({ until: Infinity }),
  countCommitted: () => undefined,
  owe: () => undefined,
  isOver: () => false,
  ...more,
});

/** Clocks that a test sets. @param now epoch milliseconds. */
export const clocksAt = (now: () => number): Clocks => ({ clock: now, leaseClock: now });

/** Runs a lane to its end. @returns its outcome; null when the lane was lost. */
export async function runLane(
  lane: ClaimedLane,
  more?: Partial<RunOptions>,
  nowMs = 0,
): Promise<LaneOutcome | null> {
  const run = new LaneRun(
    lane,
    nowMs,
    clocksAt(() => nowMs),
    options(more),
  );
  await run.pauses();
  return run.yieldOutcome(false);
}

/** The positions that an outcome says were delivered, in order. */
export const deliveredIn = ({ delivered, exceptional }: LaneOutcome): number[] =>
  [...delivered, ...exceptional.filter(({ kind }) => kind === 'delivered')]
    .flatMap((one) => (one === null ? [] : [one.position]))
    .toSorted((one, other) => one - other);

/** The attempts of an outcome that did not deliver. */
export const unfinishedIn = ({ exceptional }: LaneOutcome): UnfinishedAttempt[] =>
  exceptional.flatMap(({ attempt }) => (attempt && 'outcome' in attempt ? [attempt] : []));

/** The positions that an outcome turns into exceptions which wait behind another one of their key. */
export const parkedIn = ({ exceptional }: LaneOutcome): number[] =>
  exceptional.flatMap(({ kind, position }) => (kind === 'parked' ? [position] : []));
