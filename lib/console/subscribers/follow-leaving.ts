import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import type { Following } from '../kit/following.ts';
import { quantity } from '../kit/words.ts';

/** Says that a subscriber was retired, and whether it has got deliveries since. */
export async function followRetirement(
  db: Database,
  { subscriber, topic }: { readonly subscriber: string; readonly topic: string | null },
): Promise<Following | null> {
  const [found] = await run<{ now: number; since: number; left: number }>(driverOf(db), {
    text: RETIRED,
    values: [subscriber, topic ?? ''],
  });
  if (!found) return null;
  const { left } = found;
  const rest = left > 0 && ` ${quantity(left, 'delivery')} came since: retire it again.`;
  return {
    tone: left > 0 ? 'fail' : 'ok',
    words: html`<b>Retired ${subscriber}${topic !== null && ` on ${topic}`}.</b> What waited for it is
      dismissed.${rest}`,
    isSettled: true,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

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
