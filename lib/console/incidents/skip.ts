import * as z from 'zod';

import { CountChanged, NotActedOn } from '../../bus/deliveries/refusals.ts';
import { skip } from '../../bus/deliveries/operations/skip.ts';
import type { Database } from '../../platform/db/connect.ts';
import { SECOND } from '../../platform/time.ts';
import { action } from '../kit/action.ts';
import { readConfirmedForm } from '../kit/confirmed-form.ts';
import { orEarlier, skippedLately } from '../kit/earlier.ts';
import { asForm } from '../kit/form-request.ts';
import { HOME, incidentPath } from '../kit/links.ts';
import { deliveryId } from '../kit/replay-request.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { BY_ID, NO_INCIDENT, NOBODY, UNKNOWN } from './by-id.ts';
import { followSkip } from './follow.ts';
import { incidentId } from './incident.ts';
import { skipPage } from './skip-page.ts';
import { MOST_SKIPPED, previewSkip, skipPreview } from './skip-preview.ts';
import type { SkipPreview } from './skip-preview.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

const PATH = `${HOME}/incidents/{incidentId}/skip`;

export const showSkip = operatorRoute({
  id: 'previewIncidentSkip',
  path: PATH,
  scope: 'event-bus:read',
  summary: 'Preview a skip of the deliveries that hold the blocked lanes of an incident',
  parameters: BY_ID,
  answer: skipPreview,
  unknown: UNKNOWN,
  examples: {
    nobody: { summary: 'An unknown incident', parameters: { incidentId: NOBODY }, answer: NO_INCIDENT },
  },
  handle: async ({ parameters, bus }) => await previewSkip(await bus.database(), parameters.incidentId),
  page: skipPage,
});

const skipped = z
  .object({
    incidentId,
    skipped: shape.count.meta({ description: 'Lanes that go on with their next delivery.' }),
    left: shape.count.meta({ description: 'Deliveries that there was no time for. Send the request again.' }),
  })
  .meta({ id: 'Skipped', description: 'The skipped deliveries.' });

const body = z
  .object({
    reason: shape.requiredReason,
    deliveryIds: z
      .array(deliveryId)
      .min(1)
      .max(MOST_SKIPPED)
      .optional()
      .meta({ description: 'Only these, such as those of the preview.' }),
    expectedCount: z.int().nonnegative().optional().meta({
      description: 'Without `deliveryIds`: refuses the skip unless exactly this many hold lanes.',
    }),
    dryRun: z.boolean().default(false).meta({ description: 'Only says what would be skipped.' }),
    next: shape.optionalReason.shape.next,
  })
  .meta(shape.needsReason);

/** Skips the deliveries that hold the blocked lanes of an incident: they fail with one error. */
export const skipIncident = action({
  name: 'skip-incident',
  id: 'skipIncident',
  path: PATH,
  summary: 'Skip the deliveries that hold the blocked lanes of an incident',
  description:
    'Each becomes a dead letter, which can be replayed like any other, and its lane goes on with the next one. Each is recorded with the reason. A delivery that no longer holds its lane is left alone.',
  parameters: BY_ID,
  body,
  readForm: (content) => readConfirmedForm(content, asForm(body)),
  dryRun: asForm(body.extend({ reason: z.string().default('') })),
  answer: z
    .union([skipped, skipPreview])
    .meta({ description: 'The skipped deliveries; for a dry run, its effect.' }),
  problems: ['not_confirmed', 'count_changed'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { reason: 'The period is closed.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body: { reason, dryRun, ...which }, operator, bus }) => {
    const db = await bus.database();
    const preview = await previewSkip(db, parameters.incidentId);
    if (preview === null || dryRun) return preview;
    const how = { by: operator.subject, reason, ...parameters };
    return { ...parameters, ...(await skipHeads(db, preview, which, how)) };
  },
  page: (view, context) => {
    if (!('lanes' in view)) throw new TypeError('only a dry run is drawn as a page');
    return skipPage(view, context);
  },
  home: (_, { parameters }) => incidentPath(parameters.incidentId),
  follow: followSkip,
});

interface Which {
  readonly deliveryIds?: readonly string[] | undefined;
  readonly expectedCount?: number | undefined;
}

/** @throws Problem `count_changed` where none of them holds its lane any more, or others do. */
async function skipHeads(
  db: Database,
  { lanes, generatedAt }: SkipPreview,
  { deliveryIds, expectedCount }: Which,
  how: Omit<Parameters<typeof skip>[1], 'deliveryId' | 'now'> & { readonly incidentId: string },
): Promise<{ readonly skipped: number; readonly left: number }> {
  const heads = lanes.map((lane) => lane.deliveryId);
  const chosen = deliveryIds ? heads.filter((id) => deliveryIds.includes(id)) : heads;
  const expected = deliveryIds?.length ?? expectedCount ?? chosen.length;
  const refuse = async (matched: number) =>
    await orEarlier(
      db,
      // Whoever was first skipped what held these lanes before.
      { deliveryIds: deliveryIds ?? [...heads, ...(await skippedLately(db, how.incidentId))] },
      Promise.reject(new CountChanged(expected, matched, 'skip')),
    );
  if (deliveryIds ? chosen.length === 0 : chosen.length !== expected) await refuse(chosen.length);
  // By it, the operators' log knows one act from the next.
  const at = new Date(generatedAt);
  const until = Date.now() + LONGEST_MS;
  let count = 0;
  for (const [place, id] of chosen.entries()) {
    if (Date.now() >= until) return { skipped: count, left: chosen.length - place };
    count += await skipIfFirst(db, { ...how, deliveryId: id, now: at });
  }
  if (count === 0 && chosen.length > 0) await refuse(0);
  return { skipped: count, left: 0 };
}

/** @returns 0 for a delivery that no longer holds its lane, or that a relay has taken up. */
async function skipIfFirst(...asked: Parameters<typeof skip>): Promise<number> {
  try {
    await skip(...asked);
    return 1;
  } catch (error) {
    if (error instanceof NotActedOn) return 0;
    throw error;
  }
}
