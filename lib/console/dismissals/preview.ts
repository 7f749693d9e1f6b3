import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { msOf } from '../../platform/time.ts';
import { earlier, readEarlier } from '../kit/earlier.ts';
import { asForm } from '../kit/form-request.ts';
import * as shape from '../kit/shapes.ts';
import { findDeadLetters } from './dismiss-matching.ts';
import { dismissRequest } from './request.ts';
import type { ParsedDismissRequest } from './request.ts';

/** A request for a preview from a form or a query. */
export const dismissForm = asForm(dismissRequest);

export const dismissBody = dismissRequest
  .safeExtend({
    reason: shape.requiredReason,
    dryRun: z.boolean().default(false).meta({ description: 'Only counts what would be dismissed.' }),
  })
  .meta(shape.needsReason);

export const dismissPreview = z
  .object({
    generatedAt: shape.instant,
    request: z
      .object(dismissRequest.shape)
      .partial()
      .meta({ description: 'The request to send, with `until` and `expectedCount`.' }),
    matched: shape.count,
    others: shape.count.meta({ description: 'Dead letters that do not match. They stay as they are.' }),
    earlier: earlier.nullable().meta({ description: 'If nothing matches: who was first, and where.' }),
    subscriptions: z.array(
      z
        .object({
          topic: shape.topic,
          subscriber: z.string(),
          count: shape.count,
          skipped: shape.count.meta({ description: 'How many of them an operator skipped.' }),
          others: shape.count.meta({ description: 'Its other dead letters. They stay as they are.' }),
          halting: shape.count.meta({ description: 'Lanes that these dead letters halt, which go on.' }),
          firstAt: shape.instant,
          lastAt: shape.instant,
        })
        .meta({ id: 'DismissedOfSubscription' }),
    ),
  })
  .meta({ id: 'DismissPreview', description: 'The effect of a dismissal. Nothing was dismissed.' });
export type DismissPreview = z.output<typeof dismissPreview>;

/** The same from a refused form, for the preview that is drawn again. */
export const dismissDryRun = asForm(dismissBody.safeExtend({ reason: z.string().default('') }));

/** Previews a dismissal: how many dead letters of which subscriptions, and what stays as it is. Changes nothing. */
export async function previewDismissal(db: Database, asked: ParsedDismissRequest): Promise<DismissPreview> {
  const { since: _, until: end, ...found } = await findDeadLetters(db, asked);
  // What dies after the preview is not dismissed.
  const until = asked.until === undefined || msOf(asked.until) > 0 ? end : asked.until;
  return {
    ...found,
    subscriptions: [...found.subscriptions],
    earlier: found.matched === 0 ? await readEarlier(db, asked) : null,
    request: { ...asked, until, expectedCount: found.matched },
  };
}
