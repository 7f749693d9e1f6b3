import { waitUntil } from '@vercel/functions';

import { logError } from '../log.ts';
import { SECOND } from '../time.ts';
import type { Database } from './connect.ts';
import { driverOf, run } from './statement.ts';

/** A table of counts: by two names of ours and the day, with the times of the newest. */
export interface CountsTable {
  readonly table: 'webhook_rejections' | 'edge_counts';
  /** Its columns with the two names. */
  readonly columns: readonly [string, string];
  /** Names the counts in the log. */
  readonly counts: string;
}

/**
 * Counts what strangers cause, by names of ours and day, and notes when the newest happened.
 *
 * Anyone can cause it, so counting costs no query: counts are kept in memory and written in one statement, once in a
 * while and after the answers. A flood therefore writes as many rows as a few calls do. Counts are approximate: an
 * instance that is killed loses some, and a connection lost at the commit counts some twice.
 */
export class DailyCounts {
  readonly #database: () => Promise<Database>;
  readonly #table: CountsTable;
  readonly #everyMs: number;
  /** By both names. Few entries, because callers choose neither. */
  readonly #gathered = new Map<string, Gathered>();
  #isFlushDue = false;
  #countedMs = 0;

  /**
   * @param database called at the first flush.
   * @param everyMs between two flushes.
   */
  constructor(database: () => Promise<Database>, table: CountsTable, everyMs: number) {
    this.#database = database;
    this.#table = table;
    this.#everyMs = everyMs;
  }

  /** Counts one; returns at once and never throws. */
  count(one: string, other: string): void {
    this.#add({ one, other, count: 1, recentMs: [this.#nextMs()] });
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    waitUntil(this.#flushLater());
  }

  /** Writes the gathered counts. If that fails, they stay for the flush after the next count. Never rejects. */
  async flush(): Promise<void> {
    const counts = [...this.#gathered.values()];
    this.#gathered.clear();
    if (counts.length === 0) return;
    try {
      const text = addTo(this.#table);
      await run(driverOf(await this.#database()), { text, values: [JSON.stringify(counts)] });
    } catch (error) {
      for (const gathered of counts) this.#add(gathered);
      logError(`the counts of ${this.#table.counts} were not written`, error);
    }
  }

  /** Gives each of a burst a time of its own, since equal times are kept once. A clock that was set back is followed. */
  #nextMs(): number {
    const now = Date.now();
    const isLater = now > this.#countedMs || now < this.#countedMs - SECOND;
    this.#countedMs = isLater ? now : this.#countedMs + 0.01;
    return this.#countedMs;
  }

  async #flushLater(): Promise<void> {
    // Lets a process with nothing else to do end.
    await new Promise<void>((resolve) => setTimeout(resolve, this.#everyMs).unref());
    this.#isFlushDue = false;
    await this.flush();
  }

  #add({ one, other, count, recentMs }: Gathered): void {
    const key = `${one} ${other}`;
    const known = this.#gathered.get(key) ?? { count: 0, recentMs: [] };
    this.#gathered.set(key, {
      one,
      other,
      count: known.count + count,
      recentMs: [...known.recentMs, ...recentMs].slice(-RECENT),
    });
  }
}

interface Gathered {
  readonly one: string;
  readonly other: string;
  readonly count: number;
  /** When the newest happened, in milliseconds since the epoch, oldest first. */
  readonly recentMs: readonly number[];
}

/** How many times are kept of one day and both names: a screenful. */
const RECENT = 20;

/** Sorted, so that two instances that flush at once cannot deadlock. */
function addTo({ table, columns }: CountsTable): string {
  const names = columns.join(', ');
  return `
  insert into ${table} as known (${names}, day, count, last_at, recent_at)
  select one, other, (clock_timestamp() at time zone 'utc')::date, count, recent_at[1], recent_at
  from jsonb_to_recordset($1::text::jsonb) as gathered (one text, other text, count bigint, "recentMs" jsonb), lateral (
    select array(
      select to_timestamp(ms::float8 / 1000) from jsonb_array_elements_text("recentMs") as ms
      order by ms::float8 desc
    ) as recent_at
  ) as times
  order by one, other
  on conflict (${names}, day) do update set
    count = known.count + excluded.count, last_at = greatest(known.last_at, excluded.last_at), recent_at = array(
      select distinct at from unnest(known.recent_at || excluded.recent_at) as at order by at desc limit ${RECENT}
    )`;
}
