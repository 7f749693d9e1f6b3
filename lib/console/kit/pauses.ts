import * as z from 'zod';

import { say, strong, toMinute } from './document.ts';
import type { Phrase } from './document.ts';
import { field, instant, shapesOf } from './fields.ts';
import { NO_NAMES, operatorText } from './operator-names.ts';
import type { OperatorNames } from './operator-names.ts';
import * as shape from './shapes.ts';

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
  return say`by ${operatorText(pausedBy, names)} since ${toMinute(pausedAt, now)}: ${reason}`;
}
