import { waitUntil } from '@vercel/functions';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { logError } from '../../platform/log.ts';
import { SECOND } from '../../platform/time.ts';

/**
 * Counts refused webhooks by endpoint and reason, and notes when the newest were refused.
 *
 * Anyone can cause a refusal, so counting one costs no query: counts are kept in memory and written in one statement,
 * at most every ten seconds and after the answers. A flood therefore writes as many rows as a few refusals do. Counts
 * are approximate: an instance that is killed loses some, and a connection lost at the commit counts some twice.
 */
export class Rejections {
  readonly #database: () => Promise<Database>;
  /** By provider and reason. Few entries, because callers choose neither. */
  readonly #gathered = new Map<string, Rejected>();
  #isFlushDue = false;

  /** @param database called at the first flush. */
  constructor(database: () => Promise<Database>) {
    this.#database = database;
  }

  /** Counts one rejection; returns at once and never throws. @param provider the endpoint's name, or `unknown`. */
  count(provider: string, reason: string): void {
    this.#add({ provider, reason, count: 1, recentMs: [Date.now()] });
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    waitUntil(this.#flushLater());
  }

  /** Writes the gathered counts. If that fails, they stay for the flush after the next refusal. Never rejects. */
  async flush(): Promise<void> {
    const counts = [...this.#gathered.values()];
    this.#gathered.clear();
    if (counts.length === 0) return;
    try {
      await run(driverOf(await this.#database()), { text: ADD_REJECTIONS, values: [JSON.stringify(counts)] });
    } catch (error) {
      for (const rejected of counts) this.#add(rejected);
      logError('the counts of refused webhooks were not written', error);
    }
  }

  async #flushLater(): Promise<void> {
    // Lets a process with nothing else to do end.
    await new Promise<void>((resolve) => setTimeout(resolve, FLUSH_EVERY_MS).unref());
    this.#isFlushDue = false;
    await this.flush();
  }

  #add({ provider, reason, count, recentMs }: Rejected): void {
    const key = `${provider} ${reason}`;
    const known = this.#gathered.get(key) ?? { count: 0, recentMs: [] };
    this.#gathered.set(key, {
      provider,
      reason,
      count: known.count + count,
      recentMs: [...known.recentMs, ...recentMs].slice(-RECENT),
    });
  }
}

interface Rejected {
  readonly provider: string;
  readonly reason: string;
  readonly count: number;
  /** When the newest were refused, in milliseconds since the epoch, oldest first. */
  readonly recentMs: readonly number[];
}

const FLUSH_EVERY_MS = 10 * SECOND;

/** How many times are kept of one day, provider and reason: a screenful. */
const RECENT = 20;

/** Sorted, so that two instances that flush at once cannot deadlock. */
const ADD_REJECTIONS = `
  insert into webhook_rejections as known (provider, reason, day, count, last_at, recent_at)
  select provider, reason, (clock_timestamp() at time zone 'utc')::date, count, clock_timestamp(), array(
    select to_timestamp(ms::float8 / 1000) from jsonb_array_elements_text("recentMs") as ms
    order by ms::float8 desc
  )
  from jsonb_to_recordset($1::text::jsonb) as rejected (provider text, reason text, count bigint, "recentMs" jsonb)
  order by provider, reason
  on conflict (provider, reason, day) do update set
    count = known.count + excluded.count, last_at = excluded.last_at, recent_at = array(
      select distinct at from unnest(known.recent_at || excluded.recent_at) as at order by at desc limit ${RECENT}
    )`;
