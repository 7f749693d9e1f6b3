import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

/** How far a provider has been asked for the webhooks that never came. Times are epoch milliseconds. */
export interface FoundReconciliation {
  readonly provider: string;
  /** When all that was due had been asked for. */
  readonly checked_at: number | null;
  readonly next_at: number;
  readonly found: number;
  readonly found_at: number | null;
  readonly failures: number;
  readonly error: string | null;
  readonly failed_at: number | null;
}

/** Finds the providers that have been asked at some time, in this or an earlier deployment. */
export async function findReconciliations(db: Database): Promise<readonly FoundReconciliation[]> {
  return await run<FoundReconciliation>(driverOf(db), {
    text: `
      select provider, (extract(epoch from succeeded_at) * 1000)::float8 as checked_at,
        (extract(epoch from next_at) * 1000)::float8 as next_at, found::float8,
        (extract(epoch from found_at) * 1000)::float8 as found_at, failures, error,
        (extract(epoch from failed_at) * 1000)::float8 as failed_at
      from reconciliations`,
    values: [],
  });
}
