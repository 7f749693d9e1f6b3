import * as z from 'zod';

import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { SECOND } from '../../platform/time.ts';
import { NO_REASON } from '../kit/action.ts';
import { readConfirmedForm } from '../kit/confirmed-form.ts';
import { orEarlier } from '../kit/earlier.ts';
import { NO_FILTER } from '../kit/filter.ts';
import { followedPath } from '../kit/following.ts';
import { asForm } from '../kit/form-request.ts';
import { requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { deadLettersPath, dismissPath, HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { dismissMatching } from './dismiss-matching.ts';
import { dismissPage } from './page.ts';
import { dismissBody, dismissDryRun, dismissForm, dismissPreview, previewDismissal } from './preview.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

const OF_A_DAY = { topic: 'payment.dispute.closed', since: '24h' };

const PREVIEW = {
  generatedAt: '2026-02-21T09:31:00.000000Z',
  request: { ...OF_A_DAY, until: '2026-02-21T09:31:00.000000Z', expectedCount: 2 },
  matched: 2,
  others: 5,
  earlier: null,
  subscriptions: [
    {
      topic: 'payment.dispute.closed',
      subscriber: 'accounting',
      count: 2,
      others: 1,
      skipped: 0,
      halting: 0,
      firstAt: '2026-02-21T09:30:00.420Z',
      lastAt: '2026-02-21T09:30:00.460Z',
    },
  ],
};

export const showDismissal = operatorRoute({
  id: 'previewDismissal',
  path: `${HOME}/dismiss`,
  scope: 'event-bus:read',
  summary: 'Preview the dismissal of all dead letters that match',
  query: dismissForm,
  answer: dismissPreview,
  problems: ['validation_failed'],
  examples: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      parameters: OF_A_DAY,
      answer: answered(PREVIEW),
    },
    'without-a-filter': {
      summary: 'Without a filter',
      parameters: { since: '24h' },
      answer: invalid('topic', 'custom', NO_FILTER),
    },
  },
  handle: async ({ query, bus }) => await previewDismissal(await knownIn(bus, query), query),
  page: dismissPage,
});

const dismissed = z
  .object({
    matched: shape.count,
    dismissed: shape.count,
    left: shape.count.meta({
      description:
        'Dead letters that there was no time for. The same request with this number as `expectedCount` continues.',
    }),
    dismissedAt: shape.instant.meta({ description: 'The `dismissedAt` of all of them.' }),
  })
  .meta({ id: 'DismissedMatching', description: 'The dismissed dead letters.' });

export const dismissAllThatMatch = operatorRoute({
  id: 'dismissMatching',
  path: `${HOME}/dismiss`,
  scope: 'event-bus:replay',
  summary: 'Dismiss all dead letters that match',
  description:
    'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed with `include: "dismissed"`. Lanes that they halt go on. The operator and the reason are recorded for each subscription.',
  body: dismissBody,
  readForm: (content) => readConfirmedForm(content, asForm(dismissBody)),
  dryRun: dismissDryRun,
  answer: z.union([dismissed, dismissPreview]).meta({
    description: 'The dismissed dead letters; for a dry run, its effect.',
  }),
  problems: ['not_confirmed', 'count_changed'],
  examples: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      json: { topic: 'support.incident.declared', since: '24h', reason: 'An exercise.' },
      answer: answered({
        matched: 2,
        dismissed: 2,
        left: 0,
        dismissedAt: '2026-02-21T09:31:00.000000Z',
      }),
    },
    'another-number': {
      summary: 'The number that matches differs from the expected one',
      json: { topic: 'support.incident.declared', since: '24h', expectedCount: 1000, reason: 'Test data.' },
      answer: refused('count_changed', {
        detail: '0 deliveries match, not 1000: check them again before you dismiss.',
      }),
    },
    'without-a-reason': { summary: 'Without a reason', json: OF_A_DAY, answer: NO_REASON },
  },
  handle: async ({ body: { reason, dryRun, ...asked }, operator, bus }) => {
    const db = await knownIn(bus, asked);
    if (dryRun) return await previewDismissal(db, asked);
    const how = { action: 'dismiss', by: operator.subject, reason, until: Date.now() + LONGEST_MS } as const;
    return await orEarlier(db, asked, dismissMatching(db, asked, how));
  },
  page: (view, context) => {
    if (!('request' in view)) throw new TypeError('only a dry run is drawn as a page');
    return dismissPage(view, context);
  },
  redirectTo: (view, { body: { topic, subscriber, group, q, since, until, deliveryIds } }) => {
    if ('request' in view) return null;
    const { left, dismissedAt } = view;
    const rest = { topic, subscriber, group, q, since, until, deliveryIds: deliveryIds?.join(',') };
    const path = left > 0 ? dismissPath(rest) : deadLettersPath({ topic, subscriber });
    return followedPath(path, 'dismiss-matching', { at: dismissedAt });
  },
});

export const dismissRoutes = [showDismissal, dismissAllThatMatch];

/** @throws Problem 404 for a topic or a subscriber that there never was. */
async function knownIn(
  bus: Bus,
  { topic, subscriber }: Pick<z.output<typeof dismissForm>, 'topic' | 'subscriber'>,
) {
  const db = await bus.database();
  await requireKnownTopic(db, topic);
  await requireKnownSubscriber(db, subscriber);
  return db;
}
