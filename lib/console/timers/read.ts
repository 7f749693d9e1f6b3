import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { cursorOf, writeCursor } from '../kit/cursor.ts';
import { computed, field, instant, instantOrNull, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { byText, byTopic, shapesIn } from '../kit/filters.ts';
import { isInstant } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';

const timerFields = {
  eventId: field(z.uuid().meta({ description: 'The id of the event that it becomes.' }), 'id'),
  topic: field(shape.topic, 'topic'),
  timerKey: field(
    z.string().nullable().meta({ description: 'By which its producer moves and cancels it.' }),
    'timer_key',
  ),
  dueAt: instant('due_at'),
  setAt: instant('set_at'),
  refusedAt: instantOrNull(
    'refused_at',
    'When the catalog refused its payload: it is not released until an operator repairs it.',
  ),
  producer: field(z.string(), 'producer'),
  subject: computed(z.string().nullable()),
};
const timer = z
  .object(shapesOf(timerFields))
  .meta({ id: 'Timer', description: 'An event that happens later.' });
export type Timer = z.output<typeof timer>;

export const timerList = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({ topic: shape.topic.nullable(), timerKey: z.string().nullable() }),
    items: z.array(timer).meta({ description: 'By time, the next one first.' }),
    nextCursor: z.string().nullable(),
  })
  .meta({ id: 'TimerList', description: 'What will happen, by time.' });
export type TimerList = z.output<typeof timerList>;

const cursor = z.object({ dueAt: z.string().refine(isInstant), seq: z.string().regex(/^\d{1,18}$/) });

export const timerFilters = {
  topic: byTopic,
  timerKey: byText('Timer key', { name: 'key', value: '<timerKey>', help: 'only timers of this key' }),
};

export const timersQuery = z.object({
  ...shapesIn(timerFilters),
  limit: shape.pageLimit.default(50),
  cursor: cursorOf(cursor).optional().meta({ description: 'Where the page begins.' }),
});
type TimersQuery = z.output<typeof timersQuery>;

interface Found {
  readonly now: string;
  readonly item: Row<typeof timerFields>;
  readonly payload: unknown;
  readonly version: number;
  readonly dueAt: string;
  readonly seq: string;
}

/** Lists timers, the next one first, page by page. */
export async function readTimers(db: Database, query: TimersQuery): Promise<TimerList> {
  const { topic = null, timerKey = null, limit, cursor: after } = query;
  const found = await run<Found>(driverOf(db), {
    text: TIMERS,
    values: [topic, timerKey, after?.dueAt ?? '-infinity', after?.seq ?? '0', limit + 1],
  });
  const shown = found.slice(0, limit);
  const last = shown.at(-1);
  return {
    generatedAt: found[0]?.now ?? new Date().toISOString(),
    filters: { topic, timerKey },
    items: shown.map(({ item, payload, version }) => ({
      ...item,
      subject: subjectOf(item.topic, payload, version),
    })),
    nextCursor: found.length > limit && last ? writeCursor({ dueAt: last.dueAt, seq: last.seq }) : null,
  };
}

const AFTER = '(due_at, seq) > ($3::text::timestamptz, $4::text::bigint)';

const IN_ORDER = 'order by due_at, seq limit $5::int';

// Each part is read by an index of its own. Of a key there are a few, one in each topic. Those that were refused are not in
// the index that all are read by.
const TIMERS = `
  with matching as (
    select * from timers where timer_key = $2::text and ($1::text is null or topic = $1::text) and ${AFTER}
    union all
    (select * from timers where $2::text is null and topic = $1::text and ${AFTER} ${IN_ORDER})
    union all
    (select * from timers where $2::text is null and $1::text is null and refused_at is null and ${AFTER} ${IN_ORDER})
    union all
    (select * from timers where $2::text is null and $1::text is null and refused_at is not null and ${AFTER} ${IN_ORDER})
  )
  select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as now, ${jsonOf(timerFields)} as item,
    payload, version, to_char(due_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "dueAt", seq::text as seq
  from matching order by due_at, matching.seq limit $5::int`;
