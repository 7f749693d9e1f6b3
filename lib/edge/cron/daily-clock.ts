import { and, eq, lte, max, sql } from 'drizzle-orm';

import { events } from '../../../drizzle/schema.ts';
import { emit } from '../../bus/outbox/emit.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements } from '../../platform/db/statement.ts';
import { DAY, HOUR } from '../../platform/time.ts';

/** 06:00 UTC, after midnight. */
const STRIKES_AFTER_MS = 6 * HOUR;

/** After a longer gap only the last days are caught up: nobody wants a year's reports at once. */
const CATCH_UP_DAYS = 31;

/**
 * Emits `cron.daily.06_00` for each day whose 06:00 UTC has passed since the last emitted one.
 *
 * Emits once a day however often it is called, because the day is the event's dedupe key. On a database without any such
 * event it begins with today's.
 *
 * @param now overrides the database's clock in tests.
 * @returns the days that were due, oldest first, as `YYYY-MM-DD`; another caller may have emitted them just before.
 */
export async function strikeDailyClock(db: Database, now?: Date): Promise<string[]> {
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    const days = await dueDays(tx, now);
    for (const day of days) {
      const scheduledFor = new Date(Date.parse(day) + STRIKES_AFTER_MS).toISOString();
      await emit(tx, 'cron.daily.06_00', { day, scheduledFor }, { dedupeKey: day });
    }
    return days;
  });
}

async function dueDays(tx: Transaction, now: Date | undefined): Promise<string[]> {
  const { topic, dedupeKey } = events;
  const [row] = await tx
    .select({
      lastDay: max(dedupeKey),
      nowMs: sql<number>`extract(epoch from clock_timestamp())::float8 * 1000`,
    })
    .from(events)
    // Later days were emitted while a clock was ahead: those between are due all the same.
    .where(and(eq(topic, 'cron.daily.06_00'), lte(dedupeKey, dayOf(now))));
  const newest = midnight((now?.getTime() ?? row!.nowMs) - STRIKES_AFTER_MS);
  // Without an earlier event, begin today: yesterday there was nobody to receive one.
  const today = midnight(now?.getTime() ?? row!.nowMs);
  const first = row!.lastDay
    ? Math.max(Date.parse(row!.lastDay) + DAY, newest - (CATCH_UP_DAYS - 1) * DAY)
    : today;
  const days: string[] = [];
  for (let at = first; at <= newest; at += DAY) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

const dayOf = (now: Date | undefined) =>
  sql`to_char(coalesce(${now?.toISOString() ?? null}::text::timestamptz, clock_timestamp()) at time zone 'utc', 'YYYY-MM-DD')`;

function midnight(ms: number): number {
  return Math.floor(ms / DAY) * DAY;
}
