import { SECOND, sleep } from '../lib/platform/time.ts';

/**
 * Waits until autovacuum has analyzed what was filled, as it has in production by the time anybody looks. With Postgres's
 * own settings that takes up to a minute, and longer for large tables.
 *
 * @param query runs a statement and returns its rows.
 */
export async function untilAutovacuumHasRun(
  query: (text: string) => Promise<readonly { readonly waiting: number }[]>,
): Promise<void> {
  // A session reports what it changed once it has been idle for a second.
  do await sleep(2 * SECOND);
  while ((await query(WAITING))[0]!.waiting > 0);
}

/** Autovacuum's own condition. @see https://www.postgresql.org/docs/current/routine-vacuuming.html#AUTOVACUUM */
const WAITING = `
  select count(*)::int as waiting from pg_stat_user_tables join pg_class on pg_class.oid = relid
  where relpersistence <> 't' and n_mod_since_analyze > current_setting('autovacuum_analyze_threshold')::float8
    + current_setting('autovacuum_analyze_scale_factor')::float8 * greatest(reltuples, 0)`;
