import * as z from 'zod';

import { probe } from '../../bus/deliveries/operations/probe.ts';
import { retryNow } from '../../bus/deliveries/operations/retry-now.ts';
import { skip } from '../../bus/deliveries/operations/skip.ts';
import { CountChanged, NotActedOn } from '../../bus/deliveries/refusals.ts';
import { acknowledge } from '../../components/incidents/acknowledge.ts';
import { Problem } from '../../platform/http/problem.ts';
import { validated } from '../../platform/http/validated.ts';
import { SECOND } from '../../platform/time.ts';
import { dismissMatching } from '../dismissals/dismiss-matching.ts';
import { action } from '../kit/action.ts';
import { asForm } from '../kit/shapes.ts';
import { requireHandled } from '../kit/handling.ts';
import { HOME } from '../kit/links.ts';
import { isInstant } from '../kit/replay-request.ts';
import { quantity } from '../kit/words.ts';
import * as shape from '../kit/shapes.ts';
import { RETRIED } from './doc.ts';
import { BY_ID, incidentId, UNKNOWN } from './incident.ts';
import { failingLanes, incidentView, readIncident } from './read.ts';
import { repairAction } from './set-aside.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

/** Requires words in the field `note`, which stand in the operator log like a reason. */
const note = shape.requiredReason.meta({
  type: 'string',
  minLength: 1,
  maxLength: 500,
  description: 'What others should know, shown with the incident and kept in the operator log.',
});

const acknowledgeIncident = action({
  name: 'acknowledge-incident',
  id: 'acknowledgeIncident',
  path: `${HOME}/incidents/{incidentId}/acknowledge`,
  summary: 'Acknowledge an incident with a note',
  description: 'Tells others that an operator has taken it up. It stays open until nothing is left of it.',
  parameters: BY_ID,
  body: z.object({ note }).meta({ required: ['note'] }),
  answer: incidentView,
  problems: ['incident_closed'],
  unknown: UNKNOWN,
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const done = await acknowledge(db, parameters.incidentId, operator.subject, body.note);
    if (done === 'closed') throw new Problem('incident_closed');
    return done && (await readIncident(db, parameters.incidentId, bus.subscribers()));
  },
  button: 'Acknowledge…',
  asks: {
    text: 'Tells everyone that you have taken it up. The incident stays open until nothing is left of it.',
    example: 'the supplier is notified, INC-4411',
    submit: 'Acknowledge',
    field: 'note',
  },
  done: ({ sentence }) => `Acknowledged. ${sentence}`,
  command: {
    name: 'acknowledge',
    summary: 'tell others that you have taken an incident up',
    notes: [
      'The note is shown with the incident and kept in the operator log. The incident stays open until nothing is left of it.',
    ],
    examples: [
      ['acknowledge 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --note "the supplier is notified"', 'with a note'],
    ],
  },
});

const dismissed = z
  .object({
    incidentId,
    dismissed: shape.count,
    left: shape.count.describe(
      'Dead letters that there was no time for, or that died meanwhile. Send the request again.',
    ),
  })
  .meta({ id: 'Dismissed', description: 'The dismissed dead letters.' });

const INSTANT = 'expected an instant in UTC such as 2026-02-21T09:35:00Z';

const dismissal = z
  .object({
    reason: shape.requiredReason,
    until: z
      .string(INSTANT)
      .refine(isInstant, INSTANT)
      .optional()
      .describe('Only those that died until this instant, such as the `generatedAt` of the incident.'),
    expectedCount: z
      .int()
      .nonnegative()
      .optional()
      .describe('Refuses the dismissal unless it would dismiss exactly this many.'),
  })
  .meta(shape.needsReason);

const dismissIncident = action({
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
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers());
    if (!found) return null;
    const { topic, subscriber, state, group } = found;
    // An outage has no dead letters of its own, and those of a closed one's error are of the incident after it.
    if (topic === null || group === null || state === 'closed')
      return { ...parameters, dismissed: 0, left: 0 };
    const { until, expectedCount, reason } = body;
    const asked = { topic, subscriber, group, until, expectedCount };
    const how = { action: 'dismiss', by: operator.subject, reason, until: Date.now() + LONGEST_MS } as const;
    const { dismissed: number, left } = await dismissMatching(db, asked, { ...how, ...parameters });
    return { ...parameters, dismissed: number, left };
  },
  button: 'Dismiss…',
  asks: {
    text: 'Never replay them? They leave the counts, and can still be replayed until the event is pruned.',
    example: 'test data',
    submit: 'Dismiss',
  },
  done: ({ dismissed: number, left }) =>
    `Dismissed ${quantity(number, 'dead letter')}.${left > 0 ? ` ${quantity(left, 'dead letter')} left: dismiss them too.` : ''}`,
});

/** A page of blocked lanes is read for each skip; more than these are skipped by the next request. */
const MOST_SKIPPED = 1000;

const skipped = z
  .object({
    incidentId,
    skipped: shape.count.describe('Lanes that go on with their next delivery.'),
    left: shape.count.describe('Deliveries that there was no time for. Send the request again.'),
  })
  .meta({ id: 'Skipped', description: 'The skipped deliveries.' });

const expectedCount = z.coerce.number().int().nonnegative().optional();

/** Skips the deliveries that hold the blocked lanes of an incident: they fail with one error. */
export const skipIncident = action({
  name: 'skip-incident',
  id: 'skipIncident',
  path: `${HOME}/incidents/{incidentId}/skip`,
  summary: 'Skip the deliveries that hold the blocked lanes of an incident',
  description:
    'Each becomes a dead letter, which can be replayed like any other, and its lane goes on with the next one. Each is recorded with the reason. A lane that a dead letter halts is left as it is.',
  parameters: BY_ID,
  body: z
    .object({
      reason: shape.requiredReason,
      expectedCount: expectedCount.describe('Refuses the skip unless exactly this many hold lanes.'),
    })
    .meta(shape.needsReason),
  answer: skipped,
  problems: ['count_changed'],
  unknown: UNKNOWN,
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers(), MOST_SKIPPED);
    if (!found) return null;
    const held = found.blockedLanes - found.haltedLanes;
    const expected = body.expectedCount ?? held;
    if (expected !== held) throw new CountChanged(expected, held, 'skipped');
    // By its instant, the operators' log knows one act from the next.
    const how = {
      by: operator.subject,
      reason: body.reason,
      now: new Date(found.generatedAt),
      ...parameters,
    };
    const until = Date.now() + LONGEST_MS;
    let done = 0;
    for (const { deliveryId } of failingLanes(found))
      if (Date.now() < until) done += await numberActedOn(skip(db, { ...how, deliveryId }));
    return { ...parameters, skipped: done, left: done === 0 ? 0 : held - done };
  },
  button: 'Skip all that hold its lanes…',
  asks: {
    text: 'Each delivery that holds one of its lanes becomes a dead letter, which can be replayed. What waits behind it is delivered.',
    example: 'the period is closed',
    submit: 'Skip them',
  },
  done: ({ skipped: number, left }) =>
    number === 0
      ? { isGood: false, words: 'No delivery holds a lane of this incident any more.' }
      : `Skipped ${quantity(number, 'delivery')}. What waited behind follows.${left > 0 ? ` ${quantity(left, 'delivery')} left: skip them too.` : ''}`,
});

/** @returns 0 for a delivery that does not wait in that way any more, such as one that a relay has taken up. */
async function numberActedOn(acting: Promise<unknown>): Promise<number> {
  try {
    await acting;
    return 1;
  } catch (error) {
    if (error instanceof NotActedOn) return 0;
    throw error;
  }
}

const retried = z
  .object({
    incidentId,
    retried: shape.count.describe('Lanes whose first delivery is due now.'),
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
  handle: async ({ parameters, body, operator, bus }) => {
    const db = await bus.database();
    const found = await readIncident(db, parameters.incidentId, bus.subscribers());
    if (!found) return null;
    const how = { by: operator.subject, reason: body.reason ?? null, ...parameters };
    if (found.topic === null) {
      const isProbing = await probe(db, { subscriber: found.subscriber, ...how });
      return { ...parameters, retried: Number(isProbing) };
    }
    const { topic, subscriber } = found;
    requireHandled(topic, subscriber, bus.subscribers());
    let count = 0;
    for (const { deliveryId } of failingLanes(found))
      count += await numberActedOn(retryNow(db, { deliveryId, ...how }));
    return { ...parameters, retried: count };
  },
  button: 'Retry now',
  done: ({ retried: lanes }) =>
    lanes > 0
      ? `Retried: ${quantity(lanes, 'lane')} due now.`
      : { isGood: false, words: 'No lane waits for a retry any more.' },
  isAwaited: true,
});

export const incidentActions = [
  acknowledgeIncident,
  dismissIncident,
  skipIncident,
  retryIncident,
  repairAction,
];
