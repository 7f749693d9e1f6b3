import { desc, getTableColumns, isNotNull, sql } from 'drizzle-orm';
import * as z from 'zod';

import { setAside } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf } from '../../platform/time.ts';
import { now } from '../kit/clock.ts';
import * as shape from '../kit/shapes.ts';

const setAsideRow = z
  .object({
    id: z.string().meta({ description: 'What `repair` takes.' }),
    at: shape.instant,
    kind: z.string().meta({
      description:
        '`unfit_marker`: an event that cannot get its place. `unfit_timer`: a timer whose payload the catalog refuses. `clock_was_ahead`: times in the future, which were taken back. Later releases may add kinds.',
    }),
    topic: shape.topic.nullable().meta({ description: 'Null where it concerns no one topic.' }),
    eventId: z.uuid().nullable(),
    eventExists: z.boolean().meta({ description: 'Whether there is an event with this id.' }),
    error: z.string().nullable().meta({ description: 'What the database says is wrong with the row.' }),
    repaired: z
      .object({ at: shape.instant, by: z.string(), reason: z.string() })
      .nullable()
      .meta({ description: 'Who has repaired it.' }),
  })
  .meta({ id: 'SetAside', description: 'A row that should not exist, or a clock that was ahead.' });
export type SetAside = z.output<typeof setAsideRow>;

/** More than these are seldom of another kind. */
const LISTED = 100;

export const setAsideList = z
  .object({
    generatedAt: shape.instant,
    items: z
      .array(setAsideRow)
      .max(LISTED)
      .meta({ description: 'Those that nobody has repaired, then the others; each newest first.' }),
    open: shape.count.meta({ description: 'How many nobody has repaired.' }),
  })
  .meta({ id: 'SetAsideList', description: 'What the bus set aside so that it stops nothing else.' });
export type SetAsideList = z.output<typeof setAsideList>;

/** Lists what the bus set aside. What the rows hold is not shown: it may be of anybody. */
export async function readSetAside(db: Database): Promise<SetAsideList> {
  const { found: row, ...columns } = getTableColumns(setAside);
  const found = await db
    .select({
      ...columns,
      now,
      open: sql`(select count(*) from set_aside where repaired_at is null)`.mapWith(Number),
      eventExists: sql<boolean>`exists (select from events where events.id = ${columns.eventId})`,
      error: sql<string | null>`left(${row} ->> 'error', 500)`,
    })
    .from(setAside)
    .orderBy(isNotNull(columns.repairedAt), desc(columns.id))
    .limit(LISTED);
  return {
    generatedAt: instantOf(found[0]?.now ?? new Date()),
    open: found[0]?.open ?? 0,
    items: found.map(
      ({ id, at, kind, topic, eventId, eventExists, error, repairedAt, repairedBy, reason }) => ({
        id: String(id),
        at: instantOf(at),
        kind,
        topic: topic || null,
        eventId,
        eventExists,
        error,
        repaired: repairedAt && { at: instantOf(repairedAt), by: repairedBy ?? '', reason: reason ?? '' },
      }),
    ),
  };
}
