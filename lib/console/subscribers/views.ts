import * as z from 'zod';

import { watchIncidents } from '../../components/incidents/watch.ts';
import { answered, HTML_TYPE, invalid, refused } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { HOME, subscribersPath } from '../kit/links.ts';
import { shapesIn } from '../kit/filters.ts';
import { view } from '../kit/view.ts';
import { BY_NAME, UNKNOWN } from './actions.ts';
import { subscriberDoc, subscribersDoc } from './doc.ts';
import { healthFilters } from './figures.ts';
import { readSubscriberHealth, spans, subscriberHealth } from './read.ts';
import type { SubscriberHealth } from './read.ts';
import { rename } from './rename.ts';
import { retire } from './retire.ts';
import { readStandings, subscriberStandings } from './standing.ts';

const SPAN = 'expected hours (the last 48) or days (the last 30)';

const query = z.object({
  ...shapesIn(healthFilters),
  span: z
    .enum(spans.options, SPAN)
    .default('hours')
    .meta({ description: 'The last 48 hours, or the last 30 days.' }),
});

export const listSubscribers = view({
  id: 'listSubscribers',
  path: subscribersPath(),
  summary: 'See where each subscriber runs, how it is, and what waits for it',
  answer: subscriberStandings,
  examples: {
    'as-json': {
      summary: 'All subscribers',
      answer: answered(),
    },
  },
  handle: async ({ bus }) => {
    const db = await bus.database();
    await watchIncidents(db);
    return await readStandings(db, bus.subscribers());
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
  id: 'readSubscriberHealth',
  path: `${HOME}/subscribers/{subscriber}`,
  summary: 'See how a subscriber is, and its health over time',
  description:
    'Figures over time are approximate: a process that is killed loses those of its last seconds. The exact totals are in the metrics.',
  parameters: BY_NAME,
  query,
  answer: subscriberHealth,
  problems: ['validation_failed'],
  unknown: UNKNOWN,
  examples: {
    'of-two-days': {
      summary: 'The last 48 hours',
      parameters: { subscriber: 'accounting', span: 'hours' },
      answer: answered(),
    },
    'of-a-topic': {
      summary: 'One topic, the last 30 days, as a page',
      parameters: { subscriber: 'accounting', span: 'days', topic: 'payment.captured' },
      answer: { status: 200, type: HTML_TYPE },
    },
    'no-such-subscriber': {
      summary: 'A subscriber that nothing names',
      parameters: { subscriber: 'telegrams' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
    'no-such-span': {
      summary: 'Another span',
      parameters: { subscriber: 'accounting', span: 'weeks' },
      answer: invalid('span', 'invalid_value', SPAN),
    },
  },
  handle: async ({ parameters, query: { span, topic }, bus }) => {
    const db = await bus.database();
    await watchIncidents(db);
    const health = await readSubscriberHealth(db, {
      ...parameters,
      topic,
      span,
      attachments: bus,
    });
    if (health && topic !== undefined && !health.topics.includes(topic)) refuseTopic(topic, health);
    return health;
  },
  says: subscriberDoc,
  command: {
    name: 'subscriber',
    argument: 'subscriber',
    summary: 'show how a subscriber is, what can be done, and how it did over time',
    notes: [
      'Shows where it runs, its state, who paused it and why, what waits, its last delivery, its last failure in its own words, and the commands that apply to it. Then deliveries, failures, the longest wait and the median (p50) and 95th percentile (p95) of times, by the hour for 48 hours or by the day for 30 days, and what operators did meanwhile.',
    ],
    filters: healthFilters,
    examples: [
      ['subscriber ledger', 'the ledger as it is now, and the last 48 hours'],
      ['subscriber ledger --topic payment.captured --span days', 'one topic, day by day'],
      [`subscriber ledger --json | jq -r '.items[0].state'`, 'its state in a word, for a script'],
    ],
    missing: ['The subscriber is missing.', 'For example: npx postbud subscriber ledger'],
  },
});

/** @throws Problem 400 */
function refuseTopic(topic: string, { subscriber, topics }: SubscriberHealth): never {
  const expected = z.never(`${subscriber} does not subscribe to it; expected for example ${topics[0]}`);
  requireValid({ topic }, z.object({ topic: expected }));
  throw new TypeError('the topic was refused');
}

export const subscriberViews = [
  listSubscribers,
  showSubscriber,
  ...[...rename.routes, ...retire.routes].map((route) => ({ route })),
];
