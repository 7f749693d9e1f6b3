import * as z from 'zod';

import { ago, isInstant, topicText } from '../../bus/deliveries/operations/replay-request.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, instantOrNull, MINUTE, msOf } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';
import { topicOrNull } from './preview.ts';

const record = z.object({
  replayId: z.uuid(),
  topic: topicOrNull,
  requestedAt: shape.instant,
  requestedBy: z.string(),
  reason: z.string().nullable(),
  request: z.record(z.string(), z.unknown()).meta({ description: 'The request as it was sent.' }),
  matched: shape.count,
  replayed: shape.count.meta({ description: 'Deliveries put back. Of a paced replay, so far.' }),
  recipients: z
    .array(z.object({ topic: shape.topic, subscriber: z.string(), count: shape.count }))
    .nullable()
    .meta({
      description:
        'The subscribers that got the re-queued deliveries. Null for a replay by a release that did not record them.',
    }),
});

const pace = z
  .object({
    perMinute: z.int().positive(),
    left: shape.count.meta({
      description: 'Deliveries that it has not put back yet; of a stopped one, that stay as they were.',
    }),
    passedOver: shape.count.meta({
      description:
        'Deliveries that had been replayed, dismissed or pruned, or whose handler refused replays, when their turn came.',
    }),
    endsAt: shape.instant.nullable().meta({
      description: 'About when the last delivery is put back. Null once it has ended.',
    }),
    endedAt: shape.instant.nullable(),
    stopped: z
      .object({ at: shape.instant, by: z.string(), reason: z.string().nullable() })
      .nullable()
      .meta({ description: 'The operator who stopped it.' }),
  })
  .meta({ id: 'ReplayPace', description: 'How far a paced replay is.' });

export const replayProgress = z
  .object({
    generatedAt: shape.instant,
    ...record.shape,
    lastDeliveredAt: shape.instant.nullable(),
    pace: pace.nullable().meta({ description: 'Null for a replay that put everything back at once.' }),
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
    replayId: z.string().nullable().meta({ description: 'The replay that was stopped.' }),
    renamedTo: z.string().nullable().meta({ description: 'Of a rename: the new name of the subscriber.' }),
    backfillId: z.uuid().nullable().meta({ description: 'The backfill that it began or stopped.' }),
    erasureId: z
      .uuid()
      .nullable()
      .meta({ description: 'The erasure that it began. Whose data it erased is not in the log.' }),
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
  const recorded = recordOf(replay);
  const replayedAgain = recorded.replayed - pending - failing - deadLettered - delivered;
  return {
    generatedAt: instantOf(now),
    ...recorded,
    lastDeliveredAt: instantOrNull(row.found.last_delivered),
    pace: row.found.pace && paceOf(row.found.pace, now),
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
  /** Of a paced replay. */
  readonly put_back: number | null;
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
  readonly replay_id: string | null;
  readonly renamed_to: string | null;
  readonly backfill_id: string | null;
  readonly erasure_id: string | null;
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
  readonly pace: FoundPace | null;
}

/** Times are epoch milliseconds. */
interface FoundPace {
  readonly per_minute: number;
  readonly planned: number;
  readonly put_back: number;
  readonly passed_over: number;
  readonly next_at: number;
  readonly ended_at: number | null;
  readonly stopped: { readonly at: number; readonly by: string; readonly reason: string | null } | null;
}

function paceOf(found: FoundPace, nowMs: number): ReplayProgress['pace'] {
  const { per_minute: perMinute, stopped } = found;
  const left = found.planned - found.put_back - found.passed_over;
  const endsAtMs = Math.max(found.next_at, nowMs) + (left / perMinute) * MINUTE;
  return {
    perMinute,
    left,
    passedOver: found.passed_over,
    endsAt: found.ended_at === null ? instantOf(endsAtMs) : null,
    endedAt: instantOrNull(found.ended_at),
    stopped: stopped && { ...stopped, at: instantOf(stopped.at) },
  };
}

function recordOf(found: FoundReplay): ReplayRecord {
  const { topic, reason, request, matched, recipients } = found;
  return {
    replayId: found.id,
    topic,
    requestedAt: new Date(found.requested_at).toISOString(),
    requestedBy: found.requested_by,
    reason,
    request,
    matched,
    replayed: found.put_back ?? found.replayed,
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
    replayId: found.replay_id,
    renamedTo: found.renamed_to,
    backfillId: found.backfill_id,
    erasureId: found.erasure_id,
  };
}

/** A row of `replays`, with the count of a paced one. */
const RECORD = `
  to_jsonb(replays) || jsonb_build_object('put_back', (
    select put_back from paced_replays where replay_id = replays.id
  ))`;

// Each list is sorted and cut to a page before they are merged, so that neither is read to its end.
const LOG = `
  with clock as materialized (
    select coalesce(clock_timestamp() - $7::float8 * interval '1 millisecond', '-infinity') as since
  ),
  replay as (
    select id, requested_at as at, ${RECORD} as replay, null::jsonb as action from replays, clock
    where ($2::text is null or (requested_at, id) < ($2::text::timestamptz, $3::text::uuid))
      and requested_at >= clock.since and ($6::text is null or requested_by = $6::text)
      and ($4::text is null or topic = $4::text or recipients @> jsonb_build_array(jsonb_build_object('topic', $4::text)))
      and ($5::text is null or request ->> 'subscriber' = $5::text
        or recipients @> jsonb_build_array(jsonb_build_object('subscriber', $5::text)))
    order by requested_at desc, id desc limit $1::int
  ),
  action as (
    select id, at, null::jsonb as replay, to_jsonb(acted) as action
    from clock, (
      select operator_actions.*, (
        -- Recorded with the moment at which the backfill was requested or stopped.
        select backfills.id from backfills
        where (action = 'backfill' and requested_at = at or action = 'stop_backfill' and ended_at = at)
          and backfills.topic = operator_actions.topic and backfills.subscriber = operator_actions.subscriber limit 1
      ) as backfill_id, (
        select backfills.subscriber from backfills where action = 'rename' and backfills.id = operator_actions.id
      ) as renamed_to
      from operator_actions
    ) as acted
    where ($2::text is null or (at, id) < ($2::text::timestamptz, $3::text::uuid)) and at >= clock.since
      and ($6::text is null or operator = $6::text) and ($4::text is null or topic = $4::text)
      and ($5::text is null or $5::text in (subscriber, renamed_to))
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
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000, 'replay', ${RECORD},
    'pending', pending, 'failing', failing, 'dead_lettered', dead, 'delivered', delivered,
    'last_delivered', extract(epoch from last_delivered) * 1000, 'pace', (
      select json_build_object('per_minute', per_minute, 'planned', planned, 'put_back', put_back,
        'passed_over', passed_over, 'next_at', extract(epoch from next_at) * 1000,
        'ended_at', extract(epoch from ended_at) * 1000, 'stopped', (
          select json_build_object('at', extract(epoch from at) * 1000, 'by', operator, 'reason', reason)
          from operator_actions where replay_id = replays.id limit 1
        ))
      from paced_replays where replay_id = replays.id
    )) as found
  from replays, lateral (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
      count(*) filter (where state = 'dead_lettered') as dead, count(*) filter (where state = 'delivered') as delivered,
      max(delivered_at) as last_delivered
    from replay_instants join deliveries on replayed_at = at where replay_id = replays.id
  ) as progress
  where replays.id = $1::uuid`;
