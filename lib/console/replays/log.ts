import * as z from 'zod';

import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import {
  cursorOf,
  exactInstantSql,
  field,
  instant,
  instantSql,
  jsonOf,
  shapesOf,
  text,
  textOrNull,
  writeCursor,
} from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { bySince, bySubscriber, byText, byTopic, select, shapesIn } from '../kit/filters.ts';
import type { Filter } from '../kit/filters.ts';
import { isInstant } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { capitalize } from '../kit/words.ts';
import { recipientsField } from './progress.ts';

const kinds = z.enum(['replays', 'backfills', 'erasures'], 'expected replays, backfills or erasures');

export const logFilters = {
  topic: byTopic,
  subscriber: bySubscriber,
  operator: byText('Operator', { value: '<name>', help: 'only this operator, as the log names them' }),
  since: bySince('Done'),
  only: {
    shape: kinds.optional(),
    option: {
      value: `<${kinds.options.join('|')}>`,
      help: 'only one kind of operation',
    },
    field: (name, value) =>
      select('Kind', name, value, [
        ['', 'All actions'],
        ...kinds.options.map((kind) => [kind, capitalize(kind)] as const),
      ]),
  },
} satisfies Readonly<Record<string, Filter>>;

export const logQuery = z.object({
  ...shapesIn(logFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(z.tuple([z.string().refine(isInstant), z.uuid()])).optional(),
});

const entryFields = {
  id: field(z.uuid(), 'id'),
  at: instant('at'),
  operator: text('operator'),
  action: text('action', 'The name of the action, for example `replay`, `skip`, `pause`.'),
  topic: textOrNull('topic'),
  subscriber: textOrNull('subscriber'),
  deliveryId: field(z.string().nullable(), 'case when deliveries is null then delivery_id end'),
  deliveries: field(
    shape.count
      .nullable()
      .describe(
        'Of a skip of several deliveries of an incident: how many. `deliveryId` is then null. Null for another action.',
      ),
    'deliveries',
  ),
  eventId: field(z.uuid().nullable(), 'event_id'),
  reason: textOrNull('reason'),
  incidentId: textOrNull('incident_id', 'The incident that it was done on.'),
  replayId: textOrNull('replay_id', 'The replay, or the one that was stopped.'),
  backfillId: field(z.uuid().nullable().describe('The backfill that it began or stopped.'), 'backfill_id'),
  erasureId: field(
    z.uuid().nullable().describe('The erasure that it began. Whose data it erased is not in the log.'),
    'erasure_id',
  ),
  subjects: field(
    z
      .array(z.string())
      .nullable()
      .describe(
        'Of an erasure that has ended: the names that were asked for, of personal data only the first letter.',
      ),
    '(select subjects from erasures where id = erasure_id and ended_at is not null)',
  ),
  request: field(
    z.record(z.string(), z.unknown()).nullable().describe('Of a replay: the request as it was sent.'),
    'request',
  ),
  recipients: recipientsField,
  isUnderWay: field(
    z.boolean().describe('Whether the replay, the backfill or the erasure that it began goes on.'),
    `case action
      when 'replay' then exists (
        select from paced_replays as paced where paced.replay_id = entry.replay_id::uuid and ended_at is null
      )
      when 'backfill' then exists (select from backfills where id = backfill_id and ended_at is null)
      when 'erase' then exists (select from erasures where id = erasure_id and ended_at is null)
      else false
    end`,
  ),
};
export const logEntry = z.object(shapesOf(entryFields)).meta({ id: 'LogEntry' });

export const operatorLog = z
  .object({
    generatedAt: shape.instant,
    filters: z.object(shapesIn(logFilters)),
    items: z.array(logEntry),
    nextCursor: z.string().nullable(),
  })
  .meta({ id: 'OperatorLog', description: 'The operator log, newest first.' });

export type OperatorLog = z.output<typeof operatorLog>;
export type LogEntry = z.output<typeof logEntry>;

/** Reads the operator log page by page, newest first. @param incidentId only what was done on this incident. */
export async function readOperatorLog(
  db: Database,
  query: z.output<typeof logQuery>,
  incidentId: string | null = null,
): Promise<OperatorLog> {
  const { limit, cursor, ...filters } = query;
  const { topic, subscriber, operator, since, only } = filters;
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
      incidentId,
    ],
  });
  const { generatedAt, entries } = row!;
  const kept = entries.slice(0, limit);
  return {
    generatedAt,
    filters,
    items: kept.map(({ found }) => found),
    nextCursor: entries.length > limit ? writeCursor(kept.at(-1)!.place) : null,
  };
}

interface FoundEntry {
  /** To the microsecond, as the database stores it. */
  readonly place: readonly [at: string, id: string];
  readonly found: Row<typeof entryFields>;
}

// A skip of all that hold the lanes of an incident is one act, and one line of each list. Every delivery has a record of
// its own, because each is skipped in a transaction of its own; they share the act's instant.

const OF_THE_ACT = `from operator_actions as other
    where other.at = operator_actions.at and other.action = 'skip' and other.operator = operator_actions.operator
      and other.incident_id = operator_actions.incident_id`;

/** Whether a row of `operator_actions` stands for its act. The limit keeps the planner from joining the whole log. */
const STANDS_FOR_ACT = `(action <> 'skip' or incident_id is null or operator_actions.id = (
    select other.id ${OF_THE_ACT} order by other.id limit 1
  ))`;

/** How many deliveries the act of a row skipped; null for one, and for another action. */
const SKIPPED_TOGETHER = `case when action = 'skip' and incident_id is not null then (
    select nullif(count(*), 1)::int ${OF_THE_ACT}
  ) end`;

/** Whether a replay belongs to an incident: it names it, or, while it was open, went to its subscription. */
const IS_OF_INCIDENT = `exists (
        select from incidents as incident
        where incident.id = $9::text::uuid and requested_at between opened_at and coalesce(closed_at, 'infinity')
          and coalesce(request ->> 'incident' = $9::text, recipients @> jsonb_build_array(
            jsonb_build_object('topic', incident.topic, 'subscriber', incident.subscriber)
          ))
      )`;

// Each list is sorted and cut to a page before they are merged, so that neither is read to its end.
const LOG = `
  with clock as materialized (
    select coalesce(clock_timestamp() - $7::float8 * interval '1 millisecond', '-infinity') as since
  ),
  replay as (
    select id, requested_at as at, requested_by as operator, 'replay' as action, topic, request ->> 'subscriber' as subscriber,
      null::text as delivery_id, null::int as deliveries, null::uuid as event_id, reason,
      request ->> 'incident' as incident_id, id::text as replay_id, null::uuid as backfill_id, null::uuid as erasure_id,
      request, recipients
    from replays, clock
    where coalesce($8::text, 'replays') = 'replays'
      and ($2::text is null or (requested_at, id) < ($2::text::timestamptz, $3::text::uuid))
      and requested_at >= clock.since and ($6::text is null or requested_by = $6::text)
      and ($4::text is null or topic = $4::text or recipients @> jsonb_build_array(jsonb_build_object('topic', $4::text)))
      and ($5::text is null or request ->> 'subscriber' = $5::text
        or recipients @> jsonb_build_array(jsonb_build_object('subscriber', $5::text)))
      and ($9::text is null or ${IS_OF_INCIDENT})
    order by requested_at desc, id desc limit $1::int
  ),
  acted as (
    select id, at, operator, action, topic, subscriber, delivery_id, ${SKIPPED_TOGETHER} as deliveries, event_id, reason,
      incident_id::text, replay_id::text, (
        -- Recorded with the moment at which the backfill was requested or stopped.
        select backfills.id from backfills
        where (action = 'backfill' and requested_at = at or action = 'stop_backfill' and ended_at = at)
          and backfills.topic = operator_actions.topic and backfills.subscriber = operator_actions.subscriber limit 1
      ) as backfill_id, erasure_id, null::jsonb as request, null::jsonb as recipients
    from operator_actions, clock
    where ${STANDS_FOR_ACT} and ($2::text is null or (at, id) < ($2::text::timestamptz, $3::text::uuid))
      and at >= clock.since and ($6::text is null or operator = $6::text) and ($4::text is null or topic = $4::text)
      and ($5::text is null or subscriber = $5::text)
      and ($8::text is null or $8::text = 'backfills' and action in ('backfill', 'stop_backfill')
        or $8::text = 'erasures' and action = 'erase')
      and ($9::text is null or incident_id = $9::text::uuid)
    order by at desc, id desc limit $1::int
  ),
  entry as (
    select * from (select * from replay union all select * from acted) as both_lists
    order by at desc, id desc limit $1::int
  )
  select ${instantSql('clock_timestamp()')} as "generatedAt", (
    select coalesce(json_agg(json_build_object(
      'place', json_build_array(${exactInstantSql('at')}, id),
      'found', ${jsonOf(entryFields)}
    ) order by at desc, id desc), '[]') from entry
  ) as entries`;
