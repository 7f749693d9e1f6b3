import * as z from 'zod';

import * as shape from './shapes.ts';
import { NO_NAMES, operatorText, say, strong, when } from './document.ts';
import type { OperatorNames, Phrase } from './document.ts';
import { field, instant, shapesOf } from './fields.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { statusOf } from './states.ts';

/** Of a row of `pauses`. */
export const pauseFields = {
  topic: field(shape.topic.nullable(), "nullif(topic, '')", 'Null: all topics of the subscriber.'),
  pausedAt: instant('paused_at'),
  pausedBy: field(z.string(), 'paused_by'),
  reason: field(z.string(), 'reason'),
};

export const pause = z.object(shapesOf(pauseFields)).meta({ id: 'Pause' });
export type Pause = z.output<typeof pause>;

/** Whose pause it is. */
export type PauseOf = Pause & { readonly subscriber: string };

/** Says what is paused, by whom, since when and why. */
export function pauseSentence(
  { subscriber, ...made }: PauseOf,
  now: string,
  names: OperatorNames = NO_NAMES,
): Phrase {
  const on = made.topic === null ? 'all its topics' : made.topic;
  return say`${strong(`${subscriber} is paused for ${on}`)} ${pauseClause(made, now, names)}`;
}

/** By whom, since when and why: `by kari since 10:02: the ledger is being moved`. */
export function pauseClause(
  { pausedBy, pausedAt, reason }: Pause,
  now: string,
  names: OperatorNames,
): Phrase {
  return say`by ${operatorText(pausedBy, names)} since ${when(pausedAt, now)}: ${reason}`;
}

/** Of a row of `outages`. The message of its error is not shown: it may hold personal data of any event. */
export const outageFields = {
  kind: field(
    z.string().describe('The kind of error that opened it: `unreachable`, `http_503`.'),
    'outages.kind',
  ),
  since: instant('outages.opened_at'),
  probes: field(shape.count.describe('Probes without an answer.'), 'outages.probes'),
  nextProbeAt: instant('outages.next_probe_at', 'When the next delivery probes. Retry one to probe now.'),
};

/** An outage that is not over. */
export const outage = z.object(shapesOf(outageFields)).meta({
  id: 'Outage',
  description:
    'A subscriber does not answer. Its deliveries wait without using up attempts; one at a time probes.',
});
export type Outage = z.output<typeof outage>;

/** The attached subscriptions that do not wait while their subscriber does not answer, as `topic subscriber`. */
export function heedlessOf(attached: readonly AttachedSubscriber[]): ReadonlySet<string> {
  return new Set(
    attached
      .filter((one) => one.outage === 'off')
      .flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
}

/** Says how a subscriber that is not there has failed, before a time since when: `has answered 503`. */
export function silenceWords(kind: string): string {
  const status = statusOf(kind);
  if (status !== null) return `has answered ${status}`;
  if (/timeout/i.test(kind)) return 'has not answered in time';
  return kind === 'unreachable' ? 'has been unreachable' : `has failed with ${kind}`;
}
