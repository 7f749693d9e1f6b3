import { and, eq, inArray } from 'drizzle-orm';
import * as z from 'zod';

import { pauses } from '../../../drizzle/schema.ts';
import { subscriberNames, subscribersOf } from '../../bus/catalog/catalog.ts';
import {
  pause as pauseDeliveries,
  resume as resumeDeliveries,
} from '../../bus/deliveries/operations/pause.ts';
import type { Paused } from '../../bus/deliveries/operations/pause.ts';
import { probe as probeNow } from '../../bus/deliveries/operations/probe.ts';
import { Problem } from '../../platform/http/problem.ts';
import { instantOf } from '../../platform/time.ts';
import { action } from '../kit/action.ts';
import { requireKnown } from '../kit/known-names.ts';
import { HOME, subscriberPath, subscribersPath } from '../kit/links.ts';
import { pause as pauseOf } from '../kit/pauses.ts';
import { topicName, topicText } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { readStandings } from './standing.ts';

export const UNKNOWN = `Unknown subscriber. All subscribers: ${subscribersPath()}.`;

export const BY_NAME = {
  subscriber: shape.subscriberName.describe('A subscriber of this or of another release’s catalog.'),
};

const probed = z
  .object({ subscriber: z.string() })
  .meta({ id: 'Probing', description: 'The subscriber whose next probe is due now.' });

/** Makes the next probe of a subscriber that does not answer due at once. */
export const probe = action({
  name: 'probe',
  id: 'probeSubscriber',
  path: `${HOME}/subscribers/{subscriber}/probe`,
  summary: 'Probe a subscriber that does not answer now',
  description:
    'One of its waiting deliveries is tried at once. If the subscriber answers, the outage is over and all follow, in order. No attempt is used up otherwise.',
  parameters: BY_NAME,
  body: shape.optionalReason,
  answer: probed,
  problems: ['not_silent'],
  unknown: UNKNOWN,
  handle: async ({ parameters: { subscriber }, body: { reason = null }, operator, bus }) => {
    const db = await bus.database();
    if (await probeNow(db, { subscriber, by: operator.subject, reason })) return { subscriber };
    const { items } = await readStandings(db, bus.subscribers(), subscriber);
    if (items.length === 0) return null;
    throw new Problem('not_silent', {
      detail: `${subscriber} has no outage. Probe a delivery that holds one of its lanes instead: ${subscriberPath(subscriber)} lists them.`,
    });
  },
  button: 'Probe now',
  done: ({ subscriber }) => `Probing ${subscriber}: one of its deliveries is tried now.`,
  isAwaited: true,
});

const paused = z
  .object({
    subscriber: z.string(),
    topic: shape.topic.nullable(),
    paused: z.boolean(),
    changed: z.boolean().describe('Whether this request changed it.'),
    pause: pauseOf.nullable().describe('The pause that was there already, which stays as it is.'),
  })
  .meta({ id: 'Paused', description: 'Whether the subscriber is paused now.' });

/** A field of one topic; without it, all topics of the subscriber. */
export const oneTopicOrAll = (name: z.ZodType<string, string>) =>
  z
    .union([z.literal('').transform(() => null), name])
    .nullish()
    .transform((named) => named ?? null)
    .describe('Only this topic. Without it, all topics of the subscriber.');

const pause = action({
  name: 'pause',
  id: 'pauseSubscriber',
  path: `${HOME}/subscribers/{subscriber}/pause`,
  summary: 'Pause a subscriber',
  description:
    'Its deliveries wait until someone resumes it. None fails meanwhile. An existing pause stays as it is.',
  parameters: BY_NAME,
  body: shape.optionalReason
    .extend({
      reason: shape.requiredReason,
      topic: oneTopicOrAll(topicName),
      ahead: z
        .boolean()
        .default(false)
        .describe(
          'Also pauses a subscription that only a later release lists, so that it is handed nothing before its backfill.',
        ),
    })
    .meta(shape.needsReason),
  answer: paused,
  problems: ['no_such_subscription'],
  unknown: UNKNOWN,
  handle: async ({ parameters, body, operator, bus }) => {
    const subscription = { subscriber: parameters.subscriber, topic: body.topic };
    if (!(body.ahead && body.topic !== null) && !isListed(subscription)) return null;
    const db = await bus.database();
    const changed = await pauseDeliveries(db, subscription, operator.subject, body.reason);
    const [earlier] = changed ? [] : await db.select().from(pauses).where(isPauseOf(subscription));
    const found = earlier && { ...earlier, topic: subscription.topic, pausedAt: instantOf(earlier.pausedAt) };
    return { ...subscription, paused: true, changed, pause: found ? pauseOf.parse(found) : null };
  },
  button: 'Pause…',
  asks: {
    text: 'Its deliveries wait until someone resumes it. Nothing is lost.',
    example: 'maintenance until 18:00',
    submit: 'Pause all its topics',
  },
  done: ({ subscriber: name, topic, pause: earlier }) => ({
    words: earlier
      ? `Nothing was changed: ${name} was paused already for ${topic ?? 'all its topics'} by ${earlier.pausedBy}: ${earlier.reason}`
      : `${name} is paused for ${topic ?? 'all its topics'}. Its deliveries wait until someone resumes it; what a relay is just delivering ends first.`,
    next: `To end it: npx postbud resume ${name}${topic === null ? '' : ` --topic ${topic}`}`,
  }),
  command: {
    summary: 'make a subscriber’s deliveries wait',
    notes: [
      'Its deliveries wait, in order, until someone resumes it; none fails meanwhile. An existing pause stays as it is. Without --topic all its topics are paused, after confirmation.',
    ],
    examples: [
      ['pause ledger --topic payment.captured --reason "maintenance until 18:00"', 'one topic'],
      ['pause ledger --reason "maintenance until 18:00" --yes', 'all its topics, from a script'],
      [
        'pause ledger --topic payment.captured --ahead --reason "backfill first"',
        'before the release that lists it',
      ],
    ],
    options: {
      topic: { value: '<topic>', help: 'only this topic' },
      ahead: { help: 'a subscription that only a later release lists' },
    },
    confirms: ({ subscriber: name, topic }) =>
      topic === undefined ? `Pause ${String(name)} for all its topics` : null,
    nothing: 'Nothing was paused.',
  },
});

const resume = action({
  name: 'resume',
  id: 'resumeSubscriber',
  path: `${HOME}/subscribers/{subscriber}/resume`,
  summary: 'Resume a paused subscriber',
  parameters: BY_NAME,
  body: shape.optionalReason.extend({ topic: oneTopicOrAll(topicText) }),
  answer: paused,
  problems: ['no_such_subscription'],
  unknown: UNKNOWN,
  handle: async ({ parameters, body: { topic, reason = null }, operator, bus }) => {
    const subscription = { subscriber: parameters.subscriber, topic };
    const db = await bus.database();
    // A pause can be lifted even where this release's catalog no longer lists the subscriber.
    const changed = await resumeDeliveries(db, subscription, operator.subject, reason);
    if (!changed) await requireKnown(db, { topic: topic ?? undefined });
    if (!changed && !isListed(subscription)) return null;
    const ofTopic = topic === null ? undefined : inArray(pauses.topic, ['', topic]);
    const others = await db.$count(pauses, and(eq(pauses.subscriber, parameters.subscriber), ofTopic));
    return { ...subscription, paused: others > 0, changed, pause: null };
  },
  button: 'Resume',
  done: ({ subscriber: name, topic, paused: isHeld, changed }) => {
    const of = `${name} for ${topic ?? 'all its topics'}`;
    const done = changed ? `Resumed ${of}.` : `No pause of ${of} was there to end.`;
    return isHeld
      ? {
          isGood: false,
          words: `${done} Another pause remains, which holds ${topic ?? 'a part of its topics'}.`,
          next: `npx postbud subscriber ${name} says which`,
        }
      : `${done}${changed ? ' What waited follows, in order.' : ''}`;
  },
  command: {
    summary: 'end a pause',
    notes: ['What waited follows, in order. Ends with 1 where another pause of it remains.'],
    examples: [
      ['resume ledger --topic payment.captured', 'a pause of one topic'],
      ['resume ledger', 'a pause of all its topics'],
    ],
    options: { topic: { value: '<topic>', help: 'a pause of this topic; by default one of all its topics' } },
  },
});

export const subscriberActions = [probe, pause, resume];

const isPauseOf = ({ subscriber, topic }: Paused) =>
  and(eq(pauses.subscriber, subscriber), eq(pauses.topic, topic ?? ''));

/** Whether the catalog lists the subscriber. @throws Problem 409 for a topic that it does not subscribe to. */
function isListed({ subscriber, topic }: Paused): boolean {
  const isKnown = subscriberNames().includes(subscriber);
  if (isKnown && topic !== null && !subscribersOf(topic).includes(subscriber))
    throw new Problem('no_such_subscription', { detail: `${subscriber} does not subscribe to ${topic}.` });
  return isKnown;
}
