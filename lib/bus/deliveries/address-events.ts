import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { topics } from '../catalog/catalog.ts';
import { FAN_OUT_LOCK } from './locks.ts';

/**
 * Adds the subscribers, from this release's catalog, to events that were emitted without any.
 *
 * Releases up to 0.1 emit such events. While one of them runs beside this release, its events wait for a relay that knows
 * their topic, and nothing overtakes them. Delete this file once no such release runs any more.
 *
 * @returns how many events were addressed.
 */
export async function addressEvents(db: Database): Promise<number> {
  const known = topics().map(([topic, { subscribers }]) => ({ topic, subscribers }));
  const [row] = await run<{ events: number }>(driverOf(db), {
    text: ADDRESS_EVENTS,
    values: [JSON.stringify(known)],
    limitMs: TURN_LIMIT_MS,
  });
  return row!.events;
}

// Under the fan-out lock, because fan-out reads the same markers.
const ADDRESS_EVENTS = `
  with fan_out_lock as materialized (
    select pg_try_advisory_xact_lock(${FAN_OUT_LOCK}, 0) as is_held
  ),
  known as materialized (
    select topic, array(select jsonb_array_elements_text(subscribers)) as subscribers
    from fan_out_lock, jsonb_to_recordset($1::text::jsonb) as known(topic text, subscribers jsonb)
    where is_held
  ),
  marker as (
    update awaiting_fan_out as marker set subscribers = known.subscribers, open = cardinality(known.subscribers)
    from known where marker.topic = known.topic and marker.subscribers is null
    returning event_id, marker.subscribers, marker.open
  ),
  event as (
    update events set subscribers = marker.subscribers, open = marker.open
    from marker where events.id = marker.event_id
    returning 1
  )
  select count(*)::int as events from event`;
