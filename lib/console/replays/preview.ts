import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import { MATCHING, matchingValues, wayOf } from '../../bus/deliveries/operations/replay-matching.ts';
import { replayRequest } from '../../bus/deliveries/operations/replay-request.ts';
import type { ParsedReplayRequest } from '../../bus/deliveries/operations/replay-request.ts';
import type { Replay } from '../../bus/deliveries/operations/replay.ts';
import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { maskPersonalData, personalTexts } from '../../platform/masking/personal.ts';
import { instantOf, instantOrNull, msOf } from '../../platform/time.ts';
import { asForm } from '../kit/form-request.ts';
import * as shape from '../kit/shapes.ts';
import type { LastError } from '../kit/shapes.ts';

/** A request for a replay from a form or a query. */
export const replayForm = asForm(replayRequest);

export const topicOrNull = shape.topic
  .nullable()
  .meta({ description: 'Null if the deliveries were chosen by id.' });

export const replayed = z
  .object({
    replayId: z.uuid().nullable().meta({ description: 'Null for a dry run.' }),
    topic: topicOrNull,
    since: z.string().nullable(),
    matched: shape.count,
    replayed: shape.count,
  })
  .meta({ id: 'Replayed', description: 'The re-queued deliveries.' }) satisfies z.ZodType<Replay>;

const leftOut = z
  .object({
    topic: shape.topic,
    subscriber: z.string(),
    count: shape.count,
    reason: z.enum(['not_in_catalog', 'refuses_replays']).meta({
      description:
        '`not_in_catalog`: this release’s catalog does not list the subscriber for the topic. `refuses_replays`: its handler would act twice.',
    }),
  })
  .meta({ id: 'LeftOut' });

export const replayPreview = z
  .object({
    generatedAt: shape.instant,
    request: z
      .object(replayRequest.shape)
      .partial()
      .meta({ description: 'The request to send, with `until` and `expectedCount`.' }),
    replayId: z
      .uuid()
      .meta({ description: 'An id for the replay, so that sending the request twice replays once.' }),
    topic: topicOrNull,
    matched: shape.count,
    isAll: z.boolean().meta({ description: 'Whether delivered events are included.' }),
    error: shape.lastError.nullable(),
    createdFrom: shape.instant.nullable(),
    createdTo: shape.instant.nullable(),
    endedFrom: shape.instant.nullable(),
    endedTo: shape.instant.nullable(),
    subscriptions: z.array(
      z
        .object({
          topic: shape.topic,
          subscriber: z.string(),
          count: shape.count,
          others: shape.count.meta({
            description: 'Number of other subscribers of the topic. They get nothing.',
          }),
          attached: z.boolean(),
          paused: z.boolean(),
          isStillFailing: z.boolean(),
          lastDeliveredAt: shape.instant.nullable(),
          lastFailedAt: shape.instant.nullable(),
          lastError: shape.lastError.nullable(),
        })
        .meta({ id: 'PreviewedSubscription' }),
    ),
    leftOut: z.array(leftOut).meta({ description: 'Deliveries that the replay would leave out, and why.' }),
    estimatedSeconds: z.number().nonnegative().nullable().meta({
      description: 'About how long the replay takes at its pace. Null without a pace.',
    }),
  })
  .meta({
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
    text: PREVIEW[wayOf(asked)],
    values: matchingValues(asked, attached),
  });
  const { found } = row!;
  const generatedAt = instantOf(found.now);
  // The replay must not include deliveries that are dead-lettered after the preview.
  const until = asked.until === undefined || msOf(asked.until) > 0 ? found.until : asked.until;
  const { dryRun: _, reason: __, replayId, expectedCount: ___, ...request } = asked;
  return {
    generatedAt,
    request: { ...request, until, expectedCount: found.matched },
    replayId: replayId ?? uuidv7(),
    topic: asked.topic ?? null,
    matched: found.matched,
    isAll: asked.include === 'all',
    error: found.error,
    createdFrom: instantOrNull(found.created_from),
    createdTo: instantOrNull(found.created_to),
    endedFrom: instantOrNull(found.ended_from),
    endedTo: instantOrNull(found.ended_to),
    subscriptions: found.subscriptions.map((subscription) => previewOf(subscription, attached)),
    leftOut: [...found.left_out],
    estimatedSeconds: secondsOf(found.matched, asked.perMinute),
  };
}

/** @returns null without a pace. */
function secondsOf(deliveries: number, perMinute: number | undefined): number | null {
  return perMinute === undefined ? null : Math.ceil((deliveries / perMinute) * 60);
}

/** The statement's result. Times are epoch milliseconds. */
interface Found {
  readonly now: number;
  /** To the microsecond, as the database stores it. */
  readonly until: string;
  readonly matched: number;
  readonly error: LastError | null;
  readonly created_from: number | null;
  readonly created_to: number | null;
  readonly ended_from: number | null;
  readonly ended_to: number | null;
  readonly subscriptions: readonly FoundSubscription[];
  readonly left_out: readonly LeftOut[];
}

interface FoundSubscription {
  readonly topic: string;
  readonly subscriber: string;
  readonly count: number;
  readonly is_paused: boolean;
  readonly is_still_failing: boolean | null;
  readonly last_delivered: number | null;
  readonly last_failed: number | null;
  /** The newest failure that is known. Its message is masked where there is no payload. */
  readonly failure:
    | (LastError & { readonly at: number; readonly payload: unknown; readonly version: number | null })
    | null;
}

function previewOf(found: FoundSubscription, attached: readonly AttachedSubscriber[]): PreviewedSubscription {
  const { topic, subscriber, count, failure } = found;
  const known = failure?.version ? personalTexts(topic, failure.payload, failure.version) : [];
  return {
    topic,
    subscriber,
    count,
    others: isTopicName(topic) ? catalog[topic].subscribers.filter((name) => name !== subscriber).length : 0,
    attached: attached.some(({ name, handlers }) => name === subscriber && handlers.has(topic)),
    paused: found.is_paused,
    isStillFailing: found.is_still_failing ?? false,
    lastDeliveredAt: instantOrNull(found.last_delivered),
    // The error and the time are of one failure.
    lastFailedAt: instantOrNull(failure?.at ?? found.last_failed),
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
    select max(dead_lettered_at) as at from deliveries where error_group = key
  ) as newest
  where error_groups.topic = subscription.topic and error_groups.subscriber = subscription.subscriber
    and (kind, message) <> ('${SKIPPED.kind}', '${SKIPPED.message}') and newest.at is not null
  union all
  select (entry ->> 'at')::timestamptz + (entry ->> 'durationMs')::float8 * interval '1 millisecond',
    entry ->> 'kind', entry ->> 'message', event_id
  from (
    select first.event_id, attempt_log from (
      select lanes.* from lanes
      where lanes.topic = subscription.topic and lanes.subscriber = subscription.subscriber
        and due_at > (select now from clock) and due_at < 'infinity' and lease_token is null
      order by due_at limit ${READ_LANES}
    ) as waiting, lateral (
      select deliveries.event_id, attempt_log
      from postbud_next_2(waiting.id, home_id, slot, held_key, head, 1) as next join deliveries
        on lane_id = coalesce(home_id, waiting.id) and deliveries.position = next.position
    ) as first
    union all
    select skipped.event_id, attempt_log from error_groups, lateral (
      select event_id, attempt_log from deliveries where error_group = key
      order by dead_lettered_at desc, lane_id desc, position desc limit 1
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
    select topic, subscriber, count(*) as count from matching join lanes on lanes.id = lane_id
    group by topic, subscriber
  ),
  described as (
    select topic, subscriber, count,
      exists (select from pauses where pauses.subscriber = subscription.subscriber
        and pauses.topic in ('', subscription.topic)) as is_paused,
      last_failed_at >= coalesce(last_delivered_at, '-infinity') as is_still_failing,
      extract(epoch from last_delivered_at) * 1000 as last_delivered,
      extract(epoch from last_failed_at) * 1000 as last_failed, (
        select json_build_object('at', extract(epoch from failure.at) * 1000, 'kind', kind, 'message', message,
          'payload', payload, 'version', version)
        from (${FAILURES}) as failure left join events on events.id = event_id
        order by failure.at desc limit 1
      ) as failure
    from subscription, lateral (
      select max(last_delivered_at) as last_delivered_at, max(last_failed_at) as last_failed_at from backlog
      where backlog.topic = subscription.topic and backlog.subscriber = subscription.subscriber
    ) as known
  ),
  ends as (
    select min(ended_at) as ended_from, max(ended_at) as ended_to, min(position) as first, max(position) as last
    from matching
  )
  select json_build_object(
    'now', extract(epoch from clock.now) * 1000,
    'until', to_char(span.until at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'matched', (select count(*) from matching),
    'error', (select json_build_object('kind', kind, 'message', message) from error_groups where key = $3::text),
    'created_from', (
      select extract(epoch from created_at) * 1000 from matching join events on events.id = event_id
      where position = ends.first limit 1
    ),
    'created_to', (
      select extract(epoch from created_at) * 1000 from matching join events on events.id = event_id
      where position = ends.last limit 1
    ),
    'ended_from', extract(epoch from ends.ended_from) * 1000, 'ended_to', extract(epoch from ends.ended_to) * 1000,
    'subscriptions', (
      select coalesce(json_agg(described order by topic, subscriber), '[]') from described
    ),
    'left_out', (
      select coalesce(json_agg(unlisted order by topic, subscriber), '[]') from (
        select topic, subscriber, count(*) as count,
          case when bool_or(refuses) then 'refuses_replays' else 'not_in_catalog' end as reason
        from found where not is_listed or refuses group by topic, subscriber
      ) as unlisted
    )
  ) as found
  from clock, span, ends`;

const PREVIEW = {
  chosen: statement(MATCHING.chosen),
  deadLetters: statement(MATCHING.deadLetters),
  dismissed: statement(MATCHING.dismissed),
  everything: statement(MATCHING.everything),
};
