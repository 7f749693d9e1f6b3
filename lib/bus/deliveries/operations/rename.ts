import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, limitStatements, run } from '../../../platform/db/statement.ts';
import { MINUTE } from '../../../platform/time.ts';
import { subscribersOf } from '../../catalog/catalog.ts';
import { groupOf } from '../error-group.ts';
import { NotActedOn } from '../refusals.ts';
import type { Word } from './asked.ts';
import { hasLeft, lockName, standingUnder } from './standing.ts';
import type { Standing } from './standing.ts';

/** A subscriber's name, and the one that the next release gives it. */
export interface Rename {
  readonly from: string;
  readonly to: string;
  /** Null: all topics that the name has lanes of. */
  readonly topic: string | null;
}

/**
 * Finds what a rename would rename. Changes nothing.
 *
 * @returns null when there is nothing of the name, and it was not renamed before.
 * @throws NotActedOn `name_taken` where the new name is another subscriber's of one of these topics.
 */
export async function previewRename(
  db: Database,
  { from, to, topic }: Rename,
): Promise<readonly Standing[] | null> {
  const found = await standingUnder(driverOf(db), from, topic);
  const topics = found.map((one) => one.topic);
  const [taken] = await run<{ topic: string }>(driverOf(db), {
    text: TAKEN,
    values: [JSON.stringify(topics), to],
  });
  const both = topics.find((name) => [from, to].every((one) => subscribersOf(name).includes(one)));
  const where = taken?.topic ?? both;
  if (where !== undefined)
    throw new NotActedOn(
      'name_taken',
      `${to} is another subscriber of ${where}, with deliveries of its own. Nothing was renamed. Where the new name runs already, backfill what ${from} has not got, and retire ${from}.`,
    );
  return found.length > 0 || (await hasLeft(driverOf(db), from, 'rename')) ? found : null;
}

/**
 * Renames a subscriber, before the release that lists its new name: its lanes with all their deliveries, its pauses, errors,
 * incidents and health are the new name's. Relays hand over nothing of them until that release runs.
 *
 * @returns what stood under the name, by topic; null when there is nothing of it.
 * @throws NotActedOn as `previewRename`.
 */
export async function rename(
  db: Database,
  asked: Rename,
  { by, reason }: Word,
): Promise<readonly Standing[] | null> {
  const { from, to, topic } = asked;
  const found = await previewRename(db, asked);
  if (found === null || found.length === 0) return found;
  const topics = found.map((one) => one.topic);
  const named = [JSON.stringify(topics), from, to];
  await db.transaction(async (tx) => {
    await limitStatements(tx, 1 * MINUTE);
    await lockName(tx, from, topics);
    const [taken] = await run(tx, { text: TAKEN, values: [named[0], to] });
    if (taken)
      throw new NotActedOn('under_way', `${to} has just got its first delivery. Nothing was renamed.`);
    const groups = await run<{ key: string; topic: string; kind: string; message: string }>(tx, {
      text: GROUPS,
      values: named.slice(0, 2),
    });
    const keys = groups.map((group) => ({
      old: group.key,
      new: groupOf(group.topic, to, group.kind, group.message).key,
    }));
    const ids = topics.map((name) => ({ topic: name, id: uuidv7() }));
    for (const text of RENAMES) await run(tx, { text, values: [...named, topic === null] });
    await run(tx, { text: REGROUP, values: [JSON.stringify(keys), to] });
    await run(tx, { text: RECORD, values: [JSON.stringify(ids), from, by, `Now ${to}: ${reason}`] });
  });
  return found;
}

const TOPICS = `(select jsonb_array_elements_text($1::text::jsonb))`;

const TAKEN = `
  select topic from lanes where subscriber = $2::text and topic in ${TOPICS}
  union
  select topic from awaiting where $2::text = any (subscribers) and topic in ${TOPICS} order by topic limit 1`;

const GROUPS = `
  select key, topic, kind, message from error_groups where subscriber = $2::text and topic in ${TOPICS} order by key`;

/** Of a table whose rows have one of the topics; where all of them are renamed, also those of no topic. @param key of a row, besides the name. */
const renamed = (table: string, key: readonly string[], isIts = 'true') => `
  update ${table} set subscriber = $3::text
  where subscriber = $2::text and (topic in ${TOPICS} or topic = '' and $4::boolean) and ${isIts} and not exists (
    select from ${table} as known
    where known.subscriber = $3::text and ${key.map((one) => `known.${one} is not distinct from ${table}.${one}`).join(' and ')}
  )`;

const RENAMES = [
  `update lanes set subscriber = $3::text where subscriber = $2::text and topic in ${TOPICS} and $4::boolean is not null`,
  `update audiences set subscribers = array_replace(subscribers, $2::text, $3::text)
   where stream in (select id from streams where topic in ${TOPICS}) and $2::text = any (subscribers) and $4::boolean is not null`,
  `update awaiting set subscribers = array_replace(subscribers, $2::text, $3::text)
   where topic in ${TOPICS} and $2::text = any (subscribers) and $4::boolean is not null`,
  renamed('pauses', ['topic']),
  renamed('backfills', ['topic', 'ended_at'], 'ended_at is null'),
  renamed('incidents', ['topic', 'kind', 'error_group', 'closed_at']),
  renamed('subscriber_health', ['topic', 'period', 'starts_at']),
  `update outages set subscriber = $3::text
   where subscriber = $2::text and $4::boolean and $1::text is not null and not exists (select from outages where subscriber = $3::text)`,
];

const REGROUP = `
  with regrouped as materialized (
    select * from json_to_recordset($1::text::json) as regrouped(old text, new text)
  ),
  exception as (
    update exceptions set error_group = new from regrouped where error_group = old
  ),
  incident as (
    update incidents set error_group = new from regrouped where error_group = old
  )
  update error_groups set key = new, subscriber = $2::text from regrouped where key = old`;

const RECORD = `
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select id, clock_timestamp(), $3::text, 'rename', topic, $2::text, $4::text
  from json_to_recordset($1::text::json) as renamed(id uuid, topic text)`;
