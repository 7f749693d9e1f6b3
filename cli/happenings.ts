import type { DeadLetterItem } from '../lib/console/dead-letters/fields.ts';
import type { Counts } from '../lib/console/kit/shapes.ts';
import type { HeldLane } from '../lib/console/held-lanes/held-lane.ts';
import type { Overview } from '../lib/console/overview/read.ts';
import type { Tail, TailItem } from '../lib/console/tail/read.ts';
import { HOUR, SECOND } from '../lib/platform/time.ts';

/** A change of the bus between two looks at it. `at` is by the database's clock. */
export type Happening = { readonly at: string } & (
  | ({ readonly type: 'counts'; readonly deliveriesPerSecond: number } & Counts)
  | { readonly type: 'relay'; readonly state: Overview['relay']['state'] }
  | { readonly type: 'held_back' | 'no_longer_held_back'; readonly topic: string }
  | { readonly type: 'paused' | 'resumed'; readonly topic: string; readonly subscriber: string }
  | ({ readonly type: 'failing_lane' } & HeldLane)
  | ({ readonly type: 'flowing_lane'; readonly topic: string } & Pick<HeldLane, 'subscriber' | 'orderingKey'>)
  | ({ readonly type: 'dead_letter' } & DeadLetterItem)
  | ({ readonly type: 'outcome' } & TailItem)
  /** There were more outcomes since the last look than those that follow. */
  | { readonly type: 'more_outcomes' }
);

/** Compares two overviews: counts, the relay, pauses, and topics that a transaction holds back. */
export function changesBetween(before: Overview, after: Overview): readonly Happening[] {
  const at = after.generatedAt;
  const old = new Map(before.topics.map((topic) => [topic.topic, topic]));
  const ofTopics = after.topics.flatMap((topic): Happening[] => {
    const was = old.get(topic.topic);
    const wasPaused = new Set(
      was?.subscribers.filter(({ paused }) => paused).map(({ subscriber }) => subscriber),
    );
    const isHeld = topic.heldBackSince !== null;
    const wasHeld = was !== undefined && was.heldBackSince !== null;
    return [
      ...(isHeld === wasHeld
        ? []
        : [{ at, type: isHeld ? 'held_back' : 'no_longer_held_back', topic: topic.topic } as const]),
      ...topic.subscribers
        .filter(({ subscriber, paused }) => paused !== wasPaused.has(subscriber))
        .map(({ subscriber, paused }): Happening => {
          return { at, type: paused ? 'paused' : 'resumed', topic: topic.topic, subscriber };
        }),
    ];
  });
  const isRelayChanged = before.relay.state !== after.relay.state;
  return [
    ...(isRelayChanged ? [{ at, type: 'relay', state: after.relay.state } as const] : []),
    ...ofTopics,
    ...countsBetween(before, after),
  ];
}

/** @returns nothing where nothing has changed. */
function countsBetween(before: Overview, after: Overview): readonly Happening[] {
  const seconds = Math.max(1, Date.parse(after.generatedAt) - Date.parse(before.generatedAt)) / SECOND;
  const delivered = grown(before, after, 'delivered');
  const isSame = (['pending', 'failing', 'deadLettered'] as const).every(
    (name) => before.totals[name] === after.totals[name],
  );
  return isSame && delivered === 0 ? [] : [countsOf(after, delivered / seconds)];
}

export function countsOf({ generatedAt: at, totals }: Overview, perSecond: number): Happening {
  const { pending, failing, deadLettered } = totals;
  const deliveriesPerSecond = Math.round(perSecond * 10) / 10;
  return { at, type: 'counts', pending, failing, deadLettered, deliveriesPerSecond };
}

/** Counts new deliveries or dead letters from the hourly counts of 24 hours, whose oldest hours fall away. */
export function grown(before: Overview, after: Overview, what: keyof Overview['hours']): number {
  const hourOf = ({ generatedAt }: Overview) => Math.floor(Date.parse(generatedAt) / HOUR);
  const stillCounted = before.hours[what].slice(hourOf(after) - hourOf(before));
  // The first number also has a part of an hour, which becomes shorter with each minute.
  const first = stillCounted.length > 0 ? 1 : 0;
  return Math.max(0, sum(after.hours[what].slice(first)) - sum(stillCounted.slice(first)));
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** Tells new dead letters from known ones. A dead letter that was replayed and failed again is new. */
export class DeadLettersSeen {
  readonly #seen = new Set<string>();
  /** All older dead letters are known, even unlisted ones. */
  #floor = '';

  /** @param items the newest ones. @param isAll there are no others. */
  constructor(items: readonly DeadLetterItem[], isAll: boolean) {
    if (!isAll) this.#floor = items.at(-1)?.deadLetteredAt ?? '';
    for (const item of items) this.#seen.add(keyOf(item));
  }

  isNew(item: DeadLetterItem): boolean {
    return item.deadLetteredAt >= this.#floor && !this.#seen.has(keyOf(item));
  }

  add(item: DeadLetterItem): void {
    this.#seen.add(keyOf(item));
  }
}

const keyOf = ({ deliveryId, deadLetteredAt }: DeadLetterItem) => `${deliveryId} ${deadLetteredAt}`;

/** Tells new outcomes from known ones. A delivery that is tried again has a new one. */
export class OutcomesSeen {
  /** Since the floor: a lane that a replay makes due is not listed, and then waits for the same retry as before. */
  #seen: ReadonlySet<string> | null = null;
  /** All older outcomes are known, even unlisted ones. */
  #floor = '';

  /** @param first how many of those that there are at the first look are new. */
  update({ generatedAt: at, items, filters: { limit } }: Tail, first: number): readonly Happening[] {
    const known = this.#seen;
    const fresh = items.filter((item) => item.at >= this.#floor && known?.has(outcomeKey(item)) !== true);
    const oldest = items.length === limit ? items.at(-1)!.at : '';
    if (oldest > this.#floor) this.#floor = oldest;
    const all = [...(known ?? []), ...items.map(outcomeKey)];
    this.#seen = new Set(all.filter((key) => key >= this.#floor));
    const shown = known === null ? fresh.slice(0, first) : fresh;
    const isMore = known !== null && fresh.length === limit;
    return [
      ...(isMore ? [{ at, type: 'more_outcomes' } as const] : []),
      ...shown.toReversed().map((item): Happening => ({ type: 'outcome', ...item })),
    ];
  }
}

const outcomeKey = ({ deliveryId, at }: TailItem) => `${at} ${deliveryId}`;

/** Remembers the lanes that wait for a retry. */
export class HeldLanesSeen {
  readonly #lanes = new Map<string, { readonly topic: string; readonly lane: HeldLane }>();

  /** @param held the topic's lanes that wait now. @param view the overview of the same moment. */
  update(topic: string, held: readonly HeldLane[], view: Overview): readonly Happening[] {
    const at = view.generatedAt;
    const happened: Happening[] = [];
    for (const lane of held) {
      const key = laneKey(topic, lane);
      const known = this.#lanes.get(key)?.lane;
      if (lane.deliveryId === known?.deliveryId && lane.attempts === known.attempts) continue;
      this.#lanes.set(key, { topic, lane });
      if (lane.lastError) happened.push({ at, type: 'failing_lane', ...lane });
    }
    const isHeld = new Set(held.map((lane) => laneKey(topic, lane)));
    for (const { subscriber, failing } of view.topics.find((one) => one.topic === topic)?.subscribers ?? []) {
      const known = [...this.#lanes].filter(
        ([, one]) => one.topic === topic && one.lane.subscriber === subscriber,
      );
      // A lane whose attempt is running is not listed, but is still failing.
      if (known.length <= failing) continue;
      for (const [key, { lane }] of known) {
        if (isHeld.has(key)) continue;
        this.#lanes.delete(key);
        happened.push({ at, type: 'flowing_lane', topic, subscriber, orderingKey: lane.orderingKey });
      }
    }
    return happened;
  }
}

const laneKey = (topic: string, { subscriber, orderingKey }: HeldLane) =>
  `${topic} ${subscriber} ${orderingKey}`;

/** Tells whether a topic's failures have changed, so that its lanes must be read again. */
export function haveFailuresChanged(before: Overview | null, after: Overview, topic: string): boolean {
  return failuresOf(before, topic) !== failuresOf(after, topic);
}

function failuresOf(view: Overview | null, topic: string): string {
  const subscribers = view?.topics.find((one) => one.topic === topic)?.subscribers ?? [];
  const failures = subscribers.filter(({ failing }) => failing > 0);
  return failures
    .map((one) => [one.subscriber, one.failing, one.nextRetryAt, one.lastFailedAt].join(' '))
    .join('\n');
}
