import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { drizzle } from 'drizzle-orm/node-postgres';
import type pg from 'pg';

import { contradictions } from '../support/bus.ts';
import type { Build } from './build.ts';
import type {
  DeliveryVersion,
  History,
  LaneVersion,
  LogEntry,
  OutageVersion,
  StoredBackfill,
  StoredEvent,
  SubscriberLimits,
  TimerVersion,
} from './history.ts';
import type { Produced } from './produce.ts';
import type { Release } from './releases.ts';

/**
 * Gathers what the tables, the instruments and the relays have written.
 *
 * @param folder of the run, where its log is.
 */
export async function readHistory(
  control: pg.Client,
  folder: string,
  produced: Produced,
  subscribers: readonly SubscriberLimits[],
  builds: Readonly<Record<Release, Build>>,
): Promise<History> {
  const log = await readFile(join(folder, 'log'), 'utf8');
  const select = async <Row>(text: string) => (await control.query(text)).rows as Row[];
  const [awaiting] = await select<{ count: number }>('select count(*)::int from awaiting');
  return {
    subscribers,
    releases: {
      present: Object.fromEntries(builds.present.bus.topics()),
      next: Object.fromEntries(builds.next.bus.topics()),
    },
    ...produced,
    log: log
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LogEntry),
    events: await select<StoredEvent>(EVENTS),
    markers: awaiting!.count,
    lanes: ofOneHold(await select<LaneVersion>(LANES)),
    deliveries: await select<DeliveryVersion>(DELIVERIES),
    timers: await select<TimerVersion>(TIMERS),
    outages: await select<OutageVersion>(OUTAGES),
    backfills: await select<StoredBackfill>(BACKFILLS),
    effects: await select('select event_id::text as "eventId", subscriber from chaos.effects'),
    contradictions: await contradictions(drizzle({ client: control })),
  };
}

const ms = (instant: string) => `(extract(epoch from ${instant}) * 1000)::float8`;
const text = (column: string) => `stored ->> '${column}'`;
const number = (column: string) => `(${text(column)})::float8`;
const instant = (column: string) => ms(`(${text(column)})::timestamptz`);

const EVENTS = `
  select id::text, topic, ordering_key as "orderingKey", seq::float8,
    coalesce((
      select max(case when dismissed_at is null then state else 'delivered' end) from deliveries where event_id = events.id
    ), 'delivered')::text as state,
    ${ms('due_at')} as "dueAt",
    to_char(created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "createdAt"
  from public.events`;

const TIMERS = `
  select ${ms('at')} as at, by, ${text('id')} as id, ${text('topic')} as topic, ${text('timer_key')} as "timerKey",
    ${instant('due_at')} as "dueAt", stored ? 'is_gone' as "isGone"
  from chaos.versions where what = 'timers' order by versions.id`;

const OUTAGES = `
  select ${ms('at')} as at, by, ${text('subscriber')} as subscriber, ${instant('opened_at')} as "openedAt",
    ${instant('probed_at')} as "probedAt", stored ? 'is_gone' as "isGone"
  from chaos.versions where what = 'outages' order by versions.id`;

const BACKFILLS = `
  select topic, subscriber, ${ms('requested_at')} as "requestedAt", ${ms('begun_at')} as "begunAt",
    ${ms('ended_at')} as "endedAt"
  from public.backfills`;

const LANES = `
  select ${ms('versions.at')} as at, by, lanes.id::text as id, topic, subscriber, ${number('head')} as head,
    ${number('careful_to')} as "carefulTo", ${instant('leased_until')} as "dueAt",
    case when stored ->> 'leased_until' is not null then ${text('token')} end as token
  from chaos.versions join lanes on lanes.id = (${text('lane')})::int where what = 'journal' order by versions.id`;

/** Each delivery when its event was placed, when a settlement passed it, and each version of those with a story. */
const DELIVERIES = `
  with version as (
    select versions.id, transaction, at, by, lanes.id as lane, position, lanes.slot, placed.event_id, placed.ordering_key, '{"state": "pending"}'::jsonb as stored
    from chaos.versions join log as placed on placed.stream = (${text('stream')})::int and placed.position = (${text('position')})::bigint
      join lanes using (stream)
    where what = 'log' and subscriber = any ((
      select subscribers from audiences where audiences.stream = placed.stream and audiences.position <= placed.position
      order by audiences.position desc limit 1
    )::text[])
    union all
    select versions.id, transaction, versions.at, by, lanes.id, log.position, lanes.slot, event_id, ordering_key, jsonb_build_object('state', 'delivered',
      'attempts', 1, 'duration_ms', took_ms[n],
      'attempted_at', row.at - (ago_ms[n] + took_ms[n]) * interval '1 millisecond')
    from chaos.versions, lateral jsonb_populate_record(null::journal, stored) as row, generate_subscripts(took_ms, 1) as n
      join lanes on true join log on log.stream = lanes.stream
    where what = 'journal' and lanes.id = row.lane and log.position = row.first + n - 1 and took_ms[n] is not null
    union all
    select versions.id, transaction, at, by, lanes.id, (${text('position')})::bigint, lanes.slot, (${text('event_id')})::uuid, ${text('ordering_key')}, stored
    from chaos.versions join lanes on lanes.id = (${text('lane')})::int where what = 'exceptions'
  )
  select transaction::text, ${ms('at')} as at, by, lane::text as "laneId", case when slot > 0 then ordering_key end as "laneKey", position::float8 as position,
    event_id::text as "eventId", ${text('state')} as state, coalesce(${number('attempts')}, 0) as attempts,
    coalesce(${number('replays')}, 0) as replays, ${instant('attempted_at')} as "attemptedAt",
    ${number('duration_ms')} as "durationMs", ${instant('next_attempt_at')} as "nextAttemptAt",
    ${instant('dismissed_at')} as "dismissedAt", coalesce((stored ->> 'backfilled')::boolean, false) as backfilled,
    coalesce(nullif(stored -> 'attempt_log', 'null'), '[]') as log
  from version order by id`;

/** A relay that goes on with a lane while its handlers run claims it anew: that is one hold, under its first token. */
function ofOneHold(lanes: readonly LaneVersion[]): LaneVersion[] {
  const latest = new Map<string, LaneVersion>();
  return lanes.map((version) => {
    const before = latest.get(version.id);
    const isSame =
      before?.token != null &&
      version.token !== null &&
      before.by === version.by &&
      version.at <= (before.dueAt ?? 0);
    const one = isSame ? { ...version, token: before.token } : version;
    latest.set(one.id, one);
    return one;
  });
}
