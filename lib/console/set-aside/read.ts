import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';

const setAsideRow = z
  .object({
    id: z.string().meta({ description: 'What `repair` takes.' }),
    at: shape.instant,
    kind: z.string().meta({
      description:
        '`unfit_marker`: an event that cannot be fanned out. `clock_was_ahead`: times in the future, which were taken back. Later releases may add kinds.',
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
  const [row] = await run<{ found: Found }>(driverOf(db), { text: SET_ASIDE, values: [] });
  const { now, open, items } = row!.found;
  return { generatedAt: instantOf(now), open, items: items.map((item) => setAsideOf(item)) };
}

/** The statement's result. Times are epoch milliseconds. */
interface Found {
  readonly now: number;
  readonly open: number;
  readonly items: readonly {
    readonly id: string;
    readonly at: number;
    readonly kind: string;
    readonly topic: string;
    readonly event_id: string | null;
    readonly event_exists: boolean;
    readonly error: string | null;
    readonly repaired_at: number | null;
    readonly repaired_by: string | null;
    readonly reason: string | null;
  }[];
}

function setAsideOf({
  repaired_at: at,
  repaired_by: by,
  reason,
  ...found
}: Found['items'][number]): SetAside {
  const { id, kind, topic, event_id: eventId, event_exists: eventExists, error } = found;
  return {
    id,
    at: instantOf(found.at),
    kind,
    topic: topic || null,
    eventId,
    eventExists,
    error,
    repaired: at === null ? null : { at: instantOf(at), by: by ?? '', reason: reason ?? '' },
  };
}

const SET_ASIDE = `
  with listed as (
    select * from set_aside order by repaired_at is not null, id desc limit ${LISTED}
  )
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000,
    'open', (select count(*) from set_aside where repaired_at is null),
    'items', (
      select coalesce(json_agg(json_build_object('id', id::text, 'at', extract(epoch from at) * 1000, 'kind', kind,
        'topic', topic, 'event_id', event_id, 'error', left(found ->> 'error', 500),
        'event_exists', exists (select from events where events.id = event_id),
        'repaired_at', extract(epoch from repaired_at) * 1000, 'repaired_by', repaired_by, 'reason', reason)
        order by repaired_at is not null, id desc), '[]')
      from listed
    )) as found`;
