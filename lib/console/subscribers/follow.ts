import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { silenceWords } from '../incidents/outage.ts';
import type { Following } from '../kit/following.ts';
import { time } from '../kit/instants.ts';

/** Follows a probe that an operator asked for, until the subscriber has answered or has not. */
export async function followProbe(
  db: Database,
  { subscriber }: { readonly subscriber: string },
): Promise<Following | null> {
  const [found] = await run<Found>(driverOf(db), { text: PROBED, values: [subscriber] });
  if (!found) return null;
  const [since, now] = [instantOf(found.acted_at), instantOf(found.now)];
  const name = html`<b>Probing ${subscriber}:</b>`;
  if (found.kind === null || found.next_probe_at === null) {
    const words = html`${name} it answers again. Its deliveries follow, in order.`;
    return { tone: 'ok', words, isSettled: true, since, now };
  }
  if (found.is_paused) {
    const words = html`${name} it is paused. Resume it to probe.`;
    return { tone: 'fail', words, isSettled: true, since, now };
  }
  if (!found.has_probed)
    return { tone: 'wait', words: html`${name} on its way …`, isSettled: false, since, now };
  const next = time(instantOf(found.next_probe_at), now);
  const words = html`${name} no answer. It ${silenceWords(found.kind)} since
  ${time(instantOf(found.opened_at!), now)}; next probe ${next}.`;
  return { tone: 'fail', words, isSettled: true, since, now };
}

/** Times are epoch milliseconds. */
interface Found {
  readonly now: number;
  readonly acted_at: number;
  /** Null when its outage is over. */
  readonly kind: string | null;
  readonly opened_at: number | null;
  readonly next_probe_at: number | null;
  /** Whether a delivery has probed since, and its attempt has ended. */
  readonly has_probed: boolean;
  readonly is_paused: boolean;
}

const PROBED = `
  with act as (
    select at from operator_actions
    where at > clock_timestamp() - interval '1 hour' and action = 'probe' and subscriber = $1::text
    order by at desc limit 1
  )
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from act.at) * 1000)::float8 as acted_at, outages.kind,
    (extract(epoch from opened_at) * 1000)::float8 as opened_at,
    (extract(epoch from next_probe_at) * 1000)::float8 as next_probe_at,
    coalesce(next_probe_at > act.at, false) and probed_at is null as has_probed,
    exists (select from pauses where pauses.subscriber = $1::text and topic = '') as is_paused
  from act left join outages on outages.subscriber = $1::text`;
