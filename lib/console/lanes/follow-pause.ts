import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import type { Following } from '../kit/following.ts';
import { time } from '../kit/instants.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { count, quantity } from '../kit/words.ts';

interface Subscription {
  readonly subscriber: string;
  /** Null: all its topics. */
  readonly topic: string | null;
}

/** Follows a pause until no relay delivers to the subscriber any more. */
export async function followPause(
  db: Database,
  subscription: Subscription,
  names: OperatorNames,
): Promise<Following | null> {
  const found = await find(db, subscription, 'pause');
  if (found.pause === null) return null;
  const { pause: made, pending, failing, held } = found;
  const [since, now] = [instantOf(made.at), instantOf(found.now)];
  const name = html`<b>Paused ${found.name}</b> at ${time(since, now)}, by ${operatorText(made.by, names)}.`;
  const waiting = pending + failing;
  const wait = html`${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'} until someone resumes
  it.`;
  return held > 0
    ? {
        tone: 'wait',
        words: html`${name} A relay is still delivering to it and stops within seconds.`,
        isSettled: false,
        since,
        now,
      }
    : { tone: 'ok', words: html`${name} ${wait}`, isSettled: true, since, now };
}

/** Follows what waited for a subscriber that was resumed, until nothing waits or something fails. */
export async function followResume(
  db: Database,
  subscription: Subscription,
  names: OperatorNames,
): Promise<Following | null> {
  const found = await find(db, subscription, 'resume');
  if (found.acted_at === null) return null;
  const [since, now] = [instantOf(found.acted_at), instantOf(found.now)];
  const { tone, words, isSettled } = resumeOutcome(found, found.acted_at, names);
  const name = html`<b>Resumed ${found.name}</b> at ${time(since, now)}`;
  return { tone, words: html`${name}${words}`, isSettled, since, now };
}

function resumeOutcome(
  found: FoundSubscription,
  resumedAt: number,
  names: OperatorNames,
): Pick<Following, 'tone' | 'words' | 'isSettled'> {
  const { pause: other, pending, failing, last_failed: failedAt, last_delivered: deliveredAt } = found;
  if (other !== null) {
    const words = html`, but it is still paused, by ${operatorText(other.by, names)}: ${other.reason}`;
    return { tone: 'fail', words, isSettled: true };
  }
  if (found.next_probe !== null) {
    const words = html`: it does not answer; ${quantity(pending + failing, 'delivery')} waiting, next probe
    ${time(instantOf(found.next_probe), instantOf(found.now))}.`;
    return { tone: 'fail', words, isSettled: true };
  }
  const retries = failing > 0 && ` ${count(failing)} failed and will be retried.`;
  if (failing > 0 && failedAt !== null && failedAt > resumedAt) {
    return { tone: 'fail', words: html`.${retries} ${count(pending)} waiting.`, isSettled: true };
  }
  if (pending > 0 && found.held_by_dead_letter) {
    const words = html`: ${quantity(pending, 'delivery')} waiting, some of them behind a dead letter that
    halts their lane.`;
    return { tone: 'fail', words, isSettled: found.held === 0 };
  }
  if (pending > 0) {
    return { tone: 'wait', words: html`: ${quantity(pending, 'delivery')} waiting …`, isSettled: false };
  }
  const last =
    deliveredAt !== null &&
    deliveredAt > resumedAt &&
    html`, the last delivery at ${time(instantOf(deliveredAt), instantOf(found.now))}`;
  return { tone: retries ? 'fail' : 'ok', words: html`: nothing waits${last}.${retries}`, isSettled: true };
}

/** The statement's result. Times are epoch milliseconds. */
interface FoundSubscription {
  readonly now: number;
  readonly name: Html;
  /** What holds its deliveries now. */
  readonly pause: { readonly at: number; readonly by: string; readonly reason: string } | null;
  /** When an operator last did this to it; null: not within the hour. */
  readonly acted_at: number | null;
  readonly pending: number;
  readonly failing: number;
  readonly last_delivered: number | null;
  readonly last_failed: number | null;
  /** Of a subscriber that does not answer. */
  readonly next_probe: number | null;
  readonly held_by_dead_letter: boolean;
  /** Lanes that a relay has leased. */
  readonly held: number;
}

async function find(
  db: Database,
  { subscriber, topic }: Subscription,
  action: 'pause' | 'resume',
): Promise<FoundSubscription> {
  const [row] = await run<{ found: Omit<FoundSubscription, 'name'> }>(driverOf(db), {
    text: SUBSCRIPTION,
    values: [subscriber, topic ?? '', action],
  });
  const name = html`${subscriber}${topic !== null && html` on <span class="mono">${topic}</span>`}`;
  return { ...row!.found, name };
}

// The operators' log is kept permanently and read from its end: an hour of it is short.
const SUBSCRIPTION = `
  with clock as materialized (
    select clock_timestamp() as now
  ),
  counted as (
    select coalesce(sum(pending), 0) as pending, coalesce(sum(failing), 0) as failing, coalesce(sum(halted), 0) > 0 as is_halted,
      max(last_delivered_at) as last_delivered, max(last_failed_at) as last_failed
    from subscription_counts where subscriber = $1::text and $2::text in ('', topic)
  ),
  leased as (
    select count(*) as held from clock, lane_heads
    where subscriber = $1::text and $2::text in ('', topic) and leased_until > clock.now
  ),
  held_by as (
    select extract(epoch from paused_at) * 1000 as at, paused_by as by, reason from pauses
    where subscriber = $1::text and topic in ('', $2::text) order by topic desc limit 1
  ),
  act as (
    select extract(epoch from at) * 1000 as at from clock, operator_actions
    where at > clock.now - interval '1 hour' and action = $3::text and subscriber = $1::text
      and coalesce(topic, '') = $2::text
    order by at desc limit 1
  )
  select json_build_object('now', extract(epoch from clock.now) * 1000, 'pending', pending, 'failing', failing,
    'last_delivered', extract(epoch from last_delivered) * 1000, 'last_failed', extract(epoch from last_failed) * 1000,
    'next_probe', (
      select extract(epoch from next_probe_at) * 1000 from outages where subscriber = $1::text
    ), 'held_by_dead_letter', is_halted, 'held', held, 'pause', (select row_to_json(held_by) from held_by), 'acted_at', (select at from act)) as found
  from clock, counted, leased`;
