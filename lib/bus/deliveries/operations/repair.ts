import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database, Transaction } from '../../../platform/db/connect.ts';
import { limitStatements, run } from '../../../platform/db/statement.ts';
import { PLACING_LOCK } from '../locks.ts';
import { NotActedOn } from '../refusals.ts';
import type { Word } from './asked.ts';

/** What became of a repaired row. Of an event that awaits its place again: whether newer ones are in front of it now. */
export type RepairOutcome = 'in_its_place' | 'late' | 'due' | 'dismissed';

export interface Repaired {
  readonly outcome: RepairOutcome;
  /** Empty where it concerns no one topic. */
  readonly topic: string;
  readonly eventId: string | null;
}

/**
 * Repairs a row that the bus set aside, or an event that neither has a place nor awaits one, and records the operator and the
 * reason.
 *
 * An event that exists awaits its place again: where it belongs if nothing newer of its topic has got one meanwhile, else as if
 * it had been recorded now, since subscribers have received what is newer. A row without an event, or whose event has its
 * place, is dismissed: it stays on record.
 *
 * @param id of the row, or of the event.
 * @throws NotActedOn `not_found` where neither a row nor an event has the id; `not_broken` where there is nothing to repair.
 */
export async function repair(db: Database, asked: Word & { readonly id: string }): Promise<Repaired> {
  const isRow = /^\d+$/.test(asked.id);
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const row = isRow ? await takeUp(tx, asked.id) : null;
    if (isRow && row === null) throw new NotActedOn('not_found', UNKNOWN);
    if (row?.is_repaired) throw new NotActedOn('not_broken', SOUND);
    const eventId = row === null ? asked.id : row.event_id;
    const record = async (topic: string) => {
      const values = [row?.id ?? null, asked.by, asked.reason, uuidv7(), topic || null, eventId];
      await run(tx, { text: RECORD, values });
    };
    if (row?.kind === 'unfit_timer') {
      const due = await run(tx, { text: RELEASE_AGAIN, values: [eventId] });
      await record(row.topic);
      if (due.length > 0) noteDue(tx);
      return { outcome: due.length > 0 ? 'due' : 'dismissed', topic: row.topic, eventId };
    }
    await run(tx, { text: LOCK, values: [row?.topic ?? null, eventId] });
    const [placed] = eventId === null ? [] : await run<Placed>(tx, { text: PLACE, values: [eventId] });
    if (row === null && !placed) throw new NotActedOn('not_found', UNKNOWN);
    if (row === null && placed!.is_late === null) throw new NotActedOn('not_broken', SOUND);
    const isLate = placed?.is_late ?? null;
    const outcome = isLate === null ? 'dismissed' : isLate ? 'late' : 'in_its_place';
    const topic = row?.topic ?? placed!.topic;
    await record(topic);
    if (isLate !== null) noteDue(tx);
    return { outcome, topic, eventId };
  });
}

const UNKNOWN = 'Nothing that was set aside and no event has this id.';
const SOUND =
  'There is nothing to repair: the event has its place or awaits it, or somebody has repaired it already.';

interface FoundRow {
  readonly id: string;
  readonly topic: string;
  readonly event_id: string | null;
  readonly kind: string;
  readonly is_repaired: boolean;
}

interface Placed {
  readonly topic: string;
  /** Null where nothing was to be done. */
  readonly is_late: boolean | null;
}

async function takeUp(tx: Transaction, id: string): Promise<FoundRow | null> {
  const [row] = await run<FoundRow>(tx, {
    text: `select id::text, topic, event_id::text, kind, repaired_at is not null as is_repaired from set_aside
      where id = $1::text::bigint for update`,
    values: [id],
  });
  return row ?? null;
}

/** Of a timer that the catalog refused: it accepts it now, or refuses it again. */
const RELEASE_AGAIN = `
  update timers set refused_at = null where id = $1::uuid and refused_at is not null returning 1 as it`;

const LOCK = `
  select pg_advisory_xact_lock(${PLACING_LOCK}, hashtext(topic))
  from (select coalesce((select topic from events where id = $2::uuid), $1::text) as topic) as of where topic is not null`;

// No event of the topic gets a place meanwhile, so what is newer has one now or comes behind it.
const PLACE = `
  with event as materialized (
    select * from events where id = $1::uuid
  ),
  lost as materialized (
    select event.*, exists (
      select from streams, lateral (
          select event_id from log where stream = streams.id and event_id is not null order by position desc limit 1
        ) as newest join events as newer on newer.id = newest.event_id
      where streams.topic = event.topic and (newer.created_at, newer.seq) > (event.created_at, event.seq)
    ) as is_late
    from event
    where not exists (select from log where event_id = event.id)
      and not exists (select from awaiting where event_id = event.id and awaiting.topic = event.topic)
  ),
  recorded as (
    update events set created_at = case when is_late then clock_timestamp() else events.created_at end,
      subscribers = array_remove(events.subscribers, null)
    from lost where events.id = lost.id
    returning events.*
  ),
  marked as (
    insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, bytes, subscribers)
    select topic, created_at, seq, id, ordering_key, version, octet_length(payload::text), subscribers from recorded
  )
  select event.topic, lost.is_late from event left join lost using (id)`;

const RECORD = `
  with repaired as (
    update set_aside set repaired_at = clock_timestamp(), repaired_by = $2::text, reason = $3::text
    where id = $1::text::bigint
  )
  insert into operator_actions (id, at, operator, action, topic, reason, event_id)
  values ($4::uuid, clock_timestamp(), $2::text, 'repair', $5::text, $3::text, $6::uuid)`;
