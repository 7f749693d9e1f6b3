import { getTableName, getViewName, is, isTable, View } from 'drizzle-orm';

import * as schema from '../../../drizzle/schema.ts';
import { run } from './statement.ts';
import type { Executor } from './statement.ts';

/**
 * A right of a role of the database.
 *
 * - `emit`: to call `postbud_emit` for the topics of a producer;
 * - `relay`: all that the functions and relays do, migrations excepted;
 * - `read`: to look at all tables.
 */
export type RoleRight =
  | { readonly may: 'emit'; readonly producer: string }
  | { readonly may: 'relay' | 'read'; readonly producer: '' };

/** A role and a right of it, as `role_grants` has them. */
type RoleGrant = RoleRight & { readonly role: string };

/** The bus's tables and views: others may share their schema. */
const TABLES: readonly string[] = Object.values(schema).flatMap((one) => {
  if (isTable(one)) return getTableName(one);
  return is(one, View) ? getViewName(one) : [];
});
const tables = `{${TABLES.join(',')}}`;

/**
 * Makes the rights of the database's roles those that `role_grants` lists, on the tables and functions of this release, and
 * takes from `public` the right to call our functions.
 *
 * @param db of the role that owns the tables.
 */
export async function applyGrants(db: Executor): Promise<void> {
  await run(db, { text: 'select postbud_apply_grants_1($1::text::text[])', values: [tables] });
}

/** Grants a right to a role, or what it has already once more. @param tx a transaction of the role that owns the tables. */
export async function grantRight(tx: Executor, role: string, { may, producer }: RoleRight): Promise<void> {
  const text = 'insert into role_grants (role, may, producer) values ($1, $2, $3) on conflict do nothing';
  await run(tx, { text, values: [role, may, producer] });
  await applyGrants(tx);
}

/**
 * Revokes rights of a role, and with them what it was granted on our tables and functions by hand.
 *
 * @param right null for all.
 * @param tx a transaction of the role that owns the tables.
 * @returns what was revoked.
 */
export async function revokeRight(tx: Executor, role: string, right: RoleRight | null): Promise<RoleGrant[]> {
  const revoked = await run<RoleGrant>(tx, {
    text: `delete from role_grants where role = $1 and ($2::text is null or (may, producer) = ($2::text, $3::text))
           returning role, may, producer`,
    values: [role, right?.may ?? null, right?.producer ?? null],
  });
  if (revoked.length > 0)
    await run(tx, { text: 'select postbud_withdraw_grants_1($1, $2::text::text[])', values: [role, tables] });
  return revoked;
}

/** Lists what was granted, by role. */
export async function roleGrants(db: Executor): Promise<RoleGrant[]> {
  const text = 'select role, may, producer from role_grants order by role, may, producer';
  return await run(db, { text, values: [] });
}

/** A role of the database, as far as it matters for a grant. */
export interface DatabaseRole {
  readonly role: string;
  /** Has every right on our tables: owns them, or is a superuser. */
  readonly isOwner: boolean;
  /** May make tables and functions beside ours. */
  readonly mayCreate: boolean;
  /** Our tables that it may write to without being a relay: granted by hand, as earlier releases asked for. */
  readonly writes: readonly string[];
}

/** Lists the roles of the database's server, but those of Postgres itself. */
export async function databaseRoles(db: Executor): Promise<DatabaseRole[]> {
  return await run(db, {
    text: `
      select rolname as role, pg_has_role(rolname, relowner, 'usage') as "isOwner",
        has_schema_privilege(rolname, 'public', 'create') as "mayCreate",
        case when exists (select from role_grants where role = rolname and may = 'relay') then '[]'
          else (select coalesce(json_agg(name order by name), '[]') from unnest($1::text::text[]) as tables(name)
            where has_table_privilege(rolname, format('public.%I', name), 'insert, update, delete')) end as writes
      from pg_roles, pg_class
      where pg_class.oid = 'public.events'::regclass and rolname !~ '^pg_' order by rolname`,
    values: [tables],
  });
}
