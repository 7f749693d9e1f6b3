import * as z from 'zod';

import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import { instantOf, instantOrNull, msOf } from '../../time.ts';
import * as shape from '../shapes.ts';
import { topicOrNull } from './preview.ts';
import { ago, isInstant, topicText } from '../../deliveries/replay-request.ts';

const record = z.object({
  replayId: z.uuid(),
  topic: topicOrNull,
  requestedAt: shape.instant,
  requestedBy: z.string(),
  reason: z.string().nullable(),
  request: z.record(z.string(), z.unknown()).meta({ description: 'The request as it was sent.' }),
  matched: shape.count,
  replayed: shape.count,
  recipients: z
    .array(z.object({ topic: shape.topic, subscriber: z.string(), count: shape.count }))
    .nullable()
    .meta({
      description:
        'The subscribers that got the re-queued deliveries. Null for a replay by a release that did not record them.',
    }),
});

export const replayProgress = z
  .object({
    generatedAt: shape.instant,
    ...record.shape,
    lastDeliveredAt: shape.instant.nullable(),
    progress: z
      .object({ ...shape.counts, delivered: shape.count, replayedAgain: shape.count })
      .meta({ description: 'The states of its deliveries now; they add up to `replayed`.' }),
  })
  .meta({
    id: 'ReplayProgress',
    description: 'A replay and the states of its deliveries now.',
  });

const logged = z
  .object({
    actionId: z.uuid(),
    at: shape.instant,
    operator: z.string(),
    action: z.string().meta({ description: 'The name of the action, for example `retry`, `skip`, `pause`.' }),
    topic: shape.topic.nullable(),
    subscriber: z.string().nullable(),
    deliveryId: z.string().nullable(),
    eventId: z.uuid().nullable(),
    reason: z.string().nullable(),
    incidentId: z.string().nullable().meta({ description: 'The incident that it was done on.' }),
    backfillId: z.uuid().nullable().meta({ description: 'The backfill that it began or stopped.' }),
  })
  .meta({ id: 'OperatorAction' });

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
  limit: shape.pageLimit,
  cursor: z.string().transform(parseCursor).optional(),
});

export type LogQuery = z.output<typeof logQuery>;

const cursorShape = z.tuple([z.string().refine(isInstant), z.uuid()]);

function parseCursor(text: string, context: z.RefinementCtx): z.output<typeof cursorShape> {
  try {
    return cursorShape.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  } catch {
    context.addIssue({ code: 'custom', message: 'expected a cursor from an earlier answer, or none' });
    return z.NEVER;
  }
}

/** Reads the operator log page by page, newest first. */
export async function readOperatorLog(db: Database, query: LogQuery): Promise<OperatorLog> {
  const { topic, subscriber, operator, since, limit, cursor } = query;
  const [row] = await run<{ found: { now: number; entries: FoundEntry[] } }>(driverOf(db), {
    text: LOG,
    values: [
      limit + 1,
      cursor?.[0] ?? null,
      cursor?.[1] ?? null,
      topic ?? null,
      subscriber ?? null,
      operator || null,
      since === undefined ? null : msOf(since),
    ],
  });
  const { now, entries } = row!.found;
  const kept = entries.slice(0, limit);
  const last = entries.length > limit ? kept.at(-1) : undefined;
  return {
    generatedAt: instantOf(now),
    replays: kept.flatMap(({ replay }) => (replay ? [recordOf(replay)] : [])),
    actions: kept.flatMap(({ action }) => (action ? [actionOf(action)] : [])),
    nextCursor: last ? Buffer.from(JSON.stringify([last.at, last.id])).toString('base64url') : null,
  };
}

/** Reads one replay and counts the states of its deliveries. @returns null for an unknown replay. */
export async function readReplay(db: Database, replayId: string): Promise<ReplayProgress | null> {
  const [row] = await run<{ found: FoundProgress }>(driverOf(db), { text: PROGRESS, values: [replayId] });
  if (!row) return null;
  const { now, replay, pending, failing, dead_lettered: deadLettered, delivered } = row.found;
  const replayedAgain = replay.replayed - pending - failing - deadLettered - delivered;
  return {
    generatedAt: instantOf(now),
    ...recordOf(replay),
    lastDeliveredAt: instantOrNull(row.found.last_delivered),
    progress: { pending, failing, deadLettered, delivered, replayedAgain },
  };
}

/** Rows in Postgres's JSON. */
interface FoundReplay {
  readonly id: string;
  readonly topic: string | null;
  readonly requested_at: string;
  readonly requested_by: string;
  readonly reason: string | null;
  readonly request: Readonly<Record<string, unknown>>;
  readonly matched: number;
  readonly replayed: number;
  readonly recipients: ReplayRecord['recipients'];
}

interface FoundAction {
  readonly id: string;
  readonly at: string;
  readonly operator: string;
  readonly action: OperatorAction['action'];
  readonly topic: string | null;
  readonly subscriber: string | null;
  readonly delivery_id: string | null;
  readonly event_id: string | null;
  readonly reason: string | null;
  readonly incident_id: string | null;
  readonly backfill_id: string | null;
}

interface FoundEntry {
  readonly id: string;
  readonly at: string;
  readonly replay: FoundReplay | null;
  readonly action: FoundAction | null;
}

interface FoundProgress {
  readonly now: number;
  readonly replay: FoundReplay;
  readonly pending: number;
  readonly failing: number;
  readonly dead_lettered: number;
  readonly delivered: number;
  readonly last_delivered: number | null;
}

function recordOf(found: FoundReplay): ReplayRecord {
  const { topic, reason, request, matched, replayed, recipients } = found;
  return {
    replayId: found.id,
    topic,
    requestedAt: new Date(found.requested_at).toISOString(),
    requestedBy: found.requested_by,
    reason,
    request,
    matched,
    replayed,
    recipients,
  };
}

function actionOf(found: FoundAction): OperatorAction {
  const { operator, action, topic, subscriber, reason } = found;
  return {
    actionId: found.id,
    at: new Date(found.at).toISOString(),
    operator,
    action,
    topic,
    subscriber,
    deliveryId: found.delivery_id,
    eventId: found.event_id,
    reason,
    incidentId: found.incident_id,
    backfillId: found.backfill_id,
  };
}

// Each list is sorted and cut to a page before they are merged, so that neither is read to its end.
const LOG = `
  with clock as materialized (
    select coalesce(clock_timestamp() - $7::float8 * interval '1 millisecond', '-infinity') as since
  ),
  replay as (
    select id, requested_at as at, row_to_json(replays) as replay, null::json as action from replays, clock
    where ($2::text is null or (requested_at, id) < ($2::text::timestamptz, $3::text::uuid))
      and requested_at >= clock.since and ($6::text is null or requested_by = $6::text)
      and ($4::text is null or topic = $4::text or recipients @> jsonb_build_array(jsonb_build_object('topic', $4::text)))
      and ($5::text is null or request ->> 'subscriber' = $5::text
        or recipients @> jsonb_build_array(jsonb_build_object('subscriber', $5::text)))
    order by requested_at desc, id desc limit $1::int
  ),
  action as (
    select id, at, null::json as replay, row_to_json(acted) as action
    from clock, (
      select operator_actions.*, (
        -- Recorded with the moment at which the backfill was requested or stopped.
        select backfills.id from backfills
        where (action = 'backfill' and requested_at = at or action = 'stop_backfill' and ended_at = at)
          and backfills.topic = operator_actions.topic and backfills.subscriber = operator_actions.subscriber limit 1
      ) as backfill_id
      from operator_actions
    ) as acted
    where ($2::text is null or (at, id) < ($2::text::timestamptz, $3::text::uuid)) and at >= clock.since
      and ($6::text is null or operator = $6::text) and ($4::text is null or topic = $4::text)
      and ($5::text is null or subscriber = $5::text)
    order by at desc, id desc limit $1::int
  ),
  entry as (
    select id, to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at, replay, action,
      row_number() over (order by at desc, id desc) as number
    from (select * from replay union all select * from action) as both_lists
    order by number limit $1::int
  )
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000,
    'entries', (select coalesce(json_agg(entry order by number), '[]') from entry)) as found`;

const PROGRESS = `
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000, 'replay', row_to_json(replays),
    'pending', pending, 'failing', failing, 'dead_lettered', dead, 'delivered', delivered,
    'last_delivered', extract(epoch from last_delivered) * 1000) as found
  from replays, lateral (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
      count(*) filter (where state = 'dead_lettered') as dead, count(*) filter (where state = 'delivered') as delivered,
      max(delivered_at) as last_delivered
    from deliveries where replayed_at = replays.requested_at
  ) as progress
  where replays.id = $1::uuid`;
