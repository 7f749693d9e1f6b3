import { matchingOf, matchingValues, windowValues } from '../../bus/deliveries/operations/replay-matching.ts';
import type { ReplayRequest } from '../../bus/deliveries/operations/replay-matching.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

interface OpenReplay {
  readonly request: ReplayRequest;
  /** In Postgres's notation. */
  readonly requestedAt: string;
}

/** Counts the deliveries of a request that paced replays under way will put back. */
export async function countPlanned(
  db: Database,
  attached: readonly AttachedSubscriber[],
  asked: ReplayRequest,
): Promise<number> {
  const open = await run<OpenReplay>(driverOf(db), { text: OPEN, values: [] });
  if (open.length === 0) return 0;
  const [found] = await run<{ planned: number }>(driverOf(db), {
    text: planned(matchingOf(asked)),
    values: [...matchingValues(asked, attached), JSON.stringify(open.map(scopeOf))],
  });
  return found!.planned;
}

/** A paced replay as `planned` compares deliveries with it. */
function scopeOf({ request, requestedAt }: OpenReplay) {
  const { topic, subscriber, group, q, incident, deliveryIds, include } = request;
  const [sinceMs, until] = windowValues(request);
  return {
    topic,
    subscriber,
    group,
    words: q || undefined,
    incident,
    ids: deliveryIds,
    kind: deliveryIds ? 'chosen' : include,
    requestedAt,
    sinceMs,
    until: String(until),
  };
}

const OPEN = `
  select request, requested_at::text as "requestedAt" from paced_replays join replays on id = replay_id where ended_at is null`;

const planned = (matching: string) => `
  with ${matching}
  select count(*)::float8 as planned from matching
  where exists (
    select from jsonb_to_recordset($11::text::jsonb) as paced(topic text, subscriber text, "group" text, words text,
      incident uuid, ids jsonb, kind text, "requestedAt" timestamptz, "sinceMs" float8, until text)
    where (paced.topic is null or paced.topic = matching.topic)
      and (paced.subscriber is null or paced.subscriber = matching.subscriber)
      and (paced."group" is null or error_group = any (string_to_array(paced."group", ',')))
      and (paced.words is null or exists (
        select from error_groups
        where key = matching.error_group and position(lower(paced.words) in lower(error_groups.kind || ' ' || message)) > 0
      ))
      and (paced.incident is null or error_group = (select incidents.error_group from incidents where id = paced.incident))
      and case paced.kind when 'chosen' then paced.ids ? (event_id || '.' || matching.subscriber) when 'dismissed' then is_dismissed
        when 'all' then not is_dismissed else error_group is not null end
      and ended_at >= coalesce("requestedAt" - "sinceMs" * interval '1 millisecond', '-infinity')
      and ended_at <= case when paced.until ~ '^[0-9]+$' then "requestedAt" - paced.until::float8 * interval '1 millisecond'
        else paced.until::timestamptz end
  )`;
