import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
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
import { topicText } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';

/** A retirement that dismissed more is counted no further. */
export const COUNTED = 100_000;

// A retirement ends within its request.
const ENDED_AT = `case when backfills.id is null then act.at else ended_at end`;

const countOrNull = (sql: string, description: string) =>
  field(shape.count.nullable().meta({ description }), sql);

const recordFields = {
  renameId: field(z.uuid(), 'act.id'),
  action: field(
    z.enum(['rename', 'retire']).meta({
      description: '`rename`: moved to another name. `retire`: dismissed, because nobody wants it any more.',
    }),
    'action',
  ),
  topic: text('act.topic'),
  subscriber: text('act.subscriber', 'The former name, or the retired one.'),
  renamedTo: textOrNull('backfills.subscriber', 'The new name; null of a retirement.'),
  requestedAt: instant('act.at'),
  requestedBy: text('operator'),
  reason: textOrNull('act.reason'),
  matched: countOrNull('matched', 'Of a rename: deliveries that stood under the former name when it began.'),
  moved: countOrNull('written', 'Of a rename: deliveries that the new name has got so far.'),
  dismissed: count(
    `(
      select count(*) from (
        select from deliveries join lanes on lanes.id = lane_id
        where dismissed_at >= act.at and dismissed_at <= coalesce(${ENDED_AT}, clock_timestamp())
          and lanes.topic = act.topic and lanes.subscriber = act.subscriber
        limit ${COUNTED + 1}
      ) as counted
    )`,
    `Deliveries that it dismissed and that are still stored: of a rename, those of events that the new name had already. Counted up to ${COUNTED + 1}.`,
  ),
  endedAt: instantOrNull(ENDED_AT, 'Null while it is under way.'),
};
const record = z.object(shapesOf(recordFields));

const progressFields = {
  generatedAt: instant('clock_timestamp()'),
  ...recordFields,
  left: count(
    `(
      select coalesce(sum(pending + failing + dead_lettered), 0) from backlog
      where backlog.subscriber = act.subscriber and backlog.topic = act.topic
    )`,
    'Deliveries that stand under the former or retired name now.',
  ),
};

export const renameList = shape
  .listOf(record.meta({ id: 'RenameRecord' }))
  .meta({ id: 'RenameList', description: 'Renames and retirements, one for each topic, newest first.' });

export const renameProgress = z.object(shapesOf(progressFields)).meta({
  id: 'RenameProgress',
  description: 'A rename or a retirement on one topic, and how far it is.',
});

export type RenameRecord = z.output<typeof record>;
export type RenameList = z.output<typeof renameList>;
export type RenameProgress = z.output<typeof renameProgress>;

export const listQuery = z.object({
  topic: topicText.optional(),
  subscriber: z
    .string()
    .max(100)
    .optional()
    .meta({ description: 'The former, the new or the retired name.' }),
  ...shape.page,
});

/** Lists renames and retirements page by page, newest first. */
export async function readRenames(db: Database, query: z.output<typeof listQuery>): Promise<RenameList> {
  const { topic = null, subscriber = null, limit, cursor = null } = query;
  const [row] = await run<{ generatedAt: string; items: RenameRecord[] }>(driverOf(db), {
    text: LIST,
    values: [topic, subscriber, cursor, limit + 1],
  });
  return shape.pageOf(row!, limit, ({ renameId }) => renameId);
}

/** Reads one rename or retirement. @returns null for an unknown one. */
export async function readRename(db: Database, renameId: string): Promise<RenameProgress | null> {
  const [row] = await run<{ found: Row<typeof progressFields> }>(driverOf(db), {
    text: PROGRESS,
    values: [renameId],
  });
  return row?.found ?? null;
}

// The operators' log has all of them. A rename's row of `backfills`, which says how far it is, has the same id.
const ACTS = `
  from operator_actions as act left join backfills on backfills.id = act.id
  where action in ('rename', 'retire')`;

const LIST = `
  select ${instantSql('clock_timestamp()')} as "generatedAt", (
    select coalesce(json_agg(record), '[]') from (
      select ${jsonOf(recordFields)} as record ${ACTS}
        and ($1::text is null or act.topic = $1::text)
        and ($2::text is null or $2::text in (act.subscriber, backfills.subscriber))
        and ($3::text is null or (act.at, act.id) < (
          select at, id from operator_actions where id = $3::text::uuid
        ))
      order by act.at desc, act.id desc limit $4::int
    ) as listed
  ) as items`;

const PROGRESS = `select ${jsonOf(progressFields)} as found ${ACTS} and act.id = $1::uuid`;
