import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { matchingOf, matchingValues } from '../../bus/deliveries/operations/replay-matching.ts';
import { earlier, readEarlier } from '../kit/earlier.ts';
import { replayRequest } from '../kit/replay-request.ts';
import { countPlanned } from './planned.ts';
import type { ParsedReplayRequest } from '../kit/replay-request.ts';
import type { Replay } from '../../bus/deliveries/operations/replay.ts';
import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { msOf } from '../../platform/time.ts';
import {
  computed,
  count,
  field,
  instant,
  instantOrNull,
  instantSql,
  jsonOf,
  shapesOf,
  text,
} from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { asForm } from '../kit/form-request.ts';
import * as shape from '../kit/shapes.ts';
import type { LastError } from '../kit/shapes.ts';
import { isAttached, othersOf } from '../kit/subscription.ts';

/** A request for a replay from a form or a query. */
export const replayForm = asForm(replayRequest);

export const topicOrNull = shape.topic
  .nullable()
  .meta({ description: 'Null if the deliveries may be of several topics.' });

export const replayed = z
  .object({
    replayId: z.uuid(),
    topic: topicOrNull,
    since: z.string().nullable(),
    matched: shape.count,
    replayed: shape.count,
    why: z.string().optional().meta({ description: 'If nothing matched: why, and who was first.' }),
  })
  .meta({ id: 'Replayed', description: 'The re-queued deliveries.' }) satisfies z.ZodType<Replay>;

const leftOutFields = {
  topic: text('topic'),
  subscriber: text('subscriber'),
  count: count('count(*)'),
  reason: field(
    z.enum(['not_in_catalog', 'refuses_replays']).meta({
      description:
        '`not_in_catalog`: this release’s catalog does not list the subscriber for the topic. `refuses_replays`: its handler would act twice.',
    }),
    "case when bool_or(refuses) then 'refuses_replays' else 'not_in_catalog' end",
  ),
};
const leftOut = z.object(shapesOf(leftOutFields)).meta({ id: 'LeftOut' });

const subscriptionFields = {
  topic: text('topic'),
  subscriber: text('subscriber'),
  count: count('count'),
  skipped: count('skipped', 'How many of them an operator skipped.'),
  others: computed(
    shape.count.meta({ description: 'Number of other subscribers of the topic. They get nothing.' }),
  ),
  attached: computed(z.boolean()),
  paused: field(
    z.boolean(),
    `exists (select from pauses where pauses.subscriber = subscription.subscriber
        and pauses.topic in ('', subscription.topic))`,
  ),
  isStillFailing: field(
    z.boolean(),
    `coalesce(last_failed_at >= coalesce(last_delivered_at, '-infinity'), false)`,
  ),
  lastDeliveredAt: instantOrNull('last_delivered_at'),
  lastFailedAt: instantOrNull('last_failed_at'),
  lastError: computed(shape.lastError.nullable()),
};

const previewFields = {
  generatedAt: instant('clock.now'),
  request: computed(
    z
      .object(replayRequest.shape)
      .partial()
      .meta({ description: 'The request to send, with `until` and `expectedCount`.' }),
  ),
  replayId: computed(
    z.uuid().meta({ description: 'An id for the replay, so that sending the request twice replays once.' }),
  ),
  topic: computed(topicOrNull),
  matched: count('(select count(*) from matching)'),
  isAll: computed(z.boolean().meta({ description: 'Whether delivered events are included.' })),
  dismissed: count(
    '(select count(*) from matching where is_dismissed)',
    'How many of them an operator dismissed. They ended when they were dismissed.',
  ),
  unmatched: field(
    z.array(z.string()).meta({
      description: 'Of deliveries chosen by their ids: those that are not dead-lettered, or unknown.',
    }),
    `(
      select coalesce(json_agg(id order by id), '[]')
      from (select distinct id from jsonb_array_elements_text($6::text::jsonb) as id) as asked
      where id not in (select event_id || '.' || subscriber from found)
    )`,
  ),
  error: field(
    shape.lastError.nullable(),
    "(select json_build_object('kind', kind, 'message', message) from error_groups where key = $3::text)",
  ),
  createdFrom: instantOrNull('(select created_at from events where id = ends.first)'),
  createdTo: instantOrNull('(select created_at from events where id = ends.last)'),
  endedFrom: instantOrNull('ends.ended_from'),
  endedTo: instantOrNull('ends.ended_to'),
  subscriptions: computed(
    z.array(z.object(shapesOf(subscriptionFields)).meta({ id: 'PreviewedSubscription' })),
  ),
  leftOut: field(
    z.array(leftOut).meta({ description: 'Deliveries that the replay would leave out, and why.' }),
    `(
      select coalesce(json_agg(left_out order by topic, subscriber), '[]') from (
        select topic, subscriber, ${jsonOf(leftOutFields)} as left_out
        from found where not is_listed or refuses group by topic, subscriber
      ) as unlisted
    )`,
  ),
  planned: computed(
    shape.count.meta({ description: 'How many of them a paced replay that is under way will put back.' }),
  ),
  earlier: computed(
    earlier
      .nullable()
      .meta({ description: 'If nothing matches, or some are planned: who was first, and where.' }),
  ),
  estimatedSeconds: computed(
    z.number().nonnegative().nullable().meta({
      description: 'About how long the replay takes at its pace. Null without a pace.',
    }),
  ),
};
export const replayPreview = z.object(shapesOf(previewFields)).meta({
  id: 'ReplayPreview',
  description: 'The effect that a replay would have. Nothing was re-queued.',
});

/** The answer to `dryRun`: the preview, and the fields that the replay would have answered. */
export const dryRun = replayPreview
  .extend({ replayId: z.null(), since: z.string().nullable(), replayed: z.literal(0) })
  .meta({ id: 'DryRun', description: 'The answer to `dryRun: true`.' });

export type DryRun = z.output<typeof dryRun>;
export type ReplayPreview = z.output<typeof replayPreview>;
export type PreviewedSubscription = ReplayPreview['subscriptions'][number];
export type LeftOut = ReplayPreview['leftOut'][number];

/**
 * Previews a replay: which deliveries, to which subscribers, and whether those are healthy. Changes nothing.
 *
 * @param asked the request; without `until`, up to now.
 */
export async function previewReplay(
  db: Database,
  attached: readonly AttachedSubscriber[],
  asked: ParsedReplayRequest,
): Promise<ReplayPreview> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: statement(matchingOf(asked)),
    values: matchingValues(asked, attached),
  });
  const { until: end, subscriptions, ...found } = row!.found;
  // The replay must not include deliveries that are dead-lettered after the preview.
  const until = asked.until === undefined || msOf(asked.until) > 0 ? end : asked.until;
  const { dryRun: _, reason: __, replayId, expectedCount: ___, ...request } = asked;
  const planned = await countPlanned(db, attached, asked);
  const isTaken = found.matched === 0 || planned > 0;
  return {
    ...found,
    planned,
    request: { ...request, until, expectedCount: found.matched },
    replayId: replayId ?? uuidv7(),
    topic: asked.topic ?? null,
    isAll: asked.include === 'all',
    earlier: isTaken ? await readEarlier(db, asked) : null,
    subscriptions: subscriptions.map((subscription) => previewOf(subscription, attached)),
    estimatedSeconds: secondsOf(found.matched, asked.perMinute),
  };
}

/** @returns null without a pace. */
function secondsOf(deliveries: number, perMinute: number | undefined): number | null {
  return perMinute === undefined ? null : Math.ceil((deliveries / perMinute) * 60);
}

interface Found extends Row<typeof previewFields> {
  /** To the microsecond, as the database stores it. */
  readonly until: string;
  readonly subscriptions: readonly FoundSubscription[];
}

interface FoundSubscription extends Row<typeof subscriptionFields> {
  /** The newest failure that is known. Its message is masked where there is no payload. */
  readonly failure:
    | (LastError & { readonly at: string; readonly payload: unknown; readonly version: number | null })
    | null;
}

function previewOf(
  { failure, ...found }: FoundSubscription,
  attached: readonly AttachedSubscriber[],
): PreviewedSubscription {
  const known = failure?.version ? personalTexts(found.topic, failure.payload, failure.version) : [];
  return {
    ...found,
    others: othersOf(found),
    attached: isAttached(found, attached),
    // The error and the time are of one failure.
    lastFailedAt: failure?.at ?? found.lastFailedAt,
    lastError: failure && {
      kind: maskPersonalData(failure.kind, known),
      message: maskPersonalData(failure.message, known),
    },
  };
}

/** As many lanes as a topic's page lists. */
const READ_LANES = 50;

// The failures of a subscription: the newest of each error group, and the last one of each delivery that waits for a
// retry or was skipped. A skip is not a failure.
const FAILURES = `
  select newest.at, kind, message, null::uuid as event_id from error_groups, lateral (
    select max(dead_lettered_at) as at from exceptions where error_group = key
  ) as newest
  where error_groups.topic = subscription.topic and error_groups.subscriber = subscription.subscriber
    and (kind, message) <> ('${SKIPPED.kind}', '${SKIPPED.message}') and newest.at is not null
  union all
  select (entry ->> 'at')::timestamptz + (entry ->> 'durationMs')::float8 * interval '1 millisecond',
    entry ->> 'kind', entry ->> 'message', event_id
  from (
    (
      select event_id, attempt_log from lanes, lateral (
        select event_id, attempt_log, due_at from exceptions
        where exceptions.lane = lanes.id and due_at > (select now from clock) order by due_at limit ${READ_LANES}
      ) as waiting
      where lanes.topic = subscription.topic and lanes.subscriber = subscription.subscriber
      order by due_at limit ${READ_LANES}
    )
    union all
    select skipped.event_id, attempt_log from error_groups, lateral (
      select event_id, attempt_log from exceptions where error_group = key
      order by dead_lettered_at desc, lane desc, position desc limit 1
    ) as skipped
    where error_groups.topic = subscription.topic and error_groups.subscriber = subscription.subscriber
      and (kind, message) = ('${SKIPPED.kind}', '${SKIPPED.message}')
  ) as failed, lateral (
    select entry from jsonb_array_elements(attempt_log) with ordinality as logged(entry, number)
    where entry ->> 'outcome' = 'failed' order by number desc limit 1
  ) as last`;

const statement = (matching: string) => `
  with ${matching},
  subscription as materialized (
    select topic, subscriber, count(*) as count, count(*) filter (where error_group in (
      select key from error_groups where (kind, message) = ('${SKIPPED.kind}', '${SKIPPED.message}')
    )) as skipped
    from matching group by topic, subscriber
  ),
  described as (
    select topic, subscriber, ${jsonOf(subscriptionFields, {
      failure: `(
        select json_build_object('at', ${instantSql('failure.at')}, 'kind', kind, 'message', message,
          'payload', payload, 'version', version)
        from (${FAILURES}) as failure left join events on events.id = event_id
        order by failure.at desc limit 1
      )`,
    })} as subscription
    from subscription join (
      select topic, subscriber, last_delivered_at, last_failed_at from subscription_counts
    ) as known using (topic, subscriber)
  ),
  ends as (
    select min(ended_at) as ended_from, max(ended_at) as ended_to,
      (select event_id from matching order by event_id limit 1) as first,
      (select event_id from matching order by event_id desc limit 1) as last
    from matching
  )
  select ${jsonOf(previewFields, {
    until: `to_char(span.until at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    subscriptions: `(
      select coalesce(json_agg(subscription order by topic, subscriber), '[]') from described
    )`,
  })} as found
  from clock, span, ends`;
