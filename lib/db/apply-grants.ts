import { getViewName, is, isTable, getTableName, View } from 'drizzle-orm';

import * as schema from '../../drizzle/schema.ts';
import { run } from './statement.ts';
import type { Executor } from './statement.ts';

/** The names of the bus's tables and views, which may share their schema with those of others. */
const TABLES: readonly string[] = Object.values(schema).flatMap((one) => {
  if (isTable(one)) return getTableName(one);
  return is(one, View) ? getViewName(one) : [];
});

/**
 * Makes the rights of the database's roles those that `role_grants` lists, on the tables and functions of this release, and
 * takes from `public` the right to call our functions.
 *
 * @param db of the role that owns the tables.
 */
export async function applyGrants(db: Executor): Promise<void> {
  await run(db, {
    text: 'select postbud_apply_grants_1($1::text::text[])',
    values: [`{${TABLES.join(',')}}`],
  });
}
