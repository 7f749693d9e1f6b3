import type { ErasedName } from '../../../drizzle/schema.ts';
import { topics } from '../../bus/catalog/catalog.ts';
import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { soughtNames } from './erased-names.ts';
import type { NamedEvent } from './erased-names.ts';
import { namingFields } from './person.ts';

/** Ids are UUIDv7: an event's id is after this one. */
export const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** What to look for, and how far the search has come. */
export interface Search {
  readonly names: readonly ErasedName[];
  /** Only events and timers that are no newer. ISO 8601. */
  readonly until: string;
  /** Only events after this one, up to the other one. */
  readonly after: string;
  readonly lastId: string;
}

export interface Searched {
  readonly hits: readonly Hit[];
  /** Events that were read. */
  readonly searched: number;
  /** The last of them; null where there are no more. */
  readonly last: string | null;
}

/** An event that names the person, or a timer that becomes one. */
export interface Hit extends NamedEvent {
  readonly eventId: string;
  readonly topic: string;
  readonly isTimer: boolean;
}

/** Events and timers that one statement reads, in less than 0.1 s. */
const SEARCHED_AT_ONCE = 10_000;

/**
 * Reads the next events and timers by their primary keys, and gives those that name the person: in a field that the catalog says, by
 * the event's own id, or, where the catalog does not know the payload, anywhere. It reads all, because the index of
 * identifiers has no e-mail addresses.
 *
 * A timer becomes an event of the same id, so that a walk meets it once, as the one or the other.
 */
export async function searchEvents(db: Executor, search: Search): Promise<Searched> {
  const [row] = await run<{ found: FoundHits }>(db, { text: searchStatement(), values: valuesOf(search) });
  const { hits, searched, last } = row!.found;
  return {
    hits: hits.map(({ id, topic, isTimer, fields }) => ({
      eventId: id,
      topic,
      isTimer,
      fields: fields.map(([text, isPersonal, isOther]) => ({ text, isPersonal, isOther })),
    })),
    searched,
    last: searched < SEARCHED_AT_ONCE ? null : last,
  };
}

interface FoundHits {
  readonly searched: number;
  readonly last: string | null;
  readonly hits: readonly {
    readonly id: string;
    readonly topic: string;
    readonly isTimer: boolean;
    readonly fields: readonly (readonly [text: string, isPersonal: boolean, isOther: boolean])[];
  }[];
}

function valuesOf({ names, until, after, lastId }: Search): unknown[] {
  const sought = soughtNames(names);
  const lower = sought.map((text) => text.toLowerCase());
  const ids = sought.filter((text) => UUID.test(text));
  const versions = Object.fromEntries(topics().map(([topic, { version }]) => [topic, version]));
  // The drivers write arrays differently; JSON is the same for all.
  const lists = [namingFields(), sought, lower, ids, versions].map((value) => JSON.stringify(value));
  return [after, lastId, until, ...lists];
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const texts = (parameter: string) => `array(select jsonb_array_elements_text(${parameter}::jsonb))`;

/** The few paths of all topics, in the statement itself: to join each event with its topic's would take four times as long. */
function anyPath(): string {
  const paths = [...new Set(namingFields().map(({ path }) => path))];
  const read = (path: string) =>
    path.includes('.') ? `#>> '{${path.replaceAll('.', ',')}}'` : `->> '${path}'`;
  return paths.map((path) => `lower(payload ${read(path)}) = any (${texts('$6')})`).join(' or ');
}

/** When the timer was set that an event was released from is not known: it counts as set in time. */
function mayHit(table: string, isInTime: string): string {
  return `select id, (${isInTime}) and (
      ${anyPath()} or id = any (array(select jsonb_array_elements_text($7::jsonb)::uuid))
      or version > coalesce(($8::jsonb ->> topic)::int, 0)
    ) as may_hit
    from ${table} where id > $1::uuid and id <= $2::uuid`;
}

let statement: string | undefined;

/** Kept, because it takes the whole catalog to write. */
function searchStatement(): string {
  return (statement ??= `
  with chunk as materialized (
    ${mayHit('events', 'created_at <= $3::timestamptz or due_at is not null')}
    union all
    ${mayHit('timers', 'set_at <= $3::timestamptz')}
    order by id limit ${SEARCHED_AT_ONCE}
  ),
  candidate as materialized (
    select id, topic, payload, version, false as is_timer from chunk join events using (id) where may_hit
    union all
    select id, topic, payload, version, true from chunk join timers using (id) where may_hit
  ),
  naming as materialized (
    select topic, string_to_array(path, '.') as path, "isPersonal" as is_personal, "isOther" as is_other
    from jsonb_to_recordset($4::jsonb) as field(topic text, path text, "isPersonal" boolean, "isOther" boolean)
  ),
  sought as materialized (
    select ${texts('$5')} as names, ${texts('$6')} as lower_names
  ),
  hit as materialized (
    select candidate.id from sought, candidate join naming on naming.topic = candidate.topic
    where payload #>> path = any (names)
      or payload #>> path like '%@%' and lower(payload #>> path) = any (lower_names)
    union
    select id from candidate where id = any (array(select jsonb_array_elements_text($7::jsonb)::uuid))
    union
    select id from sought, candidate
    where version > coalesce(($8::jsonb ->> topic)::int, 0) and exists (
      select from unnest(names) as name
      where jsonb_path_exists(payload, '$.** ? (@ == $name)', jsonb_build_object('name', name))
    )
  )
  select json_build_object('searched', (select count(*) from chunk),
    'last', (select id from chunk order by id desc limit 1), 'hits', (
      select coalesce(json_agg(json_build_object('id', id, 'topic', topic, 'isTimer', is_timer, 'fields', (
        select coalesce(json_agg(json_build_array(payload #>> path, is_personal, is_other)), '[]')
        from naming where naming.topic = candidate.topic and payload #>> path is not null
      )) order by id), '[]')
      from hit join candidate using (id)
    )) as found`);
}
