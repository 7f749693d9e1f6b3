import * as z from 'zod';

import { subscribersOf } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { subscriptionsOf } from '../../bus/deliveries/subscription.ts';
import { waitAfter } from '../../bus/subscribers/backoff.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { Problem } from '../../platform/http/problem.ts';
import { duration } from './words.ts';

/** How this release delivers a subscription: with how many attempts, and whether again; or why it cannot. */
export type Handling =
  | { readonly maxAttempts: number; readonly refusesReplays?: boolean }
  | 'unattached'
  | 'not_in_catalog';

/** @param attached the subscribers of this process. */
export function handlingOf(
  topic: string,
  subscriber: string,
  attached: readonly AttachedSubscriber[],
): Handling {
  if (topic === SMOKE_TEST.topic)
    return attached.some(({ name }) => name === subscriber) ? SMOKE_TEST : 'unattached';
  if (!subscribersOf(topic).includes(subscriber)) return 'not_in_catalog';
  const subscription = subscriptionsOf(attached).get(`${topic} ${subscriber}`);
  if (!subscription) return 'unattached';
  const { maxAttempts, onReplay } = subscription.subscriber;
  return { maxAttempts, refusesReplays: onReplay === 'refuse' };
}

export const allowedAttempts = z
  .int()
  .positive()
  .nullable()
  .describe(
    'How many failed attempts dead-letter it; null where this release does not deliver the subscription.',
  );

/** @returns how many failed attempts dead-letter a delivery; null where this release does not deliver it. */
export function maxAttemptsOf(
  topic: string,
  subscriber: string,
  attached: readonly AttachedSubscriber[],
): number | null {
  const handling = handlingOf(topic, subscriber, attached);
  return typeof handling === 'string' ? null : handling.maxAttempts;
}

/** Says why a retry would not be delivered, and what can be done. */
export function undeliverableWords(
  topic: string,
  subscriber: string,
  why: Extract<Handling, string>,
): string {
  return why === 'not_in_catalog'
    ? `This release’s catalog does not list ${subscriber} for ${topic}, so no relay of it delivers this. Backfill its new name if it has one, then retire ${subscriber} on ${topic}.`
    : `${subscriber} is not attached to ${topic} in this release, so a retry would wait. Its deliveries go on once it is attached.`;
}

/**
 * Refuses a retry that no relay of this release would deliver.
 *
 * @throws Problem 409 `no_such_subscription` or `unattached`.
 */
export function requireHandled(
  topic: string,
  subscriber: string,
  attached: readonly AttachedSubscriber[],
): void {
  const handling = handlingOf(topic, subscriber, attached);
  if (typeof handling !== 'string') return;
  const code = handling === 'unattached' ? handling : 'no_such_subscription';
  throw new Problem(code, { detail: undeliverableWords(topic, subscriber, handling) });
}

/** Says what the next attempt costs: `attempt 3 of 5; if it fails, the next wait is 30 min`. @param attempts so far. */
export function costWords(attempts: number, maxAttempts: number): string {
  const next = attempts + 1;
  const waitMs = waitAfter(next, maxAttempts);
  const then = waitMs === null ? 'it becomes a dead letter' : `the next wait is ${duration(waitMs)}`;
  return `attempt ${next} of ${Math.max(next, maxAttempts)}; if it fails, ${then}`;
}
