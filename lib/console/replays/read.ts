import * as z from 'zod';

import { ago, isInstant, topicText } from '../kit/replay-request.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import { actFields, SKIPPED_TOGETHER, STANDS_FOR_ACT } from '../kit/acts.ts';
import { cursorOf, writeCursor } from '../kit/cursor.ts';
import {
  count,
  field,
  instant,
  instantOrNull,
  instantSql,
  jsonOf,
  shapesOf,
  text,
  textOrNull,
} from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { topicOrNull } from './preview.ts';

/** So far, of a paced one. */
const REPLAYED = 'coalesce((select put_back from paced_replays where replay_id = replays.id), replayed)';

const recordFields = {
  replayId: field(z.uuid(), 'replays.id'),
  topic: field(topicOrNull, 'replays.topic'),
  requestedAt: instant('requested_at'),
  requestedBy: text('requested_by'),
  reason: textOrNull('reason'),
  request: field(
    z.record(z.string(), z.unknown()).meta({ description: 'The request as it was sent.' }),
    'request',
  ),
  matched: count('matched'),
  replayed: count(REPLAYED, 'Deliveries put back. Of a paced replay, so far.'),
  recipients: field(
    z
      .array(z.object({ topic: shape.topic, subscriber: z.string(), count: shape.count }))
      .nullable()
      .meta({
        description:
          'The subscribers that got the re-queued deliveries. Null for a replay by a release that did not record them.',
      }),
    'recipients',
  ),
};
const record = z.object(shapesOf(recordFields));

const stopFields = {
  at: instant('at'),
  by: text('operator'),
  reason: textOrNull('reason'),
};

const LEFT = `case when ended_at is null or exists (select from operator_actions where replay_id = replays.id)
      then planned - put_back else 0 end`;

const paceFields = {
  perMinute: field(z.int().positive(), 'per_minute'),
  left: count(LEFT, 'Deliveries that it has not put back yet; of a stopped one, that stay as they were.'),
  passedOver: count(
    `planned - put_back - (${LEFT})`,
    'Of one that has ended: deliveries that had been replayed, dismissed or pruned, or whose handler refused replays, when their turn came.',
  ),
  endsAt: instantOrNull(
    `case when ended_at is null then
      greatest(next_at, clock_timestamp()) + (${LEFT}) * interval '1 minute' / per_minute
    end`,
    'About when the last delivery is put back. Null once it has ended.',
  ),
  endedAt: instantOrNull('ended_at'),
  stopped: field(
    z.object(shapesOf(stopFields)).nullable().meta({ description: 'The operator who stopped it.' }),
    `(select ${jsonOf(stopFields)} from operator_actions where replay_id = replays.id limit 1)`,
  ),
};
const pace = z
  .object(shapesOf(paceFields))
  .meta({ id: 'ReplayPace', description: 'How far a paced replay is.' });

const stateFields = {
  pending: count('pending'),
  failing: count('failing'),
  deadLettered: count('dead'),
  delivered: count('delivered'),
  replayedAgain: count(`${REPLAYED} - pending - failing - dead - delivered`),
};

const progressFields = {
  generatedAt: instant('clock_timestamp()'),
  ...recordFields,
  lastDeliveredAt: instantOrNull('last_delivered'),
  pace: field(
    pace.nullable().meta({ description: 'Null for a replay that put everything back at once.' }),
    `(select ${jsonOf(paceFields)} from paced_replays where replay_id = replays.id)`,
  ),
  progress: field(
    z
      .object(shapesOf(stateFields))
      .meta({ description: 'The states of its deliveries now; they add up to `replayed`.' }),
    jsonOf(stateFields),
  ),
};
export const replayProgress = z.object(shapesOf(progressFields)).meta({
  id: 'ReplayProgress',
  description: 'A replay and the states of its deliveries now.',
});

const actionFields = {
  actionId: field(z.uuid(), 'id'),
  at: instant('at'),
  operator: text('operator'),
  action: text('action', 'The name of the action, for example `retry`, `skip`, `pause`.'),
  topic: textOrNull('topic'),
  subscriber: textOrNull('subscriber'),
  ...actFields,
  eventId: field(z.uuid().nullable(), 'event_id'),
  reason: textOrNull('reason'),
  incidentId: textOrNull('incident_id', 'The incident that it was done on.'),
  replayId: textOrNull('replay_id', 'The replay that was stopped.'),
  backfillId: field(
    z.uuid().nullable().meta({ description: 'The backfill that it began or stopped.' }),
    'backfill_id',
  ),
  erasureId: field(
    z.uuid().nullable().meta({
      description: 'The erasure that it began. Whose data it erased is not in the log.',
    }),
    'erasure_id',
  ),
  progress: field(
    z.object({ done: shape.count, of: shape.count, endedAt: shape.instant.nullable() }).nullable().meta({
      description:
        'How far the backfill or the erasure is that it began: deliveries written, or payloads overwritten of the events found so far.',
    }),
    `case action
      when 'backfill' then (
        select json_build_object('done', written, 'of', matched, 'endedAt', ${instantSql('ended_at')})
        from backfills where id = backfill_id
      )
      when 'erase' then (
        select json_build_object('done', erasures.events, 'of', erasures.found, 'endedAt', ${instantSql('ended_at')})
        from erasures where id = erasure_id
      )
    end`,
  ),
};
const logged = z.object(shapesOf(actionFields)).meta({ id: 'OperatorAction' });

export const operatorLog = z
  .object({
    generatedAt: shape.instant,
    replays: z.array(record.meta({ id: 'ReplayRecord' })),
    actions: z.array(logged),
    nextCursor: z
      .string()
      .nullable()
      .meta({ description: 'The cursor of older entries of both lists; null on the last page.' }),
  })
  .meta({
    id: 'OperatorLog',
    description: 'The operator log, newest first.',
  });
export type ReplayRecord = z.output<typeof record>;
export type ReplayProgress = z.output<typeof replayProgress>;
export type OperatorLog = z.output<typeof operatorLog>;
export type OperatorAction = z.output<typeof logged>;

export const logQuery = z.object({
  topic: topicText.optional(),
  subscriber: z.string().max(100).optional(),
  operator: z.string().trim().max(200).optional().meta({ description: 'The `sub` of the operator’s token.' }),
  since: ago.optional(),
  only: z
    .enum(['replays', 'backfills', 'erasures'], 'expected replays, backfills or erasures')
    .optional()
    .meta({ description: 'Only one kind of operation: a backfill with its stop.' }),
  limit: shape.pageLimit,
  cursor: cursorOf(z.tuple([z.string().refine(isInstant), z.uuid()])).optional(),
});

export type LogQuery = z.output<typeof logQuery>;

/** What one of the two lists has. */
interface FoundEntry {
  readonly place: readonly [at: string, id: string];
  readonly replay: Row<typeof recordFields> | null;
  readonly action: Row<typeof actionFields> | null;
}

/** Reads the operator log page by page, newest first. */
export async function readOperatorLog(db: Database, query: LogQuery): Promise<OperatorLog> {
  const { topic, subscriber, operator, since, only, limit, cursor } = query;
  const [row] = await run<{ generatedAt: string; entries: FoundEntry[] }>(driverOf(db), {
    text: LOG,
    values: [
      limit + 1,
      cursor?.[0] ?? null,
      cursor?.[1] ?? null,
      topic ?? null,
      subscriber ?? null,
      operator || null,
      since === undefined ? null : msOf(since),
      only ?? null,
    ],
  });
  const { generatedAt, entries } = row!;
  const kept = entries.slice(0, limit);
  const last = entries.length > limit ? kept.at(-1) : undefined;
  return {
    generatedAt,
    replays: kept.flatMap(({ replay }) => replay ?? []),
    actions: kept.flatMap(({ action }) => action ?? []),
    nextCursor: last ? writeCursor(last.place) : null,
  };
}

/** Reads one replay and counts the states of its deliveries. @returns null for an unknown replay. */
export async function readReplay(db: Database, replayId: string): Promise<ReplayProgress | null> {
  const [row] = await run<{ found: Row<typeof progressFields> }>(driverOf(db), {
    text: PROGRESS,
    values: [replayId],
  });
  return row?.found ?? null;
}

// Each list is sorted and cut to a page before they are merged, so that neither is read to its end.
const LOG = `
  with clock as materialized (
    select coalesce(clock_timestamp() - $7::float8 * interval '1 millisecond', '-infinity') as since
  ),
  replay as (
    select id, requested_at as at, ${jsonOf(recordFields)} as replay, null::json as action from replays, clock
    where coalesce($8::text, 'replays') = 'replays'
      and ($2::text is null or (requested_at, id) < ($2::text::timestamptz, $3::text::uuid))
      and requested_at >= clock.since and ($6::text is null or requested_by = $6::text)
      and ($4::text is null or topic = $4::text or recipients @> jsonb_build_array(jsonb_build_object('topic', $4::text)))
      and ($5::text is null or request ->> 'subscriber' = $5::text
        or recipients @> jsonb_build_array(jsonb_build_object('subscriber', $5::text)))
    order by requested_at desc, id desc limit $1::int
  ),
  action as (
    select id, at, null::json as replay, ${jsonOf(actionFields)} as action
    from clock, (
      select operator_actions.*, ${SKIPPED_TOGETHER} as deliveries, (
        -- Recorded with the moment at which the backfill was requested or stopped.
        select backfills.id from backfills
        where (action = 'backfill' and requested_at = at or action = 'stop_backfill' and ended_at = at)
          and backfills.topic = operator_actions.topic and backfills.subscriber = operator_actions.subscriber limit 1
      ) as backfill_id
      from operator_actions where ${STANDS_FOR_ACT}
    ) as acted
    where ($2::text is null or (at, id) < ($2::text::timestamptz, $3::text::uuid)) and at >= clock.since
      and ($6::text is null or operator = $6::text) and ($4::text is null or topic = $4::text)
      and ($5::text is null or subscriber = $5::text)
      and ($8::text is null or $8::text = 'backfills' and action in ('backfill', 'stop_backfill')
        or $8::text = 'erasures' and action = 'erase')
    order by at desc, id desc limit $1::int
  ),
  entry as (
    select json_build_array(to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), id) as place, replay, action,
      row_number() over (order by at desc, id desc) as number
    from (select * from replay union all select * from action) as both_lists
    order by number limit $1::int
  )
  select ${instantSql('clock_timestamp()')} as "generatedAt",
    (select coalesce(json_agg(entry order by number), '[]') from entry) as entries`;

const PROGRESS = `
  select ${jsonOf(progressFields)} as found
  from replays, lateral (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
      count(*) filter (where state = 'dead_lettered') as dead, count(*) filter (where state = 'delivered') as delivered,
      max(delivered_at) as last_delivered
    from replay_instants join exceptions on replayed_at = at where replay_id = replays.id
  ) as progress
  where replays.id = $1::uuid`;
