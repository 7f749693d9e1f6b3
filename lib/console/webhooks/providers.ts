import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { COUNTED_SET_ASIDE, endpointOf, sentFields } from './fields.ts';
import { topicOf } from './received.ts';

type Sent = Row<typeof sentFields>;

/** Finds when each endpoint's newest webhook was received, and how many of its webhooks are set aside. */
export async function findProviders(db: Database, of: readonly string[]): Promise<ReadonlyMap<string, Sent>> {
  const topics = of.map((provider) => ({ provider, topic: topicOf(provider) }));
  const found = await run<{ provider: string; sent: Sent }>(driverOf(db), {
    text: PROVIDERS,
    values: [JSON.stringify(topics)],
  });
  return new Map(found.map(({ provider, sent }) => [provider, sent]));
}

/** So many of the newest webhooks of a provider are searched for one of an account. */
const LOOKED_AT = 1000;

const OF_SENDER = `${endpointOf('events')} = sender.provider`;

const PROVIDERS = `
  select provider, ${jsonOf(sentFields)} as sent
  from jsonb_to_recordset($1::text::jsonb) as sender (provider text, topic text)
    left join lateral (
      select count(*) from (
        select from webhooks_set_aside where unclaimed_at is null and webhooks_set_aside.provider = sender.provider
        limit ${COUNTED_SET_ASIDE + 1}
      ) as counted
    ) as set_aside on true
    left join lateral (
      select awaiting.created_at from awaiting join events on id = event_id
      where awaiting.topic = sender.topic and ${OF_SENDER}
      order by awaiting.created_at desc limit 1
    ) as unplaced on true
    left join lateral (
      select newest.created_at from streams, lateral (
        select events.created_at, position from (
          select event_id, position from log where stream = streams.id order by position desc limit ${LOOKED_AT}
        ) as place join events on id = event_id where ${OF_SENDER} order by position desc limit 1
      ) as newest
      where streams.topic = sender.topic order by created_at desc limit 1
    ) as placed on true`;
