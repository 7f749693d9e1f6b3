import type { Database } from '../platform/db/connect.ts';
import { DailyCounts } from '../platform/db/daily-counts.ts';
import { SECOND } from '../platform/time.ts';

/** A function that counts what became of its calls, for the metrics and the incidents. */
export type Source = 'chat' | 'inquiry';

/** What became of an inquiry's mail. */
export type MailOutcome = 'mailed' | 'email_failed' | 'email_timeout' | 'email_unreachable';

/** Counts one by a word of ours; returns at once and never throws. */
export type CountOutcome = (outcome: string) => void;

/** Makes a function's counter. @param database opened after the first count; undefined: nothing is counted. */
export function countOutcomes(
  source: Source,
  database: () => (() => Promise<Database>) | undefined,
): CountOutcome {
  let counts: DailyCounts | undefined;
  return (outcome) => {
    const opened = database();
    if (!opened) return;
    counts ??= new DailyCounts(opened, TABLE, FLUSH_EVERY_MS);
    counts.count(source, outcome);
  };
}

const TABLE = { table: 'edge_counts', columns: ['source', 'outcome'], counts: 'chat and inquiries' } as const;

/** A chat call may end 20 seconds after its function began, and the platform ends that after 30. */
const FLUSH_EVERY_MS = 3 * SECOND;
