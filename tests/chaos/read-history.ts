import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

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
  const [awaiting] = await select<{ count: number }>('select count(*)::int from awaiting_fan_out');
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
    lanes: await select<LaneVersion>(LANES),
    deliveries: await select<DeliveryVersion>(DELIVERIES),
    timers: await select<TimerVersion>(TIMERS),
    outages: await select<OutageVersion>(OUTAGES),
    backfills: await select<StoredBackfill>(BACKFILLS),
    effects: await select('select event_id::text as "eventId", subscriber from chaos.effects'),
    contradictions: await contradictions({ $client: control } as unknown as Parameters<
      typeof contradictions
    >[0]),
  };
}

const ms = (instant: string) => `(extract(epoch from ${instant}) * 1000)::float8`;
const text = (column: string) => `version ->> '${column}'`;
const number = (column: string) => `(${text(column)})::float8`;
const instant = (column: string) => ms(`(${text(column)})::timestamptz`);

const EVENTS = `
  select id::text, topic, ordering_key as "orderingKey", seq::float8, state::text,
    ${ms('due_at')} as "dueAt",
    to_char(created_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "createdAt"
  from public.events`;

const TIMERS = `
  select ${ms('at')} as at, by, ${text('id')} as id, ${text('topic')} as topic, ${text('timer_key')} as "timerKey",
    ${instant('due_at')} as "dueAt", version ? 'is_gone' as "isGone"
  from chaos.versions where what = 'timers' order by versions.id`;

const OUTAGES = `
  select ${ms('at')} as at, by, ${text('subscriber')} as subscriber, ${instant('opened_at')} as "openedAt",
    ${instant('probed_at')} as "probedAt", ${instant('recovered_at')} as "recoveredAt", version ? 'is_gone' as "isGone"
  from chaos.versions where what = 'outages' order by versions.id`;

const BACKFILLS = `
  select topic, subscriber, renamed_from as "renamedFrom", ${ms('requested_at')} as "requestedAt", ${ms('begun_at')} as "begunAt",
    ${ms('ended_at')} as "endedAt"
  from public.backfills`;

/** When a relay looks at a lane next: when it is due, or its lease runs out. */
const LOOKED_AT = `nullif(coalesce(${text('due_at')}, case when version ->> 'lease_token' is not null
  then ${text('leased_until')} end)::timestamptz, 'infinity')`;

const LANES = `
  select ${ms('at')} as at, by, ${text('id')} as id, ${text('topic')} as topic, ${text('subscriber')} as subscriber,
    ${number('head')} as head, ${number('tail')} as tail, ${number('careful_to')} as "carefulTo",
    ${ms(LOOKED_AT)} as "dueAt", ${text('lease_token')} as token, ${text('home_id')} as "homeId",
    ${text('held_key')} as "heldKey", version ? 'is_gone' as "isGone"
  from chaos.versions where what = 'lanes' order by versions.id`;

const DELIVERIES = `
  select ${ms('at')} as at, by, ${text('lane_id')} as "laneId", ${text('lane_key')} as "laneKey", ${number('position')} as position,
    ${text('event_id')} as "eventId", ${text('state')} as state, ${number('attempts')} as attempts,
    ${number('replays')} as replays, ${instant('attempted_at')} as "attemptedAt",
    ${number('duration_ms')} as "durationMs", ${instant('next_attempt_at')} as "nextAttemptAt",
    ${instant('dismissed_at')} as "dismissedAt", (version ->> 'backfilled')::boolean as backfilled,
    coalesce(nullif(version -> 'attempt_log', 'null'), '[]') as log
  from chaos.versions where what = 'deliveries' order by versions.id`;
