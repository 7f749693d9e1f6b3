import type { SubscriberOverview } from '../lib/console/overview/read.ts';
import type { ActionRequest } from './action.ts';
import type { Given } from './arguments.ts';
import type { Call } from './command.ts';
import { misused } from './failure.ts';
import { unknownName } from './nearest.ts';

/** One subscription as the server sees it. */
export type Subscription = SubscriberOverview & { readonly topic: string };

/** A subscriber and a topic as the command line names them. */
interface Named {
  readonly subscriber: string;
  /** Null: all its topics. */
  readonly topic: string | null;
}

/** The option of commands that take a subscription which no release lists yet. */
export const AHEAD = {
  ahead: { help: 'a subscription that only a later release lists: the name is not checked' },
} as const;

/** @throws Failure for `--ahead` without a topic: a name that is not checked must not stand for all topics. */
export function isAhead(given: Given): boolean {
  const isSet = given.isSet('ahead');
  if (isSet && !given.isSet('topic'))
    throw misused('--ahead needs --topic.', 'For example: --topic payment.captured --ahead');
  return isSet;
}

/**
 * Reads a subscriber's subscriptions from the overview. It has the names that the server's release and its data have,
 * which may be more than this release's catalog has.
 *
 * @returns all its subscriptions, whatever topic is named. @throws Failure for an unknown subscriber, an unknown topic,
 *   or a topic that the subscriber does not subscribe to.
 */
export async function subscriptionsOf(
  { bus }: Call,
  { subscriber, topic }: Named,
): Promise<{ readonly own: readonly Subscription[]; readonly now: string }> {
  const { showOverview } = await import('../lib/console/overview/routes.ts');
  const { view } = await bus.ask(showOverview);
  const all: readonly Subscription[] = view.topics.flatMap((one) =>
    one.subscribers.map((subscription) => ({ ...subscription, topic: one.topic })),
  );
  const own = all.filter((one) => one.subscriber === subscriber);
  if (own.length === 0)
    throw unknownName('subscriber', subscriber, [...new Set(all.map((one) => one.subscriber))].toSorted());
  if (topic !== null && !own.some((one) => one.topic === topic)) {
    const topics = view.topics.map((one) => one.topic);
    if (!topics.includes(topic))
      throw unknownName('topic', topic, topics, 'npx postbud topics --all lists the topics.');
    throw misused(
      `${subscriber} does not subscribe to ${topic}.`,
      `npx postbud topics ${subscriber} lists its topics.`,
    );
  }
  return { own, now: view.generatedAt };
}

/** The same of the subscriber that an action names, all or `--topic`; none where no release lists it yet. */
export async function subscriptionsActedOn(
  call: Call,
  { parameters }: ActionRequest,
): ReturnType<typeof subscriptionsOf> {
  if (isAhead(call.given)) return { own: [], now: '' };
  const topic = call.given.text('topic') ?? null;
  return await subscriptionsOf(call, { subscriber: parameters['subscriber']!, topic });
}
