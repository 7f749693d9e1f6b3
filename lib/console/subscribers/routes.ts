import * as z from 'zod';

import { watchIncidents } from '../../components/incidents/watch.ts';
import { topicText } from '../kit/replay-request.ts';
import { answered, HTML_TYPE, invalid, refused } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { routesOf } from '../kit/action.ts';
import { HOME, subscribersPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { BY_NAME, subscriberActions, UNKNOWN } from './actions.ts';
import { subscribersPage } from './list-page.ts';
import { subscriberPage } from './page.ts';
import { readSubscriberHealth, spans, subscriberHealth } from './read.ts';
import type { SubscriberHealth } from './read.ts';
import { rename } from './rename.ts';
import { retire } from './retire.ts';
import { readStandings, subscriberStandings } from './standing.ts';

const SPAN = 'expected hours (the last 48) or days (the last 30)';

const query = z.object({
  span: z
    .enum(spans.options, SPAN)
    .default('hours')
    .meta({ description: 'The last 48 hours, or the last 30 days.' }),
  topic: topicText
    .optional()
    .meta({ description: 'Only this topic. Without it, all topics of the subscriber.' }),
});

const NOTHING = {
  delivered: 0,
  failedAttempts: 0,
  deadLettered: 0,
  replays: { delivered: 0, deadLettered: 0 },
  deliveredInMs: null,
  handlerMs: null,
  backlogAgeSeconds: null,
};

const BUSY = {
  ...NOTHING,
  delivered: 412,
  failedAttempts: 3,
  deadLettered: 1,
  deliveredInMs: { p50: 38.2, p95: 210.4 },
  handlerMs: { p50: 31.7, p95: 180.9 },
  backlogAgeSeconds: 61.3,
};

const ELSEWHERE = {
  batch: true,
  transactional: false,
  sharesCommits: false,
  timeoutMs: 15_000,
  maxAttempts: 5,
  afterDeadLetter: 'continue',
  outage: 'wait',
  onReplay: 'run',
  rate: null,
  concurrency: null,
} as const;

const DELIVERING = {
  subscriber: 'accounting',
  inCatalog: true,
  topics: { listed: 2, attached: 2, standIns: 0 },
  place: 'elsewhere',
  host: 'accounting.example.com',
  state: 'delivering',
  pausedBy: null,
  pauses: [],
  outage: null,
  limited: null,
  pending: 0,
  failing: 0,
  deadLettered: 1,
  lastDeliveredAt: '2026-02-21T09:30:58.412Z',
  lastFailedAt: '2026-02-21T08:44:12.003Z',
  lastAnswer: '500 licence expired',
} as const;

const PAUSE = {
  topic: null,
  pausedAt: '2026-02-21T09:12:40.000Z',
  pausedBy: 'kari',
  reason: 'The ledger is being moved.',
};

export const listSubscribers = operatorRoute({
  id: 'listSubscribers',
  path: subscribersPath(),
  scope: 'event-bus:read',
  summary: 'See where each subscriber runs, how it is, and what waits for it',
  answer: subscriberStandings,
  csv: [{ path: 'items', words: 'Subscribers' }],
  examples: {
    'as-json': {
      summary: 'All subscribers',
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        items: [
          {
            ...DELIVERING,
            subscriber: 'ledger',
            host: 'ledger.example.com',
            state: 'paused',
            pausedBy: 'kari',
            pauses: [PAUSE],
            pending: 12,
          },
          DELIVERING,
        ],
      }),
    },
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
  handle: async ({ bus }) => {
    const db = await bus.database();
    await watchIncidents(db);
    return await readStandings(db, bus.subscribers());
  },
  page: subscribersPage,
});

export const showSubscriber = operatorRoute({
  id: 'readSubscriberHealth',
  path: `${HOME}/subscribers/{subscriber}`,
  scope: 'event-bus:read',
  summary: 'See how a subscriber is, and its health over time',
  description:
    'Figures over time are approximate: a process that is killed loses those of its last seconds. The exact totals are in the metrics.',
  parameters: BY_NAME,
  query,
  answer: subscriberHealth,
  csv: [
    { path: 'intervals', words: 'Values of the charts' },
    { path: 'heldLanes', words: 'Held lanes' },
    { path: 'subscriptions', words: 'Subscriptions' },
    { path: 'actions', words: 'Actions' },
  ],
  problems: ['validation_failed'],
  unknown: UNKNOWN,
  examples: {
    'of-two-days': {
      summary: 'The last 48 hours',
      parameters: { subscriber: 'accounting', span: 'hours' },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        items: [DELIVERING],
        waitsForSeconds: null,
        subscriber: 'accounting',
        topic: null,
        topics: ['invoice.issued', 'payment.captured'],
        unlisted: [],
        subscriptions: [
          { topic: 'invoice.issued', place: 'elsewhere', options: ELSEWHERE, invalidVariable: null },
          { topic: 'payment.captured', place: 'elsewhere', options: ELSEWHERE, invalidVariable: null },
        ],
        incidents: [],
        heldLanes: [],
        span: 'hours',
        whole: BUSY,
        intervals: [
          { startsAt: '2026-02-21T08:00:00.000Z', ...NOTHING },
          { startsAt: '2026-02-21T09:00:00.000Z', ...BUSY },
        ],
        actions: [
          {
            at: '2026-02-21T09:12:40.000Z',
            action: 'pause',
            operator: 'kari',
            topic: null,
            deliveryId: null,
            deliveries: null,
            replayId: null,
            reason: 'Accounting is being moved.',
          },
        ],
        gaps: [],
      }),
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
  page: subscriberPage,
});

/** @throws Problem 400 */
function refuseTopic(topic: string, { subscriber, topics }: SubscriberHealth): never {
  const expected = z.never(`${subscriber} does not subscribe to it; expected for example ${topics[0]}`);
  requireValid({ topic }, z.object({ topic: expected }));
  throw new TypeError('the topic was refused');
}

export const subscriberRoutes = [
  listSubscribers,
  showSubscriber,
  ...routesOf(subscriberActions),
  ...rename.routes,
  ...retire.routes,
];
