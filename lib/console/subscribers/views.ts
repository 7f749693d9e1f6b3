import { HOME, subscribersPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { BY_NAME, UNKNOWN } from './actions.ts';
import { subscriberDoc, subscribersDoc } from './doc.ts';
import { readSubscriber, shownSubscriber } from './read.ts';
import { rename, retire } from './operations.ts';
import { readStandings, subscriberStandings } from './standing.ts';

export const listSubscribers = view({
  id: 'listSubscribers',
  path: subscribersPath(),
  summary: 'See where each subscriber runs, how it is, and what waits for it',
  answer: subscriberStandings,
  handle: async ({ bus }) => {
    const db = await bus.database();
    const { subscriptions: _, ...shown } = await readStandings(db, bus.subscribers());
    return shown;
  },
  says: subscribersDoc,
  command: {
    name: 'subscribers',
    summary: 'show where each subscriber runs, how it is, and what waits',
    notes: [
      'Shows all components that receive events, those in trouble first: outage, failing, paused, delivering, ready (nothing has been delivered to it yet), or unattached, which means that no process or endpoint is set up for it here.',
    ],
    examples: [
      ['subscribers', 'all of them'],
      [
        `subscribers --json | jq '.items[] | select(.state == "paused")'`,
        'those that are paused, for a script',
      ],
    ],
  },
});

export const showSubscriber = view({
  id: 'readSubscriber',
  path: `${HOME}/subscribers/{subscriber}`,
  summary: 'See how a subscriber is, what goes wrong with it, and where each of its topics is handled',
  parameters: BY_NAME,
  answer: shownSubscriber,
  unknown: UNKNOWN,
  handle: async ({ parameters: { subscriber }, bus }) =>
    await readSubscriber(await bus.database(), subscriber, bus),
  says: subscriberDoc,
  command: {
    name: 'subscriber',
    argument: 'subscriber',
    summary: 'show how a subscriber is, and what can be done',
    notes: [
      'Shows where it runs, its state, who paused it and why, what waits, its last delivery, its last failure in its own words, and the commands that apply to it.',
    ],
    examples: [
      ['subscriber ledger', 'the ledger as it is now'],
      [`subscriber ledger --json | jq -r '.items[0].state'`, 'its state in a word, for a script'],
    ],
  },
});

export const subscriberViews = [
  listSubscribers,
  showSubscriber,
  ...[...rename.routes, ...retire.routes].map((route) => ({ route })),
];
