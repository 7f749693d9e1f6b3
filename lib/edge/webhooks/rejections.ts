import type { Database } from '../../platform/db/connect.ts';
import { DailyCounts } from '../../platform/db/daily-counts.ts';
import { SECOND } from '../../platform/time.ts';

/** Counts refused webhooks by endpoint and reason, and notes when the newest were refused. Callers choose neither. */
export class Rejections {
  readonly #counts: DailyCounts;

  /** @param database called at the first flush. */
  constructor(database: () => Promise<Database>) {
    this.#counts = new DailyCounts(database, TABLE, FLUSH_EVERY_MS);
  }

  /** Counts one rejection; returns at once and never throws. @param provider the endpoint's name, or `unknown`. */
  count(provider: string, reason: string): void {
    this.#counts.count(provider, reason);
  }

  /** Writes the gathered counts. Never rejects. */
  async flush(): Promise<void> {
    await this.#counts.flush();
  }
}

const TABLE = {
  table: 'webhook_rejections',
  columns: ['provider', 'reason'],
  counts: 'refused webhooks',
} as const;

const FLUSH_EVERY_MS = 10 * SECOND;
