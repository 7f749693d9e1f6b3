import * as z from 'zod';

import { deliveryId, topicText } from './replay-request.ts';
import { HOME } from './links.ts';
import { subscriberName } from './shapes.ts';

/** One of an operator's actions: its route, its form and the page that follows it are made of this. */
export interface Action<ActedOn extends z.ZodType = z.ZodType> {
  /** Of its route, with parameters in braces. */
  readonly path: string;
  /** What it acted on, in the address of the page that follows it. */
  readonly actedOn: ActedOn;
  /** The words on its button, or on the one that opens its form. */
  readonly button: string;
  /** What is asked for, where a reason is. */
  readonly asks?: {
    /** What will happen. */
    readonly text: string;
    readonly question?: string;
    /** Of a reason. */
    readonly example: string;
    readonly submit: string;
    /** Of the reason: by default `reason`. A note is for others. */
    readonly field?: 'reason' | 'note';
  };
}

const incident = z.object({ incidentId: z.uuid('expected the id of an incident') });
const delivery = z.object({ deliveryId });
const subscriber = z.object({ subscriber: subscriberName });
/** A subscriber on one topic; without a topic, on all of them. */
const subscription = subscriber.extend({ topic: topicText.nullable().default(null) });

const ofDelivery = `${HOME}/deliveries/{deliveryId}`;
const ofDeadLetter = `${HOME}/dead-letters/{deliveryId}`;
const ofIncident = `${HOME}/incidents/{incidentId}`;
const ofSubscriber = `${HOME}/subscribers/{subscriber}`;

/** By the name that the address of the page gives it that follows it: `?done=retry`. */
export const OPERATOR_ACTIONS = {
  'acknowledge-incident': {
    path: `${ofIncident}/acknowledge`,
    actedOn: incident,
    button: 'Acknowledge…',
    asks: {
      text: 'Tells everyone that you have taken it up. The incident stays open until nothing is left of it.',
      example: 'the supplier is notified, INC-4411',
      submit: 'Acknowledge',
      field: 'note',
    },
  },
  'dismiss-incident': {
    path: `${ofIncident}/dismiss`,
    actedOn: incident,
    button: 'Dismiss…',
    asks: {
      question: 'Never replay them?',
      text: 'They leave the counts, and can still be replayed until the event is pruned.',
      example: 'test data',
      submit: 'Dismiss',
    },
  },
  /** Makes the first deliveries of its blocked lanes due at once. */
  'retry-incident': { path: `${ofIncident}/retry`, actedOn: incident, button: 'Retry now' },
  dismiss: {
    path: `${ofDeadLetter}/dismiss`,
    /** `released` says that it halted its lane, which goes on. */
    actedOn: delivery.extend({ lane: z.literal('released').nullable().default(null) }),
    button: 'Dismiss…',
    asks: {
      question: 'Never replay it?',
      text: 'It leaves the counts, and can still be replayed until the event is pruned.',
      example: 'booked by hand',
      submit: 'Dismiss this dead letter',
    },
  },
  /** Makes the delivery that holds a lane due at once. */
  retry: { path: `${ofDelivery}/retry`, actedOn: delivery, button: 'Retry now' },
  /** Hands the delivery that holds a lane over once, at no cost. */
  'probe-delivery': { path: `${ofDelivery}/probe`, actedOn: delivery, button: 'Try once' },
  skip: {
    path: `${ofDelivery}/skip`,
    actedOn: delivery,
    button: 'Skip…',
    asks: {
      text: 'The delivery becomes a dead letter, which can be replayed. The next one in its lane is delivered.',
      example: 'answered by phone',
      submit: 'Skip this delivery',
    },
  },
  pause: {
    path: `${ofSubscriber}/pause`,
    actedOn: subscription,
    button: 'Pause…',
    asks: {
      text: 'Its deliveries wait until someone resumes it. Nothing is lost.',
      example: 'maintenance until 18:00',
      submit: 'Pause all its topics',
    },
  },
  resume: { path: `${ofSubscriber}/resume`, actedOn: subscription, button: 'Resume' },
  /** Makes the next probe of a subscriber that does not answer due at once. */
  probe: { path: `${ofSubscriber}/probe`, actedOn: subscriber, button: 'Probe now' },
  retire: {
    path: `${ofSubscriber}/retire`,
    actedOn: subscription,
    button: 'Retire…',
  },
  rename: {
    path: `${ofSubscriber}/rename`,
    /** From the former name to the new one. */
    actedOn: subscription.extend({ to: subscriberName }),
    button: 'Rename…',
  },
  'cancel-timer': {
    path: `${HOME}/timers/{eventId}/cancel`,
    actedOn: z.object({ eventId: z.uuid('expected the id of an event') }),
    button: 'Cancel…',
    asks: {
      question: 'Never let it happen?',
      text: 'Its event is not recorded, and its producer is not told.',
      example: 'the booking was made by mistake',
      submit: 'Cancel this timer',
    },
  },
  repair: {
    path: `${HOME}/set-aside/{id}/repair`,
    /** A row that was set aside, or an event that was never fanned out. */
    actedOn: z.object({
      id: z.union([z.uuid(), z.string().regex(/^\d{1,18}$/)], 'expected the id of a row or of an event'),
    }),
    button: 'Repair…',
    asks: {
      text: 'An event that exists is delivered. A row without an event is dismissed, and stays on record.',
      example: 'written by hand, case 4411',
      submit: 'Repair',
    },
  },
} as const satisfies Readonly<Record<string, Action>>;

export type ActionName = keyof typeof OPERATOR_ACTIONS;

/** The path of an action with its parameters in it. */
export function pathOf({ path }: Action, parameters: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name]!));
}
