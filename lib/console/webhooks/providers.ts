import type { Provider } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { topicOf } from './received.ts';

/** What one provider sent last. Times are epoch milliseconds. */
export interface FoundProvider {
  readonly provider: Provider;
  readonly last_received_at: number | null;
  readonly set_aside: number;
}

/** More are counted as one more: what a busy account of another shop sends is set aside for three days. */
export const COUNTED_SET_ASIDE = 1000;

/** Finds when each provider's newest webhook was received, and how many of its webhooks are set aside. */
export async function findProviders(
  db: Database,
  of: readonly Provider[],
): Promise<readonly FoundProvider[]> {
  const topics = of.map((provider) => ({ provider, topic: topicOf(provider) }));
  return await run<FoundProvider>(driverOf(db), { text: PROVIDERS, values: [JSON.stringify(topics)] });
}

const PROVIDERS = `
  select provider, (extract(epoch from greatest(waiting.created_at, fanned_out.created_at)) * 1000)::float8
      as last_received_at,
    (select count(*)::int from (
      select from webhooks_set_aside where unclaimed_at is null and webhooks_set_aside.provider = sender.provider
      limit ${COUNTED_SET_ASIDE + 1}
    ) as counted) as set_aside
  from jsonb_to_recordset($1::text::jsonb) as sender (provider text, topic text)
    left join lateral (
      select created_at from awaiting_fan_out
      where awaiting_fan_out.topic = sender.topic order by created_at desc limit 1
    ) as waiting on true
    left join lateral (
      select created_at from lanes, lateral (
        select event_id, position from deliveries where lane_id = lanes.id order by position desc limit 1
      ) as newest join events on id = event_id
      where lanes.topic = sender.topic and home_id is null order by position desc limit 1
    ) as fanned_out on true`;
