import * as z from 'zod';

import { defaultsOf } from '../../bus/subscribers/defaults.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Refusal } from '../../components/registry.ts';
import { SECOND, rateText } from '../../platform/time.ts';
import { quantity } from './words.ts';

interface Subscription {
  readonly topic: string;
  readonly subscriber: string;
}

/** Whether a subscription has a handler or an endpoint. */
export function isAttached(
  { topic, subscriber }: Subscription,
  attached: readonly AttachedSubscriber[],
): boolean {
  return attached.some(({ name, handlers }) => name === subscriber && handlers.has(topic));
}

const options = z
  .object({
    batch: z.boolean().describe('Whether the handler takes events in batches.'),
    transactional: z
      .boolean()
      .describe('Whether the handler’s work commits together with the record of its delivery.'),
    sharesCommits: z.boolean().describe('Whether consecutive deliveries may share a transaction.'),
    timeoutMs: z.int().positive().describe('The time limit of an attempt.'),
    maxAttempts: z.int().positive().describe('How many failed attempts dead-letter a delivery.'),
    afterDeadLetter: z
      .enum(['continue', 'halt'])
      .describe('What a dead letter does to the later events of its lane or key.'),
    outage: z
      .enum(['wait', 'off'])
      .describe('Whether deliveries wait, without using up attempts, while nobody answers.'),
    onReplay: z
      .enum(['run', 'refuse'])
      .describe('Whether replays reach the handler, or leave its deliveries out.'),
    rate: z
      .string()
      .nullable()
      .describe(
        'How many deliveries the subscriber is handed in a time, over all relays: `600/m`. Null for any number.',
      ),
    concurrency: z
      .int()
      .positive()
      .nullable()
      .describe('How many at once, over all relays. Null for any number.'),
  })
  .meta({ id: 'SubscriptionOptions', description: 'The options of a subscription, defaults included.' });
type SubscriptionOptions = z.output<typeof options>;

const subscriptionPlace = z
  .enum(['in_process', 'elsewhere', 'journal', 'unattached'])
  .describe(
    'Where the process that answers has its handler; `journal` is the stand-in of the embedded mode; deliveries to an unattached subscription wait.',
  );

/** Where a subscription is handled, and how. */
export const subscriptionFields = {
  place: subscriptionPlace,
  options: options.nullable().describe('Null for an unattached subscription.'),
  invalidVariable: z
    .string()
    .nullable()
    .describe(
      'The environment variable that is missing or invalid, so that the subscription is not attached.',
    ),
};

const subscriptionView = z.object(subscriptionFields);
export type SubscriptionView = z.output<typeof subscriptionView>;

/** What is attached in this process, and what is not because a variable is invalid. */
export interface Attachments {
  readonly subscribers: () => readonly AttachedSubscriber[];
  readonly refusals: () => readonly Refusal[];
}

/** Makes a function that describes the subscription of a subscriber to a topic, as this process has it attached. */
export function subscriptionsIn({
  subscribers,
  refusals,
}: Attachments): (topic: string, subscriber: string) => SubscriptionView {
  const described = new Map<string, SubscriptionView>();
  for (const component of subscribers()) {
    const view = { place: component.place, options: optionsOf(component), invalidVariable: null };
    for (const topic of component.handlers.keys()) described.set(`${topic} ${component.name}`, view);
  }
  const variables = new Map(
    refusals().flatMap(({ subscriber, topics, error }) =>
      topics.map((topic) => [`${topic} ${subscriber}`, error.variable]),
    ),
  );
  return (topic, subscriber) => {
    const key = `${topic} ${subscriber}`;
    const invalidVariable = variables.get(key) ?? null;
    return described.get(key) ?? { place: 'unattached', options: null, invalidVariable };
  };
}

function optionsOf(component: AttachedSubscriber): SubscriptionOptions {
  const { batch, transactional, sharesCommits, timeoutMs, maxAttempts } = component;
  const { afterDeadLetter, outage, onReplay, limits } = component;
  return {
    batch: batch !== null,
    transactional,
    sharesCommits: transactional && sharesCommits,
    timeoutMs,
    maxAttempts,
    afterDeadLetter,
    outage,
    onReplay,
    rate: limits?.rate ? rateText(limits.rate) : null,
    concurrency: limits?.concurrency ?? null,
  };
}

/** Names the place, to complete "runs …". */
export const PLACE_WORDS = {
  in_process: 'in this process',
  elsewhere: 'elsewhere',
  journal: 'stand-in',
  unattached: 'not attached',
} as const satisfies Record<SubscriptionView['place'], string>;

/** Says why deliveries of an unattached subscription wait. */
export function waitingWords({ invalidVariable }: SubscriptionView): string {
  return invalidVariable === null
    ? 'deliveries wait'
    : `deliveries wait: ${invalidVariable} is missing or invalid (see the log)`;
}

/** Lists in words the options that differ from the defaults of their place. */
export function uncommonOptions({
  place,
  options: chosen,
}: Pick<SubscriptionView, 'place' | 'options'>): string[] {
  // The stand-in's options say nothing about the component.
  if (chosen === null || place === 'unattached' || place === 'journal') return [];
  const usual = defaultsOf(place);
  const { maxAttempts, rate, concurrency } = chosen;
  const limits = [rate, concurrency !== null && `${concurrency} at once`].filter(Boolean);
  const words = [
    chosen.batch && 'in batches',
    chosen.transactional &&
      (chosen.sharesCommits ? 'transactional' : 'transactional, each in its own commit'),
    chosen.timeoutMs !== usual.timeoutMs && `${chosen.timeoutMs / SECOND} s time limit`,
    maxAttempts !== usual.maxAttempts && quantity(maxAttempts, 'attempt'),
    chosen.afterDeadLetter !== usual.afterDeadLetter && 'halts after a dead letter',
    chosen.outage !== usual.outage &&
      (chosen.outage === 'wait' ? 'waits in an outage' : 'does not wait in an outage'),
    chosen.onReplay !== usual.onReplay && 'refuses replays',
    limits.length > 0 && `at most ${limits.join(', ')}`,
  ];
  return words.filter((one) => one !== false);
}
