import type { ClaimedDelivery, ClaimedLane } from '../../lib/bus/deliveries/claim.ts';
import type { LaneOutcome } from '../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../lib/bus/deliveries/subscription.ts';
import { LaneRun } from '../../lib/bus/relay/lane-run.ts';
import { RelayTime } from '../../lib/bus/relay/relay-time.ts';
import type { RunOptions } from '../../lib/bus/relay/run-state.ts';
import { Absences } from '../../lib/bus/relay/presence.ts';
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
    id: '1',
    home: '1',
    isShared: true,
    token: '00000000-0000-4000-8000-000000000000',
    subscription: subscription!,
    head: 0,
    newest: laid.length,
    lapsedAtMs: null,
    lapsedVersion: null,
    isWhole: true,
    leavesOut: false,
    lacksEvent: false,
    isProbe: false,
    unreadable: [],
    deliveries: deliveriesAt(1, laid),
    ...lane,
  };
}

export function deliveriesAt(first: number, laid: readonly Laid[]): ClaimedDelivery[] {
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

/** Makes the outcome of a claimed lane. Without `more`, nothing of it was handed over. */
export const outcomeOf = (
  lane: Pick<LaneOutcome, 'id' | 'token'>,
  more: Partial<LaneOutcome> = {},
): LaneOutcome => ({
  home: lane.id,
  from: 0,
  to: 0,
  retryAtMs: null,
  keepUntilMs: null,
  carefulTo: null,
  neededVersion: null,
  waits: false,
  delivered: [],
  unfinished: [],
  leaving: [],
  ...lane,
  ...more,
});

/** Makes the options of a run without a database and without a time limit. */
export const options = (more: Partial<RunOptions> = {}): RunOptions => ({
  db: undefined as unknown as Database,
  time: new RelayTime({ until: Infinity }),
  countCommitted: () => undefined,
  clock: () => 0,
  leaseClock: () => 0,
  isOver: () => false,
  absences: new Absences(),
  ...more,
});

/** Runs a lane to its end. @returns its outcome; null when the lane was lost. */
export async function runLane(lane: ClaimedLane, more?: Partial<RunOptions>): Promise<LaneOutcome | null> {
  const given = options(more);
  const run = new LaneRun(lane, given.leaseClock(), given);
  run.start();
  await run.pauses();
  return run.yieldOutcome(false);
}

export const positionsOf = (attempts: readonly { readonly position: number }[]) =>
  attempts.map(({ position }) => position).toSorted((one, other) => one - other);
