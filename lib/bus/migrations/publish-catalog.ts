import * as z from 'zod';

import { topics } from '../catalog/catalog.ts';
import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';

/**
 * Writes this release's catalog into the database, where the SQL function `postbud_emit` reads it.
 *
 * The schemas of earlier payload versions stay, so that producers which still write them can go on. Topics that this
 * catalog lacks go, and so do versions newer than its own.
 */
export async function publishCatalog(db: Executor): Promise<void> {
  const rows = topics().map(([topic, row]) => ({
    topic,
    producer: row.producer,
    subscribers: row.subscribers,
    version: row.version,
    ordered_by: row.orderedBy ?? null,
    schema: schemaOf(row.payload),
  }));
  await run(db, { text: PUBLISH_CATALOG, values: [JSON.stringify(rows)] });
}

const PUBLISH_CATALOG = `
  with given as materialized (
    select topic, producer, array(select jsonb_array_elements_text(subscribers)) as subscribers, version, ordered_by,
      jsonb_build_object(version::text, schema) as schemas
    from jsonb_to_recordset($1::text::jsonb) as given(
      topic text, producer text, subscribers jsonb, version smallint, ordered_by text, schema jsonb)
  ),
  gone as (
    delete from catalog_topics where topic not in (select topic from given)
  )
  insert into catalog_topics as known (topic, producer, subscribers, version, ordered_by, schemas)
  select topic, producer, subscribers, version, ordered_by, schemas from given
  on conflict (topic) do update set producer = excluded.producer, subscribers = excluded.subscribers,
    version = excluded.version, ordered_by = excluded.ordered_by,
    schemas = excluded.schemas || coalesce((
      select jsonb_object_agg(earlier.version, earlier.schema) from jsonb_each(known.schemas) as earlier(version, schema)
      where earlier.version::int < excluded.version), '{}')`;

/** Writes a payload's schema with the keywords that `postbud_parse_2` knows: formats as patterns, and without `personal`. */
function schemaOf(payload: z.ZodType): object {
  const { $schema: _, ...schema } = z.toJSONSchema(payload, {
    io: 'input',
    override: ({ jsonSchema, zodSchema }) => {
      delete jsonSchema['personal'];
      if (jsonSchema.format === undefined && jsonSchema.pattern === undefined) return;
      const quick = QUICK_PATTERNS.get(jsonSchema.format ?? '');
      if (quick !== undefined) jsonSchema['quickPattern'] = quick;
      const message = MESSAGES.get(jsonSchema.format ?? '') ?? messageOf(zodSchema);
      if (message !== undefined) jsonSchema['message'] = message;
      // A scheme and something behind it. Only a URL parser knows more.
      if (jsonSchema.format === 'uri') jsonSchema.pattern = String.raw`^[A-Za-z][A-Za-z\d+.-]*:\S+$`;
      delete jsonSchema.format;
    },
  });
  return schema;
}

/**
 * What nearly all texts of a format match, and no others: those are not matched with the pattern, whose leap years cost
 * Postgres 15 µs a text.
 */
const QUICK_PATTERNS: ReadonlyMap<string, string> = new Map([
  [
    'date-time',
    String.raw`^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z$`,
  ],
  ['date', String.raw`^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])$`],
]);

const MESSAGES: ReadonlyMap<string, string> = new Map([
  ['date-time', 'expected an instant of UTC, for example 2026-02-21T09:30:00Z'],
  ['date', 'expected a day, for example 2026-02-21'],
  ['email', 'expected an e-mail address'],
  ['uri', 'expected a URL'],
]);

/** Finds the message that a schema gives with its pattern: what it says of a text that fits none. */
function messageOf(schema: z.core.$ZodType): string | undefined {
  const { error } = z.safeParse(schema, '\0');
  return error?.issues.find(({ code }) => code === 'invalid_format')?.message;
}
