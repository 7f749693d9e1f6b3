import * as z from 'zod';

import { driverOf, run } from '../../platform/db/statement.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { html } from '../../platform/markup.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { NO_REASON } from '../kit/action.ts';
import { orEarlier } from '../kit/earlier.ts';
import { NO_FILTER } from '../kit/filter.ts';
import { followedPath, follower } from '../kit/following.ts';
import type { Followed } from '../kit/following.ts';
import { knownIn } from '../kit/known-names.ts';
import { deadLettersPath, dismissPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import * as shape from '../kit/shapes.ts';
import { quantity } from '../kit/words.ts';
import { dismissMatching } from './dismiss-matching.ts';
import { dismissPlan, dismissPreview, previewDismissal } from './plan.ts';
import { dismissRequest } from './request.ts';

/** A function lives 30 seconds. */
const LONGEST_MS = 20 * SECOND;

const OF_A_DAY = { topic: 'payment.dispute.closed', since: '24h' };

const dryRun = z.boolean().default(false).meta({ description: 'Only counts what would be dismissed.' });

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

export const dismissal = operation({
  verb: 'dismiss',
  section: 'dead-letters',
  path: dismissPath({}),
  body: dismissRequest.safeExtend({ reason: shape.requiredReason, dryRun }).meta(shape.needsReason),
  asked: dismissRequest.safeExtend({ reason: z.string().default(''), dryRun }),
  preview: dismissPreview,
  answer: z.union([dismissed, dismissPreview]).meta({
    description: 'The dismissed dead letters; for a dry run, its effect.',
  }),
  shown: {
    id: 'previewDismissal',
    summary: 'Preview the dismissal of all dead letters that match',
    problems: ['validation_failed'],
    examples: {
      'of-a-day': {
        summary: 'The dead letters of one topic of the last day',
        parameters: OF_A_DAY,
        answer: answered(),
      },
      'without-a-filter': {
        summary: 'Without a filter',
        parameters: { since: '24h' },
        answer: invalid('topic', 'custom', NO_FILTER),
      },
    },
  },
  begun: {
    id: 'dismissMatching',
    summary: 'Dismiss all dead letters that match',
    description:
      'They leave all counts and lists, stay on record until their events are pruned, and can still be replayed with `include: "dismissed"`. Lanes that they halt go on. The operator and the reason are recorded for each subscription.',
    problems: ['not_confirmed', 'count_changed'],
    examples: {
      'of-a-day': {
        summary: 'The dead letters of one topic of the last day',
        json: { topic: 'support.incident.declared', since: '24h', reason: 'An exercise.' },
        answer: answered(),
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
  },
  async find({ bus, body }) {
    const { reason: _, dryRun: __, ...asked } = body;
    return await previewDismissal(await knownIn(bus, asked), asked);
  },
  async act({ bus, operator, body }) {
    const { reason, dryRun: _, ...asked } = body;
    const db = await knownIn(bus, asked);
    const how = { action: 'dismiss', by: operator.subject, reason, until: Date.now() + LONGEST_MS } as const;
    return await orEarlier(db, asked, dismissMatching(db, asked, how));
  },
  says: dismissPlan,
  reason: ['booked by hand'],
  leads({ left, dismissedAt }, { topic, subscriber, group, q, since, until, deliveryIds }) {
    const rest = { topic, subscriber, group, q, since, until, deliveryIds: deliveryIds?.join(',') };
    const path = left > 0 ? dismissPath(rest) : deadLettersPath({ topic, subscriber });
    return followedPath(path, 'dismiss-matching', { at: dismissedAt });
  },
  command: {
    summary: 'dismiss dead letters, which will not be replayed: of an incident, one, or all that match',
    usage: [],
    notes: [],
    examples: [],
    options: {
      topic: { value: '<topic>', help: 'all dead letters of this topic' },
      subscriber: { value: '<name>', help: 'only this subscriber' },
      group: {
        value: '<group>',
        isList: true,
        help: 'only one group of equal errors, by its id in dead-letters --json; can be repeated',
      },
      q: { name: 'search', value: '<words>', help: 'only errors that contain these words' },
      since: {
        value: '<24h>',
        help: 'dead-lettered within this time, such as 90m, 24h or 7d; by default all',
      },
      until: {
        value: '<1h>',
        help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
      },
      deliveryIds: {
        name: 'delivery',
        value: '<deliveryId>',
        isList: true,
        help: 'this delivery; can be repeated',
      },
    },
    nothing: 'Nothing was dismissed.',
    example: 'dismiss --topic payment.captured --since 24h --reason "test data"',
    isReasonNeeded: true,
    counted: (matched) => `${quantity(matched, 'dead letter')} ${matched === 1 ? 'matches' : 'match'}`,
    step: ({ dismissed: done, left }) => ({ done, left }),
    done: ({ left }, _, sum) => ({
      isGood: left === 0,
      isCounted: true,
      words: `Dismissed ${quantity(sum, 'dead letter')}.${left === 0 ? '' : ` ${quantity(left, 'dead letter')} left: run it again.`}`,
    }),
  },
});

/** Says how many dead letters a dismissal of all that match took. */
export const matchingDismissal: Followed = {
  name: 'dismiss-matching',
  follow: follower(z.object({ at: z.iso.datetime('expected an instant') }), async (db, { at }) => {
    const [found] = await run<{ now: number; since: number; dismissed: number }>(driverOf(db), {
      text: DISMISSED,
      values: [at],
    });
    if (!found) return null;
    return {
      tone: 'ok',
      words: html`<b>Dismissed ${quantity(found.dismissed, 'dead letter')}.</b> They are in no count any more,
        and can still be replayed.`,
      isSettled: true,
      since: instantOf(found.since),
      now: instantOf(found.now),
    };
  }),
};

const DISMISSED = `
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from at) * 1000)::float8 as since,
    (select count(*)::int from deliveries where dismissed_at = at) as dismissed
  from operator_actions where at = $1::text::timestamptz and action = 'dismiss' limit 1`;
