import { readDeliveryId } from '../lib/bus/deliveries/delivery-id.ts';
import type { DeadLetter } from '../lib/console/event/view.ts';
import type { IncidentView } from '../lib/console/incidents/read.ts';
import { phraseOf, NO_NAMES } from '../lib/console/kit/document.ts';
import type { ShownSubscriber } from '../lib/console/subscribers/read.ts';
import type { Route } from './bus.ts';
import type { Far } from './follow.ts';

// What a word after a command may name. An action on it is over when nothing of it is under way any more.

interface Kind<View = unknown> {
  readonly look: () => Promise<Route<View>>;
  /** Says what came of an action. @param before how it was before that. */
  far(now: View, before: View): Promise<Far> | Far;
}

const delivery: Kind<DeadLetter> = {
  look: async () => (await import('../lib/console/event/views.ts')).showDeadLetter.route,
  async far({ attempts, state, generatedAt: now }) {
    const { historyOf } = await import('../lib/console/deliveries/history.ts');
    const last = attempts.at(-1)?.outcome;
    if (last === 'retried_early' || last === 'probed')
      return { words: 'No relay has attempted it yet.', isOver: false, isGood: false };
    const { what, notes } = historyOf({ attempts, nextAttemptAt: null }, now, NO_NAMES).at(-1)!;
    const said = [what, ...notes].map((part) => phraseOf(part).text).filter(Boolean);
    return { words: `${said.join(', ')}.`, isOver: true, isGood: state === 'delivered' };
  },
};

// While a delivery probes, the time of the next probe lies ahead: that it has ended is known by the number of probes.
const incident: Kind<IncidentView> = {
  look: async () => (await import('../lib/console/incidents/views.ts')).showIncident.route,
  async far(now, before) {
    const { failingLanes } = await import('../lib/console/incidents/read.ts');
    const isTried = failingLanes(now).every(({ nextAttemptAt }) => nextAttemptAt > now.generatedAt);
    return {
      words: now.sentence,
      isOver: now.outage ? now.outage.probes > (before.outage?.probes ?? 0) : isTried,
      isGood: now.state !== 'happening' && now.next === null,
    };
  },
};

const subscriber: Kind<ShownSubscriber> = {
  look: async () => (await import('../lib/console/subscribers/views.ts')).showSubscriber.route,
  async far(now, { items: [before] }) {
    const { outageSentence } = await import('../lib/console/subscribers/doc.ts');
    const [one] = now.items;
    const { outage } = one;
    return {
      words: outage
        ? outageSentence(one, outage, now.generatedAt)
        : `${now.subscriber} answers again. Its deliveries follow, in order.`,
      isOver: outage === null || outage.probes > (before.outage?.probes ?? 0),
      isGood: outage === null,
    };
  },
};

export const KINDS = { deliveryId: delivery, incidentId: incident, subscriber } as const;

/** Finds what a parameter of a path names. */
export function kindOf(parameter = ''): Kind | undefined {
  return Object.entries(KINDS).find(([name]) => name === parameter)?.[1];
}

/** Tells what a word names. An id of an incident has the form of a subscriber's name, too. */
export function kindNamed(word: string): keyof typeof KINDS {
  if (readDeliveryId(word) !== null) return 'deliveryId';
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(word) ? 'incidentId' : 'subscriber';
}
