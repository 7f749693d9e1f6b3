import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { follower } from '../kit/following.ts';
import { renamesPath } from '../kit/links.ts';
import { count, quantity } from '../kit/words.ts';

/** Follows what a former name hands over to the new one, until it is through. */
export const rename = follower('rename', async (db, { subscriber: from, to, topic }) => {
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
});

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
      select coalesce(sum(pending + failing + dead_lettered), 0)::float8 from backlog
      where subscriber = $1::text and $3::text in ('', topic)
    ) as left
  from rename where requested_at > last_at - interval '1 minute'
  having count(*) > 0`;
