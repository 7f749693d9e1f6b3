import * as z from 'zod';

import { countDead, dismiss } from '../../bus/deliveries/operations/dismiss.ts';
import type { DeadLetters, Dismissal, Dismissed } from '../../bus/deliveries/operations/dismiss.ts';
import { CountChanged, NotActedOn } from '../../bus/deliveries/refusals.ts';
import { probe } from '../../bus/deliveries/operations/probe.ts';
import { retryNow } from '../../bus/deliveries/operations/retry-now.ts';
import { acknowledge } from '../../components/incidents/acknowledge.ts';
import type { Database } from '../../platform/db/connect.ts';
import { Problem } from '../../platform/http/problem.ts';
import { validated } from '../../platform/http/validated.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { action } from '../kit/action.ts';
import { earlier, orEarlier, readEarlier } from '../kit/earlier.ts';
import { asForm } from '../kit/form-request.ts';
import { requireHandled } from '../kit/handling.ts';
import { HOME, incidentPath } from '../kit/links.ts';
import { isInstant } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { BY_ID, NO_INCIDENT, NOBODY, UNKNOWN } from './by-id.ts';
import { incidentView, readIncident } from './detail.ts';
import { followAcknowledgement, followDismissal, followRetry } from './follow.ts';
import { incidentId } from './incident.ts';
import { RETRIED } from './recovery.ts';
import { skipIncident } from './skip.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

/** Requires words in the field `note`, which stand in the operator log like a reason. */
const note = shape.requiredReason.meta({
  type: 'string',
  minLength: 1,
  maxLength: 500,
  description: 'What others should know, shown with the incident and kept in the operator log.',
});

const next = shape.optionalReason.shape.next;

const home = (_done: unknown, { parameters }: { readonly parameters: { readonly incidentId: string } }) =>
  incidentPath(parameters.incidentId);

const acknowledgeIncident = action({
  name: 'acknowledge-incident',
  id: 'acknowledgeIncident',
  path: `${HOME}/incidents/{incidentId}/acknowledge`,
  summary: 'Acknowledge an incident with a note',
  description: 'Tells others that an operator has taken it up. It stays open until nothing is left of it.',
  parameters: BY_ID,
  body: z.object({ note, next }).meta({ required: ['note'] }),
  answer: incidentView,
  problems: ['incident_closed'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { note: 'The supplier is notified.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const done = await acknowledge(db, parameters.incidentId, operator.subject, body.note);
    if (done === 'closed') throw new Problem('incident_closed');
    return done && (await readIncident(db, parameters.incidentId, bus.subscribers()));
  },
  home,
  button: 'Acknowledge…',
  asks: {
    text: 'Tells everyone that you have taken it up. The incident stays open until nothing is left of it.',
    example: 'the supplier is notified, INC-4411',
    submit: 'Acknowledge',
    field: 'note',
  },
  follow: followAcknowledgement,
  command: {
    name: 'acknowledge',
    summary: 'tell others that you have taken an incident up',
    notes: [
      'The note is shown with the incident and kept in the operator log. The incident stays open until nothing is left of it.',
    ],
    examples: [
      ['acknowledge 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --note "the supplier is notified"', 'with a note'],
    ],
    done: ({ sentence }) => `Acknowledged. ${sentence}`,
  },
});

const dismissed = z
  .object({
    incidentId,
    dismissed: shape.count,
    left: shape.count.meta({
      description: 'Dead letters that there was no time for, or that died meanwhile. Send the request again.',
    }),
  })
  .meta({ id: 'Dismissed', description: 'The dismissed dead letters.' });

const INSTANT = 'expected an instant in UTC such as 2026-02-21T09:35:00Z';

const dismissal = z
  .object({
    reason: shape.requiredReason,
    until: z.string(INSTANT).refine(isInstant, INSTANT).optional().meta({
      description: 'Only those that died until this instant, such as the `generatedAt` of the incident.',
    }),
    expectedCount: z
      .int()
      .nonnegative()
      .optional()
      .meta({ description: 'Refuses the dismissal unless it would dismiss exactly this many.' }),
    next,
  })
  .meta(shape.needsReason);

export const dismissIncident = action({
  name: 'dismiss-incident',
  id: 'dismissIncident',
  path: `${HOME}/incidents/{incidentId}/dismiss`,
  summary: 'Dismiss the dead letters of an incident',
  description:
    'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed, by their ids or with `include: "dismissed"`. A repeated request dismisses nothing twice; of a closed incident nothing is left to dismiss.',
  parameters: BY_ID,
  body: dismissal,
  readForm: (content) => validated(content, asForm(dismissal)),
  answer: dismissed,
  problems: ['count_changed'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { reason: 'Test data.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers());
    if (!found) return null;
    const { topic, subscriber, state, group } = found;
    // An outage has no dead letters of its own, and those of a closed one's error are of the incident after it.
    if (topic === null || group === null || state === 'closed')
      return { ...parameters, dismissed: 0, left: 0 };
    const { until, expectedCount, reason } = body;
    const which = { topic, subscriber, group, ...(until !== undefined && { until }) };
    const how = { by: operator.subject, reason, until: Date.now() + LONGEST_MS, ...parameters };
    const acting = dismissCounted(db, which, { action: 'dismiss', ...how }, expectedCount);
    return { ...parameters, ...(await orEarlier(db, which, acting)) };
  },
  home,
  button: 'Dismiss…',
  asks: {
    question: 'Never replay them?',
    text: 'They leave the counts, and can still be replayed until the event is pruned.',
    example: 'test data',
    submit: 'Dismiss',
  },
  follow: followDismissal,
});

/** @throws CountChanged when another number matches; nothing was dismissed. */
async function dismissCounted(
  db: Database,
  which: DeadLetters,
  how: Dismissal,
  expected: number | undefined,
): Promise<Dismissed> {
  const count = expected === undefined ? 0 : await countDead(db, which);
  if (expected !== undefined && count !== expected) throw new CountChanged(expected, count, 'dismiss');
  return await dismiss(db, which, how);
}

const retried = z
  .object({
    incidentId,
    retried: shape.count.meta({ description: 'Lanes whose first delivery is due now.' }),
    earlier: earlier
      .nullable()
      .meta({ description: 'If none is: who retried or skipped them a moment ago.' }),
  })
  .meta({ id: 'Retried', description: 'The retried lanes.' });

/** Makes the first deliveries of its blocked lanes due at once. */
export const retryIncident = action({
  name: 'retry-incident',
  id: 'retryIncident',
  path: `${HOME}/incidents/{incidentId}/retry`,
  summary: `Retry the first ${RETRIED} blocked lanes of an incident now`,
  description:
    'Enough to see whether the subscriber is back. A repeated request retries the next ones. Of an outage, one delivery probes.',
  parameters: BY_ID,
  body: shape.optionalReason,
  answer: retried,
  problems: ['no_such_subscription', 'unattached'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown incident',
      parameters: { incidentId: NOBODY },
      json: { reason: 'Accounting is back.' },
      answer: NO_INCIDENT,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers());
    if (!found) return null;
    const how = { by: operator.subject, reason: body.reason ?? null, ...parameters };
    if (found.topic === null) {
      const isProbing = await probe(db, { subscriber: found.subscriber, ...how });
      return { ...parameters, retried: Number(isProbing), earlier: null };
    }
    const { topic, subscriber } = found;
    requireHandled(topic, subscriber, bus.subscribers());
    let count = 0;
    for (const { deliveryId } of found.lanes) count += await retryIfWaiting(db, { deliveryId, ...how });
    const deliveryIds = found.lanes.map(({ deliveryId }) => deliveryId);
    const first = count === 0 ? await readEarlier(db, { deliveryIds }, MINUTE) : null;
    return { ...parameters, retried: count, earlier: first };
  },
  home,
  button: 'Retry now',
  follow: followRetry,
});

/** @returns 0 for a delivery that a relay has taken up since it was read. */
async function retryIfWaiting(...asked: Parameters<typeof retryNow>): Promise<number> {
  try {
    await retryNow(...asked);
    return 1;
  } catch (error) {
    if (error instanceof NotActedOn) return 0;
    throw error;
  }
}

export const incidentActions = [acknowledgeIncident, dismissIncident, retryIncident, skipIncident];
