import type { Try } from '../lib/console/deliveries/attempts.ts';
import type { DeadLetter } from '../lib/console/event/delivery.ts';
import type { IncidentView } from '../lib/console/incidents/detail.ts';
import { silenceWords } from '../lib/console/incidents/outage.ts';
import { othersOf } from '../lib/console/incidents/words.ts';
import { earlierPhrase } from '../lib/console/kit/earlier-words.ts';
import type { Earlier } from '../lib/console/kit/earlier-words.ts';
import { timeText, until } from '../lib/console/kit/instants.ts';
import { failureText } from '../lib/console/kit/states.ts';
import { quantity, quantityOfLanes } from '../lib/console/kit/words.ts';
import type { SubscriberHealth } from '../lib/console/subscribers/read.ts';
import type { Refinement } from './action.ts';
import type { Call } from './command.ts';
import { wrapTo } from './text.ts';
import { inZone } from './times.ts';

const why = { option: 'reason', example: 'it is back', isOptional: true } as const;

/** Retries the delivery that holds its lane; waits until it has been attempted. */
export const ofDelivery = {
  why,
  async readFirst({ bus, terminal }, { parameters }) {
    const { showRetryPrice } = await import('../lib/console/lanes/retry-price.ts');
    const { text } = (await bus.ask(showRetryPrice, { parameters })).view;
    terminal.err.write(wrapTo(terminal.err.columns, `A retry is ${text}.`));
  },
  done: ({ topic, subscriber }, { subjects: { deliveryId } }) =>
    `Delivery ${deliveryId!} (${topic} to ${subscriber}) is due now.`,
  follow: {
    look: async (call, { parameters }) => await readDelivery(call, parameters['deliveryId']!),
    isSettled: (now, before) => newTry(now, before) !== null,
    waiting: () => 'Waiting for the attempt…',
    ends(now, before) {
      const last = newTry(now, before);
      return { isGood: last?.outcome === 'delivered', words: attemptWords(now, last) };
    },
  },
} satisfies Refinement<{ readonly topic: string; readonly subscriber: string }, DeadLetter, void>;

/** Tries the delivery that holds its lane once, at no cost; waits until it has been attempted. */
export const probeOfDelivery = {
  why,
  done: ({ topic, subscriber }, { subjects: { deliveryId } }) =>
    `Delivery ${deliveryId!} (${topic} to ${subscriber}) is tried now; if it fails, that costs no attempt.`,
  follow: ofDelivery.follow,
} satisfies Refinement<{ readonly topic: string; readonly subscriber: string }, DeadLetter>;

/** Retries the first blocked lanes of an incident; waits until each has been attempted. */
export const ofIncident = {
  why,
  done: ({ retried, earlier }) =>
    retried > 0
      ? `${quantity(retried, 'lane')} due now.`
      : earlier === null
        ? 'No lane waits for a retry.'
        : earlierPhrase(earlier, earlier.at).text,
  follow: {
    look: async (call, { parameters }) => await readIncident(call, parameters['incidentId']!),
    isExpected: ({ retried }) => retried > 0,
    // Each delivers again, or has failed again and waits.
    isSettled: ({ state, lanes, generatedAt }) =>
      state !== 'happening' || lanes.every(({ nextAttemptAt }) => nextAttemptAt > generatedAt),
    waiting: ({ blockedLanes }) => `${quantityOfLanes(blockedLanes)} blocked`,
    ends: (now) => ({
      isGood: [now, ...othersOf(now)].every(({ state }) => state !== 'happening'),
      words: incidentWords(now),
    }),
  },
} satisfies Refinement<{ readonly retried: number; readonly earlier: Earlier | null }, IncidentView>;

/** Probes a subscriber that does not answer; waits until it has answered or not. */
export const ofSubscriber = {
  why,
  done: (_, { subjects: { subscriber } }) => `The next probe of ${subscriber!} is due now.`,
  follow: {
    async look({ bus }, { parameters }) {
      const { showSubscriber } = await import('../lib/console/subscribers/views.ts');
      return await bus.ask(showSubscriber.route, { parameters });
    },
    isSettled: ({ items: [{ outage }] }, { items: [before] }) =>
      outage === null || outage.probes > (before.outage?.probes ?? 0),
    waiting: ({ subscriber }) => `Waiting for the answer of ${subscriber}…`,
    ends: (now) => ({ isGood: now.items[0].outage === null, words: answerWords(now) }),
  },
} satisfies Refinement<unknown, SubscriberHealth>;

/** Whether a text may be the name of a subscriber, and no id. */
export const isSubscriberName = (written: string) => /^[a-z][\w.-]{0,99}$/i.test(written);

/** Reads a delivery in any state. */
export async function readDelivery({ bus }: Call, deliveryId: string) {
  const { showDeadLetter } = await import('../lib/console/dead-letters/views.ts');
  return await bus.ask(showDeadLetter.route, { parameters: { deliveryId } });
}

export async function readIncident({ bus }: Call, incidentId: string) {
  const { showIncident } = await import('../lib/console/incidents/views.ts');
  return await bus.ask(showIncident.route, { parameters: { incidentId } });
}

const triesOf = ({ attempts }: DeadLetter) =>
  attempts.filter((attempt): attempt is Try => 'attempt' in attempt);

/** @returns the last attempt since then, if there is one. */
function newTry(now: DeadLetter, before: DeadLetter): Try | null {
  const tries = triesOf(now);
  return tries.length > triesOf(before).length ? tries.at(-1)! : null;
}

function attemptWords(view: DeadLetter, last: Try | null): string {
  const { generatedAt: now, nextAttemptAt } = view;
  if (last === null) return 'No relay has attempted it yet.';
  const next = nextAttemptAt === null ? '' : `, next attempt ${until(nextAttemptAt, now)}`;
  switch (last.outcome) {
    case 'delivered':
      return `Delivered at ${inZone(timeText(view.deliveredAt ?? last.at, now))}.`;
    case 'waited':
      if (last.isProbe) return `It still fails: ${failureText(last.error!)}. No attempt was used up${next}.`;
      return `The subscriber asked to wait${next}.`;
    case 'failed': {
      const error = last.error ? `: ${failureText(last.error)}` : '';
      const dead = view.state === 'dead_lettered' ? ' and was dead-lettered' : next;
      return `Attempt ${last.attempt} failed${dead}${error}`;
    }
  }
}

function incidentWords(view: IncidentView): string {
  if (view.state !== 'happening' || view.blockedLanes === 0)
    return [view, ...othersOf(view).filter(({ state }) => state === 'happening')]
      .map(({ sentence }) => sentence)
      .join(' ');
  const [first] = view.lanes;
  const next = first ? `, the next attempt ${until(first.nextAttemptAt, view.generatedAt)}` : '';
  return `${quantityOfLanes(view.blockedLanes)} blocked, last error ${failureText(view.lastError)}${next}.`;
}

function answerWords({ subscriber, items: [{ outage }], generatedAt: now }: SubscriberHealth): string {
  if (outage === null) return `${subscriber} answers again. Its deliveries follow, in order.`;
  const { kind, since, nextProbeAt } = outage;
  return `No answer: ${subscriber} ${silenceWords(kind)} since ${timeText(since, now)}. Next probe ${until(nextProbeAt, now)}.`;
}
