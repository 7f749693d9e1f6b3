import { findEvents } from '../../components/identifiers/find-events.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { receiptFields, relativeFields } from './view.ts';
import type { EventView, Receipt, RelatedEvent } from './view.ts';

/** What led to an event, and what it led to. */
export type Family = Pick<EventView, 'webhook' | 'causes' | 'effects' | 'areMoreEffects'>;

/** The event whose family is read. */
interface Member {
  readonly eventId: string;
  readonly correlationId: string | null;
  readonly seq: number;
}

/**
 * Reads the causes and effects of an event, by the causation ids of events.
 *
 * A cause is found by its id. Effects are found in the index of identifiers, by the correlation id that they usually share
 * and by the ids of their causes; the newest events, which are not in the index yet, are looked at one by one.
 */
export async function readFamily(db: Database, { eventId, correlationId, seq }: Member): Promise<Family> {
  const asked = new Set<string>();
  const known = new Set<string>();
  let next = [eventId, ...(correlationId === null ? [] : [correlationId])];
  for (let level = 0; ; level += 1) {
    const isNew = next.filter((id) => !asked.has(id)).slice(0, MOST_ASKED);
    for (const id of isNew) asked.add(id);
    for (const id of (await Promise.all(isNew.map((one) => indexed(db, one)))).flat()) known.add(id);
    const found = await find(db, eventId, seq, [...known]);
    next = found.effects.map((effect) => effect.eventId).filter((id) => !asked.has(id));
    if (next.length === 0 || level === DEEPEST) return familyOf(found);
  }
}

/** @returns the ids of the events that have an identifier, as far as the index has them. */
async function indexed(db: Database, identifier: string): Promise<string[]> {
  const found = await findEvents(db, identifier, { below: Number.MAX_SAFE_INTEGER, limit: MOST_OF_ONE });
  return found.flatMap(({ eventId }) => eventId ?? []);
}

async function find(db: Database, eventId: string, seq: number, known: readonly string[]): Promise<Found> {
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: FAMILY,
    values: [eventId, `{${known.join(',')}}`, seq],
  });
  return row!.found;
}

function familyOf({ causes, effects, isMore, webhook }: Found): Family {
  return {
    webhook,
    causes: causes.map(relativeOf),
    effects: effects.slice(0, MOST_EFFECTS).map(relativeOf),
    areMoreEffects: isMore || effects.length > MOST_EFFECTS,
  };
}

/** The statement's result. */
interface Found {
  readonly causes: readonly FoundRelative[];
  readonly effects: readonly FoundRelative[];
  readonly webhook: Receipt | null;
  readonly isMore: boolean;
}

interface FoundRelative extends Row<typeof relativeFields> {
  /** This and the version are null for a pruned event. */
  readonly payload: unknown;
  readonly version: number | null;
}

function relativeOf({ payload, version, ...found }: FoundRelative): RelatedEvent {
  const { topic } = found;
  return { ...found, subject: topic === null ? null : subjectOf(topic, payload, version ?? 1) };
}

/** Nobody reads a longer list. */
const MOST_EFFECTS = 50;

/** A chain of causes is seldom longer than three events. It may be a circle, if a producer makes up its ids. */
const LONGEST_CHAIN = 12;

/** How many of the newest events are looked at: more than the index leaves out while the cron runs. */
const NEWEST = 4096;

/** How many identifiers are looked up at once, how many events of each, and how often anew for the effects of effects. */
const MOST_ASKED = 8;
const MOST_OF_ONE = 200;
const DEEPEST = 2;

const RELATIVE = jsonOf(relativeFields, { payload: 'payload', version: 'version' });

const UUID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';

// Ids are UUIDv7, so the effects of an event have higher ids, and the newest events have the highest.
const FAMILY = `
  with recursive cause as (
    select 1 as distance, lower(causation_id) as id from events where id = $1::uuid and causation_id is not null
    union all
    select distance + 1, lower(causation_id) from cause
      join events on events.id = case when cause.id ~ '${UUID}' then cause.id::uuid end
    where causation_id is not null and distance < ${LONGEST_CHAIN}
  ),
  known_cause as materialized (
    select distance, cause.id as relative_id, causation_id as caused_by, events.* from cause
      left join events on events.id = case when cause.id ~ '${UUID}' then cause.id::uuid end
  ),
  newest as materialized (
    select id, causation_id, seq from events where id > $1::uuid order by id desc limit ${NEWEST}
  ),
  later as materialized (
    select id, lower(causation_id) as caused_by from newest
    union
    select id, lower(causation_id) from events where id = any ($2::text::uuid[])
  ),
  effect as (
    select id, caused_by, 1 as distance from later where caused_by = $1::uuid::text
    union all
    select later.id, later.caused_by, distance + 1 from effect join later on later.caused_by = effect.id::text
    where distance < ${LONGEST_CHAIN}
  ),
  listed_effect as materialized (
    select id as relative_id, min(caused_by) as caused_by from effect group by id order by id
    limit ${MOST_EFFECTS + 1}
  ),
  -- Of the event itself, or of its first cause.
  webhook as materialized (
    select split_part(topic, '.', 2) as provider, payload ->> 'eventId' as event_id
    from (
      (select topic, payload from known_cause order by distance desc limit 1)
      union all
      select topic, payload from events where id = $1::uuid and causation_id is null
    ) as first_cause
    where topic like 'webhook.%.received'
  )
  select json_build_object(
    'causes', (
      select coalesce(json_agg(${RELATIVE} order by distance desc), '[]') from known_cause as events
    ),
    'effects', (
      select coalesce(json_agg(${RELATIVE} order by relative_id), '[]')
      from listed_effect join events on events.id = relative_id
    ),
    'webhook', (
      select ${jsonOf(receiptFields)} from webhook join webhook_receipts using (provider, event_id)
    ),
    'isMore', (
      select coalesce($3::float8 < min(from_seq), false)
        or (select count(*) = ${NEWEST} and min(seq) > coalesce(max(to_seq), 0) from newest)
      from indexed_events
    )
  ) as found`;
