// Parts of the statements that change deliveries.

/** Gives the CTE `clock` (now): the database's clock. @param override the parameter that overrides it in tests, such as `$2`. */
export const clock = (override: string) => `
  clock as materialized (
    select coalesce(${override}::text::timestamptz, clock_timestamp()) as now
  )`;

/** The SQL of an entry in a delivery's log that is no attempt. */
interface Entry {
  readonly by: string;
  readonly reason: string;
  readonly at?: string;
  /** Further keys and values. */
  readonly more?: string;
}

/** Gives the log of a delivery with an entry at its end. */
export const logged = (outcome: string, { by, reason, at = 'clock.now', more = '' }: Entry) => `
      coalesce(attempt_log, '[]') || jsonb_build_object('attempt', 0, 'at', ${at}, 'durationMs', 0,
        'outcome', '${outcome}', 'by', ${by}, 'reason', ${reason}${more})`;
