import { and, inArray, isNotNull, or, sql } from 'drizzle-orm';

import { identitySubjects, notifications, operatorNames } from '../../../drizzle/schema.ts';
import type { ErasedName } from '../../../drizzle/schema.ts';
import { WATCH_LOCK } from '../../bus/deliveries/locks.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { soughtNames } from './erased-names.ts';

/** Texts outside of events that may quote one: who writes them masks what they know of, which may be too little. */
const PLACES = [
  { table: 'error_groups', key: ['key'], columns: ['kind', 'message'] },
  { table: 'outages', key: ['subscriber'], columns: ['message'] },
  { table: 'incidents', key: ['id'], columns: ['kind', 'message', 'acknowledged_note'] },
  { table: 'alerts', key: ['incident_id', 'revision', 'channel'], columns: ['last_error'] },
  { table: 'pauses', key: ['subscriber', 'topic'], columns: ['reason'] },
  { table: 'backfills', key: ['id'], columns: ['reason'] },
] as const;

/** Rows that are read at once. */
const ROWS = 2000;

/** Texts that are looked for at once. */
const TEXTS = 5000;

export interface ErasedTexts {
  /** Rows in which a text was masked, and names of operators that were forgotten. */
  readonly texts: number;
  readonly notifications: number;
  /** Those of the names that the identity component knew as a provider's name. */
  readonly subjects: readonly string[];
}

/**
 * Masks a person's data in what is written about incidents, errors and pauses, and forgets their addresses, the provider's
 * names for them, and what the directory calls them. It holds the lock of the watch over incidents, which would otherwise
 * write what it has read before.
 *
 * @param names of the person. What their events had is read from `erased_events`.
 */
export async function eraseTexts(
  tx: Transaction,
  erasureId: string,
  names: readonly ErasedName[],
): Promise<ErasedTexts> {
  await run(tx, { text: `select pg_advisory_xact_lock(${WATCH_LOCK}, 0)`, values: [] });
  // Ids stay.
  const known = new Set(names.flatMap(({ text, isPersonal }) => (isPersonal ? [text] : [])));
  let texts = 0;
  let after = '';
  do {
    const found = await run<{ text: string }>(tx, { text: NEXT_TEXTS, values: [erasureId, after] });
    for (const { text } of found) if (!WORD.test(text)) known.add(text);
    after = found.at(-1)?.text ?? '';
    if (found.length === TEXTS && known.size < TEXTS) continue;
    texts += await maskAll(tx, [...known]);
    known.clear();
  } while (after !== '');
  const sought = soughtNames(names);
  const lower = sought.map((name) => name.toLowerCase());
  const { eventId, email } = notifications;
  const notified = await tx
    .update(notifications)
    .set({ email: null })
    .where(and(isNotNull(email), inArray(sql`lower(${email})`, lower)))
    .returning({ eventId });
  const subjects = await tx
    .delete(identitySubjects)
    .where(inArray(identitySubjects.subject, sought))
    .returning();
  const called = await tx
    .delete(operatorNames)
    .where(or(inArray(operatorNames.subject, sought), inArray(sql`lower(${operatorNames.name})`, lower)))
    .returning();
  return {
    texts: texts + called.length,
    notifications: notified.length,
    subjects: subjects.map(({ subject }) => subject),
  };
}

/** A word of a machine, such as `login.succeeded` in a webhook's body: to mask it everywhere would help nobody. */
const WORD = /^[a-z][a-z_.-]*$/;

async function maskAll(tx: Transaction, known: readonly string[]): Promise<number> {
  let masked = 0;
  if (known.length === 0) return masked;
  for (const place of PLACES) masked += await maskIn(tx, place, known);
  return masked;
}

async function maskIn(
  tx: Transaction,
  { table, key, columns }: (typeof PLACES)[number],
  known: readonly string[],
): Promise<number> {
  const keys = key.map((name) => `${name}::text`).join(', ');
  let masked = 0;
  let after: string | null = null;
  for (;;) {
    const rows: { place: string; texts: Record<string, string | null> }[] = await run(tx, {
      text: `
        select json_build_array(${keys})::text as place,
          json_build_object(${columns.map((name) => `'${name}', ${name}::text`).join(', ')}) as texts
        from ${table} where $1::text is null or json_build_array(${keys})::text > $1::text
        order by 1 limit ${ROWS}`,
      values: [after],
    });
    const changed = rows.flatMap(({ place, texts }) => {
      const clean = Object.entries(texts).map(([name, text]) => [
        name,
        text && maskPersonalData(text, known),
      ]);
      const written: Record<string, unknown> = Object.fromEntries(clean);
      return JSON.stringify(written) === JSON.stringify(texts) ? [] : [{ place, ...written }];
    });
    if (changed.length > 0)
      await run(tx, {
        text: `
          update ${table} set ${columns.map((name) => `${name} = written.${name}`).join(', ')}
          from jsonb_to_recordset($1::jsonb)
            as written(place text, ${columns.map((name) => `${name} text`).join(', ')})
          where json_build_array(${key.map((name) => `${table}.${name}::text`).join(', ')})::text = written.place`,
        values: [JSON.stringify(changed)],
      });
    masked += changed.length;
    after = rows.at(-1)?.place ?? null;
    if (rows.length < ROWS) return masked;
  }
}

const NEXT_TEXTS = `
  select distinct text from erased_events, unnest(texts) as text
  where erasure_id = $1::uuid and text > $2::text order by text limit ${TEXTS}`;
