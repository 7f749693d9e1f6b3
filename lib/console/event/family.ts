import { subjectOf } from '../../bus/catalog/subject.ts';
import { findEvents } from '../../components/identifiers/find-events.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { relativeFields } from './view.ts';
import type { EventView, RelatedEvent } from './view.ts';

/** An event that names another as its cause. */
export interface Effect {
  readonly eventId: string;
  readonly topic: string;
  readonly causedBy: string;
}

/** So many are found of one cause. */
const MOST_OF_ONE = 200;

/** How many of the newest events are looked at: more than the index leaves out while the cron runs. */
const NEWEST = 4096;

/**
 * Finds the events that some others caused, oldest first. The index of identifiers has them by the ids of their causes; the
 * newest events, which it lacks, are looked at one by one.
 */
export async function effectsOf(db: Database, causes: readonly string[]): Promise<readonly Effect[]> {
  const indexed = await findEvents(db, causes, { below: Number.MAX_SAFE_INTEGER, limit: MOST_OF_ONE });
  const found = indexed.flatMap(({ eventId }) => eventId ?? []);
  return await run<Effect>(driverOf(db), {
    text: EFFECTS,
    values: [`{${causes.join(',')}}`, `{${found.join(',')}}`],
  });
}

const EFFECTS = `
  with found as (
    select id, topic, causation_id, seq from (
      select id, topic, causation_id, seq from events order by id desc limit ${NEWEST}
    ) as newest
    union
    select id, topic, causation_id, seq from events where id = any ($2::text::uuid[])
  )
  select id::text as "eventId", topic, lower(causation_id) as "causedBy" from found
  where lower(causation_id) = any ($1::text::text[]) order by seq`;

/** What led to an event, and what it led to. */
export type Family = Pick<EventView, 'causes' | 'effects'>;

/**
 * Reads the causes and effects of an event, by the causation ids of events. Causes are found up to the first, each by its
 * id; the effects of its effects are on their own pages.
 */
export async function readFamily(db: Database, eventId: string): Promise<Family> {
  const caused = (await effectsOf(db, [eventId])).filter((effect) => effect.eventId !== eventId);
  const effects = caused.slice(0, MOST_EFFECTS).map((effect) => effect.eventId);
  const found = await run<FoundRelative>(driverOf(db), {
    text: FAMILY,
    values: [eventId, `{${effects.join(',')}}`],
  });
  return {
    causes: found.filter(({ distance }) => distance > 0).map(relativeOf),
    effects: found.filter(({ distance }) => distance === 0).map(relativeOf),
  };
}

interface FoundRelative {
  readonly relative: Row<typeof relativeFields>;
  /** Of a cause, how many events away it is; of an effect 0. */
  readonly distance: number;
  /** This and the version are null for a pruned event. */
  readonly payload: unknown;
  readonly version: number | null;
}

function relativeOf({ relative, payload, version }: FoundRelative): RelatedEvent {
  const { topic } = relative;
  return { ...relative, subject: topic === null ? null : subjectOf(topic, payload, version ?? 1) };
}

/** Nobody reads a longer list. */
export const MOST_EFFECTS = 50;

/** A chain of causes is seldom longer than three events. It may be a circle, if a producer makes up its ids. */
const LONGEST_CHAIN = 12;

const UUID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';

const FAMILY = `
  with recursive cause as (
    select 1 as distance, lower(causation_id) as id from events where id = $1::text::uuid and causation_id is not null
    union all
    select distance + 1, lower(causation_id) from cause
      join events on events.id = case when cause.id ~ '${UUID}' then cause.id::uuid end
    where causation_id is not null and distance < ${LONGEST_CHAIN}
  ),
  relative as materialized (
    select distance, cause.id as relative_id, events.* from cause
      left join events on events.id = case when cause.id ~ '${UUID}' then cause.id::uuid end
    union all
    select 0, id::text, events.* from events where id = any ($2::text::uuid[])
  )
  select ${jsonOf(relativeFields)} as relative, distance, payload, version
  from relative as events order by distance desc, seq`;
