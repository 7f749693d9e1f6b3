import type { ErasedName } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { FIRST_ID, searchEvents } from './erase-search.ts';
import type { Hit } from './erase-search.ts';
import { askedNames, namesOfNextPass, withMarks, withNamesOf } from './erased-names.ts';

/** What an erasure would find. */
export interface ErasurePreview {
  /** Of the database, in epoch milliseconds. */
  readonly nowMs: number;
  readonly names: readonly ErasedName[];
  /** By topic. */
  readonly topics: readonly { readonly topic: string; readonly events: number }[];
  /** Those of these events that are timers, and not released yet. */
  readonly timers: number;
  /** Unfinished deliveries of these events, which would be handed over erased. */
  readonly pending: readonly {
    readonly topic: string;
    readonly subscriber: string;
    readonly count: number;
  }[];
  /** The first of these events. */
  readonly eventIds: readonly string[];
  /** Events that were read for this. */
  readonly searched: number;
  /** Whether all were, and for all names. */
  readonly isComplete: boolean;
}

const MOST_LISTED = 1000;

/**
 * Searches as an erasure does, until the time is up. Changes nothing.
 *
 * @param until when to stop, in milliseconds since the epoch.
 */
export async function previewErasure(
  db: Database,
  { subjects, isExact = false }: { readonly subjects: readonly string[]; readonly isExact?: boolean },
  until: number,
): Promise<ErasurePreview> {
  const driver = driverOf(db);
  const [begin] = await run<{ now: number; at: string; last: string | null }>(driver, {
    text: `select (extract(epoch from now) * 1000)::float8 as now, now::text as at,
        greatest((select id from events order by id desc limit 1), (select id from timers order by id desc limit 1))::text
          as last
      from (select clock_timestamp() as now) as clock`,
    values: [],
  });
  const { now: nowMs, at, last: lastId } = begin!;
  let names = askedNames(subjects);
  for (;;) {
    const before = names;
    const hits: Pick<Hit, 'eventId' | 'topic' | 'isTimer'>[] = [];
    let searched = 0;
    let after: string | null = FIRST_ID;
    while (after !== null && Date.now() < until) {
      const found = await searchEvents(driver, { names, until: at, after, lastId: lastId ?? FIRST_ID });
      names = isExact ? withMarks(names, found.hits) : withNamesOf(names, found.hits);
      for (const { eventId, topic, isTimer } of found.hits) hits.push({ eventId, topic, isTimer });
      searched += found.searched;
      after = found.last;
    }
    const again = after === null && !isExact ? namesOfNextPass(before, names) : null;
    if (again) {
      names = again;
      continue;
    }
    return {
      nowMs,
      names,
      topics: byTopic(hits),
      timers: hits.filter(({ isTimer }) => isTimer).length,
      pending: await pendingOf(
        db,
        hits.filter(({ isTimer }) => !isTimer),
      ),
      eventIds: hits.slice(0, MOST_LISTED).map(({ eventId }) => eventId),
      searched,
      isComplete: after === null,
    };
  }
}

function byTopic(hits: readonly Pick<Hit, 'topic'>[]): ErasurePreview['topics'] {
  const counts = new Map<string, number>();
  for (const { topic } of hits) counts.set(topic, (counts.get(topic) ?? 0) + 1);
  return [...counts]
    .map(([topic, events]) => ({ topic, events }))
    .toSorted((one, other) => other.events - one.events || one.topic.localeCompare(other.topic));
}

async function pendingOf(
  db: Database,
  hits: readonly Pick<Hit, 'eventId'>[],
): Promise<ErasurePreview['pending']> {
  if (hits.length === 0) return [];
  return await run(driverOf(db), {
    text: PENDING,
    values: [JSON.stringify(hits.map(({ eventId }) => eventId))],
  });
}

// Before its place there are no deliveries, but it is known whom the event is for.
const PENDING = `
  with hit as materialized (
    select id::uuid from jsonb_array_elements_text($1::jsonb) as event(id)
  )
  select topic, subscriber, count(*)::int as count from (
    select topic, subscriber from lanes join exceptions on lane = lanes.id
    where is_open and state in ('pending', 'failing') and event_id in (select id from hit)
    union all
    select topic, subscriber from lane_heads as lane join log on log.stream = lane.stream and position > head
    where head < tail and event_id in (select id from hit) and subscriber = any ((
      select subscribers from audiences
      where audiences.stream = log.stream and audiences.position <= log.position order by audiences.position desc limit 1
    )::text[])
    union all
    select topic, name from awaiting, unnest(subscribers) as name where event_id in (select id from hit)
  ) as unfinished
  group by 1, 2 order by 3 desc, 1, 2`;
