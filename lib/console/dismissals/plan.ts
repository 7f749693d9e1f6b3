import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { msOf } from '../../platform/time.ts';
import { countColumn, mono, say, spanPhrase, subscriberPhrase } from '../kit/document.ts';
import { earlier, readEarlier } from '../kit/earlier.ts';
import { earlierPhrase } from '../kit/earlier-words.ts';
import { ALL_TIME, deadLettersPath } from '../kit/links.ts';
import type { Plan } from '../kit/plan.ts';
import * as shape from '../kit/shapes.ts';
import { count, groupWords, quantity } from '../kit/words.ts';
import { findDeadLetters } from './dismiss-matching.ts';
import { dismissRequest } from './request.ts';
import type { ParsedDismissRequest } from './request.ts';

const ofSubscription = z
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
  .meta({ id: 'DismissedOfSubscription' });

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
    subscriptions: z.array(ofSubscription),
  })
  .meta({ id: 'DismissPreview', description: 'The effect of a dismissal. Nothing was dismissed.' });
export type DismissPreview = z.output<typeof dismissPreview>;

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

/** Says what a dismissal would do. */
export function dismissPlan(view: DismissPreview): Plan {
  const { matched, request, subscriptions, earlier: first, generatedAt: now } = view;
  const { topic, subscriber, group, since, q } = request;
  const halted = subscriptions.reduce((sum, { halting }) => sum + halting, 0);
  const cancel = deadLettersPath({ topic, subscriber, group, q, since: since === ALL_TIME ? null : since });
  const firstAt = subscriptions.map((one) => one.firstAt).toSorted()[0];
  const lastAt = subscriptions
    .map((one) => one.lastAt)
    .toSorted()
    .at(-1);
  return {
    what: quantity(matched, 'dead letter'),
    matched,
    lead: 'Nothing has been dismissed yet. This is what the dismissal would do.',
    warnings: [
      halted > 0 && [
        `${quantity(halted, 'halted lane')} ${halted === 1 ? 'goes' : 'go'} on.`,
        'Deliveries that waited behind these dead letters are delivered.',
      ],
    ],
    facts: [
      q !== undefined && ['Error contains', mono(q)],
      group !== undefined && ['Only', groupWords(group)],
      firstAt !== undefined && lastAt !== undefined && ['Dead-lettered', spanPhrase(firstAt, lastAt, now)],
      ['Not touched', untouchedWords(view)],
      ['How', 'They leave all counts, and can still be replayed until their events are pruned'],
    ],
    list: {
      name: 'Dismissed',
      columns: [
        countColumn('Dead letters', (one) => one.count),
        {
          label: 'Topic',
          isRowHeader: true,
          terminal: { isCut: true },
          cell: (one) => mono(one.topic),
        },
        {
          label: 'Subscriber',
          cell: ({ subscriber: to, topic: of, skipped }) =>
            say`${subscriberPhrase(to, of)}${skipped > 0 && ` (${count(skipped)} skipped)`}`,
        },
      ],
      rows: subscriptions,
    },
    request,
    cancel,
    nothing: matched === 0 && {
      title: 'Nothing to dismiss',
      text: ['No dead letter matches any more.', first && earlierPhrase(first, now)],
      action: [cancel, 'Dead letters'],
    },
  };
}

function untouchedWords({ others, subscriptions }: DismissPreview): string {
  const ofThese = subscriptions.reduce((sum, one) => sum + one.others, 0);
  const these = subscriptions.length === 1 ? 'this subscription' : 'these subscriptions';
  const dead =
    others === 0
      ? 'No other dead letters'
      : `${quantity(others, 'other dead letter')}, ${count(ofThese)} of ${these}`;
  return `${dead}; deliveries that wait or are retried; what dies from now on`;
}
