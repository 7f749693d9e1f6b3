import * as z from 'zod';

import { say, strong, toMinute } from './document.ts';
import type { Phrase } from './document.ts';
import { field, instant, shapesOf } from './fields.ts';
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
export function pauseSentence({ subscriber, ...made }: PauseOf, now: string): Phrase {
  const on = made.topic === null ? 'all its topics' : made.topic;
  return say`${strong(`${subscriber} is paused for ${on}`)} ${pauseClause(made, now)}`;
}

/** By whom, since when and why: `by kari since 10:02: the ledger is being moved`. */
export function pauseClause({ pausedBy, pausedAt, reason }: Pause, now: string): Phrase {
  return say`by ${pausedBy} since ${toMinute(pausedAt, now)}: ${reason}`;
}
