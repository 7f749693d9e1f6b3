import * as z from 'zod';

import { subjectOf } from '../../bus/catalog/subject.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import {
  computed,
  cursorOf,
  field,
  instant,
  instantOrNull,
  jsonOf,
  shapesOf,
  writeCursor,
} from '../kit/fields.ts';
import { does } from '../kit/doc.ts';
import type { Doc } from '../kit/doc.ts';
import { below, inConsole, link, mono, say, styled, when } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import type { Row } from '../kit/fields.ts';
import { byText, byTopic, shapesIn } from '../kit/filters.ts';
import { requireKnown } from '../kit/known-names.ts';
import { eventPath, timersPath, topicPath } from '../kit/links.ts';
import { isInstant } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { view } from '../kit/view.ts';
import { shortId, until } from '../kit/words.ts';

const timerFields = {
  eventId: field(z.uuid().describe('The id of the event that it becomes.'), 'id'),
  topic: field(shape.topic, 'topic'),
  timerKey: field(z.string().nullable().describe('By which its producer moves and cancels it.'), 'timer_key'),
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
type Timer = z.output<typeof timer>;

const timerList = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({ topic: shape.topic.nullable(), timerKey: z.string().nullable() }),
    items: z.array(timer).describe('By time, the next one first.'),
    nextCursor: z.string().nullable(),
  })
  .meta({ id: 'TimerList', description: 'What will happen, by time.' });
export type TimerList = z.output<typeof timerList>;

const cursor = z.object({ dueAt: z.string().refine(isInstant), seq: z.string().regex(/^\d{1,18}$/) });

const timerFilters = {
  topic: byTopic,
  timerKey: byText('Timer key', { name: 'key', value: '<timerKey>', help: 'only timers of this key' }),
};

export const timersQuery = z.object({
  ...shapesIn(timerFilters),
  limit: shape.pageLimit.default(50),
  cursor: cursorOf(cursor).optional().describe('Where the page begins.'),
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

/** Says what will happen, by time, and what cancels it. */
function timersDoc({ items, filters, generatedAt: at, nextCursor }: TimerList): Doc {
  const [first] = items;
  const isFiltered = filters.topic !== null || filters.timerKey !== null;
  return {
    title: 'Timers',
    lead: 'Events that happen later, the next one first.',
    section: 'timers',
    at,
    filters: { path: timersPath(), by: timerFilters, values: filters },
    blocks: [
      {
        id: 'list',
        list: timersByTime(items, at),
        acts: ({ eventId }: Timer) => [does('cancel-timer', { eventId }, { of: shortId(eventId) })],
        empty: {
          title: isFiltered ? 'No timers match' : 'No timers are set',
          text: 'An event that a producer emits with a later time is listed here until it happens.',
        },
      },
    ],
    nextCursor,
    next: [first && ['To cancel the next one', `cancel-timer ${first.eventId} --reason <text>`]],
  };
}

function timersByTime(rows: readonly Timer[], now: string): List<Timer> {
  return {
    name: 'Timers',
    columns: [
      {
        label: 'Due',
        look: 'nowrap',
        cell: ({ dueAt, refusedAt }) =>
          refusedAt === null
            ? say`${when(dueAt, now)}${inConsole(below(until(dueAt, now)).html)}`
            : styled('red', 'set aside: the catalog refuses it'),
      },
      { label: 'Topic', isRowHeader: true, cell: ({ topic }) => link(topicPath(topic), topic) },
      { label: 'Key', look: 'wrap', cell: ({ timerKey }) => timerKey !== null && mono(timerKey) },
      {
        label: 'Event',
        cell: ({ eventId, subject }) => say`${link(eventPath(eventId), eventId)}${below(subject)}`,
      },
    ],
    rows,
  };
}

const listTimers = view({
  id: 'listTimers',
  path: timersPath(),
  summary: 'List timers: events that happen later, by time',
  query: timersQuery,
  answer: timerList,
  problems: ['validation_failed'],
  handle: async ({ query, bus }) => {
    const db = await bus.database();
    const found = await readTimers(db, query);
    // A topic of another release may have timers before it has events.
    if (found.items.length === 0) await requireKnown(db, { topic: query.topic });
    return found;
  },
  says: timersDoc,
  command: {
    name: 'timers',
    summary: 'show what will happen: events that are set for later',
    filters: timerFilters,
    list: 'items',
    examples: [
      ['timers', 'what happens next'],
      ['timers --topic booking.reminder.due --key bkg_48213', 'the reminder of one booking'],
    ],
  },
});

export const timerViews = [listTimers];
