import type { Database } from '../../lib/platform/db/connect.ts';
import { rows } from './bus.ts';

/**
 * Describes the tables, indexes, functions, triggers and types of a database, in their order by name. Constraints that
 * rows from before them were not checked against are as any other.
 */
export async function structureOf(db: Database): Promise<string[]> {
  const found = await rows<{ line: string }>(
    db,
    `select concat_ws(' ', 'column', table_name, column_name, udt_name, is_nullable, column_default, is_identity,
       identity_generation, generation_expression) as line from information_schema.columns where table_schema = 'public'
     union all
     select concat_ws(' ', 'constraint', conrelid::regclass, conname, replace(pg_get_constraintdef(oid), ' NOT VALID', ''))
     from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n'
     union all
     select concat_ws(' ', 'index', pg_get_indexdef(indexrelid)) from pg_index join pg_class on pg_class.oid = indexrelid
     where relnamespace = 'public'::regnamespace
     union all
     select concat_ws(' ', 'function', oid::regprocedure, proacl,
       case when prokind = 'f' then pg_get_functiondef(oid) else prosrc end)
     from pg_proc where pronamespace = 'public'::regnamespace
     union all
     select concat_ws(' ', 'trigger', pg_get_triggerdef(oid)) from pg_trigger where not tgisinternal
     union all
     select concat_ws(' ', 'relation', relname, relkind, relreplident, array(select unnest(reloptions) order by 1), relacl,
       array(select attstorage from pg_attribute where attrelid = pg_class.oid and attnum > 0 and not attisdropped order by attname))
     from pg_class where relnamespace = 'public'::regnamespace and relkind <> 'c'
     union all
     select concat_ws(' ', 'type', oid::regtype, typtype, array(select enumlabel from pg_enum where enumtypid = pg_type.oid order by enumsortorder))
     from pg_type where typnamespace = 'public'::regnamespace and typtype in ('c', 'e', 'd')
     union all
     select concat_ws(' ', 'view', viewname, definition) from pg_views where schemaname = 'public'
     order by line`,
  );
  return found.map(({ line }) => line);
}
