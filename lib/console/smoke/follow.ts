import type { TestWebhook } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import type { Following } from '../kit/following.ts';
import { duration } from '../kit/instants.ts';
import { count, quantity } from '../kit/words.ts';

/** Times are epoch milliseconds. */
interface Found {
  readonly now: number;
  readonly started_at: number;
  readonly subscribers: number;
  readonly webhooks: readonly TestWebhook[];
  readonly arrived: number;
  /** Whether it is over: what had not arrived was dismissed. */
  readonly has_ended: boolean;
}

/** Says how many subscribers have the event of a smoke test, and what each endpoint answered. */
export async function followSmokeTest(
  db: Database,
  { smokeTestId }: { readonly smokeTestId: string },
): Promise<Following | null> {
  const [found] = await run<Found>(driverOf(db), { text: FOUND, values: [smokeTestId] });
  if (!found) return null;
  const { subscribers, arrived, webhooks, has_ended } = found;
  const isArrived = arrived === subscribers;
  const isRefused = webhooks.some(({ problem }) => problem !== null);
  const events =
    subscribers === 0
      ? 'no event was sent: this deployment does not relay (RELAY=on lets it), or has no subscriber attached.'
      : `${count(arrived)} of ${quantity(subscribers, 'subscriber')} ${arrived === 1 ? 'has' : 'have'} the event.`;
  return {
    tone: isRefused || (has_ended && !isArrived) ? 'dead' : toneOf(subscribers, isArrived),
    words: html`<b>Smoke test:</b> ${events} ${webhooks.map((webhook) => html` ${webhookWords(webhook)}.`)}`,
    isSettled: isArrived || has_ended,
    since: instantOf(found.started_at),
    now: instantOf(found.now),
  };
}

function toneOf(subscribers: number, isArrived: boolean): Following['tone'] {
  if (subscribers === 0) return 'fail';
  return isArrived ? 'ok' : 'wait';
}

/** `cardpayments accepted its webhook after 84 ms`, or what is wrong. */
export function webhookWords({
  provider,
  problem,
  durationMs,
}: Pick<TestWebhook, 'provider' | 'problem' | 'durationMs'>): string {
  return problem === null
    ? `${provider} accepted its webhook after ${duration(durationMs)}`
    : `${provider}: ${problem}`;
}

const FOUND = `
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from started_at) * 1000)::float8 as started_at, cardinality(subscribers) as subscribers,
    coalesce(webhooks, '[]') as webhooks, ended_at is not null as has_ended,
    (select count(*)::int from deliveries where event_id = smoke_tests.id and state = 'delivered') as arrived
  from smoke_tests where id = $1::uuid`;
