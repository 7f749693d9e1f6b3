import { joinNames, quantity } from '../kit/words.ts';
import type { SmokeSubscriber, SmokeTest, SmokeWebhook } from './view.ts';

/** Names that one sentence takes. */
const MOST_NAMES = 6;

/** Says how many topics can reach `delivered`, and whom the others wait for, those of most topics first. */
export function topicWords({ topics: { total, deliverable, waitFor } }: SmokeTest): string {
  const can = `${deliverable} of ${total} topics can reach “delivered” here`;
  if (waitFor.length === 0) return `${can}.`;
  return `${can}; ${total - deliverable} wait for ${named(waitFor.map(({ subscriber }) => subscriber))}.`;
}

export const NO_RELAY =
  'This deployment does not relay, so no test event is sent: set RELAY=on if its database is its own.';

export type SmokeState = SmokeSubscriber['state'] | SmokeWebhook['state'];

const STATES = {
  arrived: 'arrived',
  waiting: 'not yet',
  failed: 'failed',
  not_sent: 'not sent',
  paused: 'paused',
  unattached: 'not attached',
  not_configured: 'not set up',
  misconfigured: 'wrong variable',
  not_tested: 'not tested',
} as const satisfies Record<SmokeState, string>;

export function stateWords(state: SmokeState): string {
  return STATES[state];
}

export function placeWords(place: SmokeSubscriber['place']): string {
  return place === 'elsewhere'
    ? 'HTTP'
    : place === 'in_process'
      ? 'here'
      : place === 'journal'
        ? 'stand-in'
        : '';
}

/** Who has the webhook's event: `payments and audit`, or who has it not yet, and why. */
export function recipientWords({ deliveries }: SmokeWebhook): string {
  const inState = (state: string, clause: string) => {
    const names = deliveries.filter((one) => one.state === state).map(({ subscriber }) => subscriber);
    return names.length === 0 ? [] : [`${joinNames(names)}${clause}`];
  };
  return [
    ...inState('arrived', ''),
    ...inState('waiting', ' (not yet)'),
    ...inState('failed', ' (failed)'),
    ...inState('paused', ' (paused)'),
    ...inState('unattached', ' (not attached)'),
  ].join(', ');
}

/** The time until the last subscriber that has the webhook's event had it. */
export function deliveredAfterMs({ deliveries }: SmokeWebhook): number | null {
  const times = deliveries.flatMap(({ afterMs }) => afterMs ?? []);
  return times.length === 0 ? null : Math.max(...times);
}

/** What the test came to, in one sentence, with the names of what did not arrive. */
export function outcomeWords({ test, webhooks, subscribers }: SmokeTest): string {
  const sent = [
    ...webhooks.map(({ provider, state }) => ({ name: provider, state })),
    ...subscribers.map(({ subscriber, state }) => ({ name: subscriber, state })),
  ].filter(({ state }) => IS_SENT.has(state));
  const missing = sent.filter(({ state }) => state !== 'arrived').map(({ name }) => name);
  if (sent.length === 0) return 'Nothing was sent: no provider is set up, and no subscriber is attached.';
  if (missing.length === 0) return `Everything arrived: ${quantity(sent.length, 'test')}.`;
  const arrived = `${sent.length - missing.length} of ${quantity(sent.length, 'test')} arrived`;
  return test?.state === 'waiting' ? `${arrived} so far.` : `${arrived}; ${named(missing)} did not.`;
}

function named(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return joinNames(more > 0 ? [...names.slice(0, MOST_NAMES), `${more} more`] : names);
}

const IS_SENT: ReadonlySet<string> = new Set(['arrived', 'waiting', 'failed', 'misconfigured']);
