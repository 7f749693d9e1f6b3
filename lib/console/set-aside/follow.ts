import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { follower } from '../kit/following.ts';

/** Says what became of what an operator repaired: of a row, not of an event. */
export const repair = follower('repair', async (db, { id }) => {
  if (!/^\d+$/.test(id)) return null;
  const [found] = await run<Found>(driverOf(db), { text: REPAIRED, values: [id] });
  if (!found) return null;
  const { is_waiting: isWaiting, is_fanned_out: isFannedOut } = found;
  const rest = isWaiting
    ? 'Its event waits for fan-out.'
    : isFannedOut
      ? 'Its event is fanned out.'
      : 'It stays on record, and nothing is delivered.';
  return {
    tone: isWaiting ? 'wait' : 'ok',
    words: html`<b>Repaired ${id}.</b> ${rest}`,
    isSettled: !isWaiting,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
});

interface Found {
  readonly since: number;
  readonly now: number;
  readonly is_waiting: boolean;
  readonly is_fanned_out: boolean;
}

const REPAIRED = `
  select (extract(epoch from repaired_at) * 1000)::float8 as since,
    (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    exists (
      select from awaiting_fan_out
      where awaiting_fan_out.topic = set_aside.topic and awaiting_fan_out.event_id = set_aside.event_id
    ) as is_waiting,
    exists (select from deliveries where deliveries.event_id = set_aside.event_id) as is_fanned_out
  from set_aside where id = $1::text::bigint and repaired_at is not null`;
