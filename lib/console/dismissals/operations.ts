import * as z from 'zod';

import type { Database } from '../../platform/db/database.ts';
import { SECOND } from '../../platform/time.ts';
import { chosenFields, chosenPlan, pageOfChosen, previewOf, unmatchedWarning } from '../kit/chosen.ts';
import { shapesOf } from '../kit/fields.ts';
import { knownIn } from '../kit/known-names.ts';
import { dismissPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import type { Plan } from '../kit/plan.ts';
import { CHOOSING, CHOSEN, OPERATED, requireChoice } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { quantity } from '../kit/words.ts';
import { dismissMatching, findDeadLetters } from './dismiss-matching.ts';

export const dismissRequest = z
  .strictObject({ ...CHOSEN, ...OPERATED })
  .superRefine(requireChoice)
  .meta(shape.needsReason);

export const dismissPreview = z
  .object({
    ...shapesOf(chosenFields),
    request: z.object(dismissRequest.shape).partial().describe('The request to send.'),
  })
  .meta({ id: 'DismissPreview', description: 'The effect of a dismissal. Nothing was dismissed.' });

const dismissed = z
  .object({
    matched: shape.count,
    dismissed: shape.count,
    left: shape.count.describe(
      'Dead letters that there was no time for. The same request with this number as `expectedCount` continues.',
    ),
    dismissedAt: shape.instant.describe('The `dismissedAt` of all of them.'),
  })
  .meta({ id: 'DismissedMatching', description: 'The dismissed dead letters.' });

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

export const dismissal = operation({
  verb: 'dismiss',
  past: 'dismissed',
  noun: 'dismissal',
  section: 'dead-letters',
  path: dismissPath({}),
  id: 'dismissMatching',
  previewId: 'previewDismissal',
  summary: 'dismiss dead letters: of an incident, by their ids, or all that match',
  description:
    'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed: a replay can include the dismissed ones. Lanes that they halt go on. The operator and the reason are recorded for each subscription.',
  problems: ['not_confirmed', 'count_changed'],
  isReasonNeeded: true,
  body: dismissRequest,
  preview: dismissPreview,
  answer: dismissed,
  find: async ({ bus, body }) => await previewDismissal(await knownIn(bus, body), body),
  async act({ bus, by, reason, body: { incident: incidentId = null, ...asked } }) {
    const db = await knownIn(bus, asked);
    const how = { action: 'dismiss', by, reason, until: Date.now() + LONGEST_MS, incidentId } as const;
    return await dismissMatching(db, asked, how);
  },
  says: dismissPlan,
  reason: ['booked by hand'],
  done: (done) => `Dismissed ${quantity(done.dismissed, 'dead letter')}, which can still be replayed.`,
  leads({ left }, { topic, subscriber, group, q, since, until, deliveryIds, incident }) {
    const others = {
      topic,
      subscriber,
      group,
      q,
      since,
      until,
      deliveryIds: deliveryIds?.join(','),
      incident,
    };
    return left > 0 ? dismissPath(others) : pageOfChosen({ topic, subscriber, deliveryIds, incident });
  },
  command: {
    examples: [
      [
        'dismiss --topic payment.captured --since 24h --reason "test data"',
        'all of a topic in the last 24 hours',
      ],
      ['dismiss 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "test data"', 'all of an incident'],
      ['dismiss 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "booked by hand"', 'one'],
    ],
    takes: { id: null },
    options: {
      topic: { value: '<topic>', help: 'all dead letters of this topic' },
      ...CHOOSING,
      since: { ...CHOOSING.since, help: `${CHOOSING.since.help}; by default all` },
    },
  },
});

/** Previews a dismissal: how many dead letters of which subscriptions. Changes nothing. */
export async function previewDismissal(db: Database, asked: z.output<typeof dismissRequest>) {
  return previewOf([], asked, await findDeadLetters(db, asked));
}

function dismissPlan(view: z.output<typeof dismissPreview>): Plan {
  const { matched, subscriptions, request } = view;
  const halted = subscriptions.reduce((sum, { halting }) => sum + halting, 0);
  return {
    ...chosenPlan(
      view,
      'They leave all counts, and can still be replayed until their events are pruned',
      'No dead letter matches.',
    ),
    what: quantity(matched, 'dead letter'),
    warnings: [
      halted > 0 && [
        `${quantity(halted, 'halted lane')} ${halted === 1 ? 'goes' : 'go'} on.`,
        'Deliveries that waited behind these dead letters are delivered.',
      ],
      // Whether their subscribers are well does not matter.
      unmatchedWarning(view),
    ],
    request,
  };
}
