import { and, eq, sql } from 'drizzle-orm';

import { reconciliations } from '../../../../drizzle/schema.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import { HOUR, SECOND } from '../../../platform/time.ts';

/** The right to take one step of a reconciliation, and how far it is. Times are epoch milliseconds. */
export interface Claim {
  /** The endpoint whose account is asked. */
  readonly provider: string;
  readonly step: number;
  /** The database's clock. */
  readonly now: number;
  /** The walk over pages that earlier steps began; null: none is under way. */
  readonly walk: Walk | null;
  readonly checkedUntil: number | null;
  readonly failures: number;
}

/** A walk over the pages of a provider's events. */
export interface Walk {
  readonly from: number;
  readonly until: number;
  /** The last event that it has come to; null at its start. */
  readonly cursor: string | null;
}

/** What a step found out. */
export interface Progress {
  /** The walk that goes on; null when there is nothing left to ask for now. */
  readonly walk: Walk | null;
  /** All events created before are asked for; null leaves it. */
  readonly checkedUntil: number | null;
  /** Why a part of the step failed; null if nothing did. */
  readonly error: string | null;
  readonly found: number;
  /** When the next step is due. */
  readonly waitMs: number;
}

/** Longer than a step can take: after this, its process has died. */
const GIVEN_UP_AFTER_MS = 60 * SECOND;

/** Asked to wait longer, we ask again all the same: the time may be a mistake. */
export const LONGEST_RETRY_AFTER_MS = 1 * HOUR;

/** A step that is due later than this was put off by a clock that was ahead: it is due now. */
const LONGEST_WAIT_MS = LONGEST_RETRY_AFTER_MS + GIVEN_UP_AFTER_MS;

/** Finds which of these providers are due, or have never been asked. */
export async function dueProviders(
  db: Database,
  providers: readonly string[],
  now?: Date,
): Promise<readonly string[]> {
  const due = await run<{ provider: string }>(driverOf(db), {
    text: `
      select provider from jsonb_array_elements_text($1::text::jsonb) as asked (provider)
        left join reconciliations using (provider)
        cross join (select coalesce($2::text::timestamptz, clock_timestamp()) as now) as clock
      where coalesce(next_at, '-infinity') <= now or next_at > now + $3::int * interval '1 millisecond'
      order by next_at nulls first`,
    values: [JSON.stringify(providers), now?.toISOString() ?? null, LONGEST_WAIT_MS],
  });
  return due.map(({ provider }) => provider);
}

/** Claims the next step. @returns null when it is not due: another process has taken it. */
export async function claimStep(db: Database, provider: string, now?: Date): Promise<Claim | null> {
  const [claimed] = await run<Row>(driverOf(db), {
    text: CLAIM,
    values: [provider, now?.toISOString() ?? null, GIVEN_UP_AFTER_MS, LONGEST_WAIT_MS],
  });
  if (!claimed) return null;
  const { step, now: at, from, until, cursor, checkedUntil, failures } = claimed;
  const walk = from === null || until === null ? null : { from, until, cursor };
  return { provider, step, now: at, walk, checkedUntil, failures };
}

interface Row {
  readonly step: number;
  readonly now: number;
  readonly from: number | null;
  readonly until: number | null;
  readonly cursor: string | null;
  readonly checkedUntil: number | null;
  readonly failures: number;
}

const CLAIM = `
  insert into reconciliations as known (provider, step, begun_at, next_at)
  select $1::text, 1, now, now + $3::int * interval '1 millisecond'
  from (select coalesce($2::text::timestamptz, clock_timestamp()) as now) as clock
  on conflict (provider) do update set step = known.step + 1, next_at = excluded.next_at
  where known.next_at <= excluded.begun_at or known.next_at > excluded.begun_at + $4::int * interval '1 millisecond'
  returning step::float8, (extract(epoch from next_at) * 1000 - $3::int)::float8 as now,
    (extract(epoch from walk_from) * 1000)::float8 as "from",
    (extract(epoch from walk_until) * 1000)::float8 as "until", cursor,
    (extract(epoch from checked_until) * 1000)::float8 as "checkedUntil", failures`;

/** Records what a step found out. Without effect if the step has been given up, because another process repeats it. */
export async function endStep(
  db: Database,
  { provider, step, now }: Claim,
  { walk, checkedUntil, error, found, waitMs }: Progress,
): Promise<void> {
  const at = new Date(now);
  await db
    .update(reconciliations)
    .set({
      walkFrom: walk && new Date(walk.from),
      walkUntil: walk && new Date(walk.until),
      cursor: walk && walk.cursor,
      ...(checkedUntil !== null && { checkedUntil: new Date(checkedUntil) }),
      ...(walk === null && { succeededAt: at }),
      failures: 0,
      ...(error !== null && { error, failedAt: at }),
      ...foundBy(found, at),
      nextAt: new Date(now + waitMs),
    })
    .where(isStep(provider, step));
}

/**
 * Records that a step failed. What it found before is counted.
 *
 * @param isCursorLost whether the provider no longer knows the walk's cursor, so that it must begin again.
 */
export async function failStep(
  db: Database,
  { provider, step, now }: Claim,
  failure: {
    readonly error: string;
    readonly waitMs: number;
    readonly found: number;
    readonly isCursorLost: boolean;
  },
): Promise<void> {
  const { error, waitMs, found, isCursorLost } = failure;
  const at = new Date(now);
  await db
    .update(reconciliations)
    .set({
      failures: sql`${reconciliations.failures} + 1`,
      error,
      failedAt: at,
      ...(isCursorLost && { cursor: null }),
      ...foundBy(found, at),
      nextAt: new Date(now + waitMs),
    })
    .where(isStep(provider, step));
}

const foundBy = (count: number, at: Date) =>
  count > 0 ? { found: sql`${reconciliations.found} + ${count}`, foundAt: at } : {};

const isStep = (provider: string, step: number) =>
  and(eq(reconciliations.provider, provider), eq(reconciliations.step, step));
