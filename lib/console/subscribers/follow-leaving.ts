import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import type { Following } from '../kit/following.ts';
import { renamesPath } from '../kit/links.ts';
import { count, quantity } from '../kit/words.ts';

/** Follows what a former name hands over to the new one, until it is through. */
export async function followRename(
  db: Database,
  {
    subscriber: from,
    to,
    topic,
  }: { readonly subscriber: string; readonly to: string; readonly topic: string | null },
): Promise<Following | null> {
  const [found] = await run<Found>(driverOf(db), { text: RENAMED, values: [from, to, topic ?? ''] });
  if (!found) return null;
  const { written, is_open: isOpen, left } = found;
  const what = html`<b>Renamed ${from} to ${to}${topic !== null && ` on ${topic}`}.</b>`;
  const rest =
    isOpen || left === 0
      ? ''
      : ` ${quantity(left, 'delivery')} ${left === 1 ? 'has' : 'have'} come for ${from} since: rename it again.`;
  const link = html`<a href="${renamesPath({ subscriber: from })}">See the rename</a>`;
  return {
    tone: isOpen ? 'wait' : left > 0 ? 'fail' : 'ok',
    words: isOpen
      ? html`${what} ${count(written)} of ${quantity(found.matched, 'delivery')} moved so far; the rest
        follows by itself. ${link}.`
      : html`${what} ${quantity(written, 'delivery')} moved.${rest} ${link}.`,
    isSettled: !isOpen,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

/** Says what is left of a subscriber that was retired. */
export async function followRetirement(
  db: Database,
  { subscriber, topic }: { readonly subscriber: string; readonly topic: string | null },
): Promise<Following | null> {
  const [found] = await run<Pick<Found, 'now' | 'since' | 'left'>>(driverOf(db), {
    text: RETIRED,
    values: [subscriber, topic ?? ''],
  });
  if (!found) return null;
  const { left } = found;
  const rest =
    left > 0 && ` ${quantity(left, 'delivery')} ${left === 1 ? 'is' : 'are'} left: retire it again.`;
  return {
    tone: left > 0 ? 'fail' : 'ok',
    words: html`<b>Retired ${subscriber}${topic !== null && ` on ${topic}`}.</b> What waited for it is
      dismissed.${rest} <a href="${renamesPath({ subscriber })}">See the retirement</a>.`,
    isSettled: true,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

interface Found {
  readonly now: number;
  readonly since: number;
  readonly matched: number;
  readonly written: number;
  readonly is_open: boolean;
  readonly left: number;
}

// Renames are few. Those of one request are opened within its time.
const RENAMED = `
  with rename as materialized (
    select requested_at, max(requested_at) over () as last_at, matched, written, ended_at from backfills
    where requested_at > clock_timestamp() - interval '1 hour' and renamed_from = $1::text and subscriber = $2::text
      and $3::text in ('', topic)
  )
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from max(requested_at)) * 1000)::float8 as since, sum(matched)::float8 as matched,
    sum(written)::float8 as written, bool_or(ended_at is null) as is_open,
    (
      select coalesce(sum(pending + failing + dead_lettered), 0)::float8 from subscription_counts
      where subscriber = $1::text and $3::text in ('', topic)
    ) as left
  from rename where requested_at > last_at - interval '1 minute'
  having count(*) > 0`;

// The operators' log is kept permanently and read from its end: an hour of it is short. A retirement of all topics logs each.
const RETIRED = `
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from max(at)) * 1000)::float8 as since,
    (
      select coalesce(sum(pending + failing + dead_lettered), 0)::float8 from subscription_counts
      where subscriber = $1::text and $2::text in ('', topic)
    ) as left
  from operator_actions
  where at > clock_timestamp() - interval '1 hour' and action = 'retire' and subscriber = $1::text
    and $2::text in ('', coalesce(topic, ''))
  having count(*) > 0`;
