import type { alerts } from '../../../drizzle/schema.ts';
import { NEXT_INCIDENT } from '../incidents/next.ts';
import type { NextIncident } from '../incidents/next.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';

/** A way to reach operators. */
export type ChannelName = (typeof alerts.$inferSelect)['channel'];

/** An incident to tell of, as it is now. Times are epoch milliseconds. */
export interface AlertedIncident {
  readonly id: string;
  readonly revision: number;
  /** Empty for an outage: all topics of a subscriber that does not answer. */
  readonly topic: string;
  readonly subscriber: string;
  readonly kind: string;
  /** The error group; empty for an outage, and where there is none. */
  readonly group: string;
  /** The last error, its personal data masked. */
  readonly message: string;
  readonly state: 'happening' | 'owed' | 'closed';
  readonly change: 'opened' | 'changed' | 'closed';
  readonly openedAt: number;
  readonly changedAt: number;
  readonly closedAt: number | null;
  /** How often it has happened since `openedAt`. */
  readonly times: number;
  /** Of one without blocked lanes: the incident that its subscriber fails by now. Null where its lanes deliver. */
  readonly next: NextIncident | null;
  readonly blockedLanes: number;
  /** The part of them that a dead letter halts. */
  readonly haltedLanes: number;
  /** Of an outage that is not over. */
  readonly nextProbeAt: number | null;
  readonly waiting: number;
  /** Dead letters. */
  readonly owed: number;
  readonly isAcknowledged: boolean;
  /** Whether it ever was: an acknowledgement ends when lanes are blocked again. */
  readonly wasAcknowledged: boolean;
}

/** The alerts that one process has claimed for one channel. */
export interface Claimed {
  readonly channel: ChannelName;
  /** Identifies the claim; in Postgres's notation, to the microsecond. */
  readonly claimedAt: string;
  /** The worst first: where most waits, then where most is dead. */
  readonly incidents: readonly AlertedIncident[];
}

/** Longer than any attempt takes. Afterwards the process that claimed an alert has died, and another sends it. */
const LEASE_MS = 2 * MINUTE;

/** One message a minute and channel: whatever opens in the same minute is one message. A little less, for late crons. */
const PAUSE_MS = 50 * SECOND;

/** More are claimed a minute later. */
const BATCH = 500;

/**
 * Claims the alerts that a channel has to tell now, for one message.
 *
 * First writes an alert for each incident whose present revision the channel has not been given. So an incident that
 * changed several times meanwhile is one alert, as it is now; earlier alerts of it that are still owed are claimed with
 * the new one. However many processes call this at once, each alert is claimed by one of them, and a channel is claimed
 * once a minute.
 *
 * @param now overrides the database's clock in tests.
 * @returns null if there is nothing to tell, or somebody else tells it.
 */
export async function claimAlerts(db: Database, channel: ChannelName, now?: Date): Promise<Claimed | null> {
  const clock = now?.toISOString() ?? null;
  return await db.transaction(async (tx) => {
    await limitStatements(tx);
    if (!(await lock(tx, channel))) return null;
    await run(tx, { text: WRITE_MISSING, values: [channel, clock] });
    const [row] = await run<{ claimed_at: string; incidents: readonly AlertedIncident[] }>(tx, {
      text: CLAIM,
      values: [channel, clock, LEASE_MS, PAUSE_MS],
    });
    if (!row || row.incidents.length === 0) return null;
    return { channel, claimedAt: row.claimed_at, incidents: row.incidents };
  });
}

/** First half of the key of the advisory lock under which a channel's alerts are written and claimed. */
const ALERT_LOCKS = 0x905b;

// In a statement of its own, so that the snapshots of the next ones are no older than the lock.
async function lock(tx: Transaction, channel: ChannelName): Promise<boolean> {
  const [row] = await run<{ is_held: boolean }>(tx, {
    text: `select pg_try_advisory_xact_lock(${ALERT_LOCKS}, hashtext($1::text)) as is_held`,
    values: [channel],
  });
  return row!.is_held;
}

// Of an incident that closed before its first alert, operators are notified if that was just now, and not if the channel
// is new. Of the end of one that they were notified of, they are notified for a day, in case nothing could be sent
// meanwhile.
const WRITE_MISSING = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  forgotten as (
    delete from alerts where not exists (select from incidents where incidents.id = incident_id)
  )
  insert into alerts (incident_id, revision, channel, due_at)
  select incidents.id, incidents.revision, $1::text, clock.now
  from clock, incidents left join lateral (
    select max(revision) as revision from alerts where incident_id = incidents.id and channel = $1::text
  ) as alerted on true
  where incidents.revision > coalesce(alerted.revision, 0) and (
    closed_at is null
    or closed_at > clock.now - case when alerted.revision is null then interval '5 minutes' else interval '1 day' end
  )
  on conflict do nothing`;

// An attempt at a time that the clock has not come to was made by a clock that was ahead: it holds nothing back. A few
// seconds are allowed for, so that a small step back sends nothing twice. Alerts are due from their writing on.
const CLAIM = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  due as materialized (
    select distinct incident_id from (
      select incident_id from clock, alerts
      where channel = $1::text and due_at is not null
        and (due_at <= clock.now or attempts = 0 or attempted_at > clock.now + interval '10 seconds')
        and not exists (
          select from alerts
          where channel = $1::text and attempted_at > clock.now - $4::float8 * interval '1 millisecond'
            and attempted_at <= clock.now + interval '10 seconds'
        )
      order by due_at limit ${BATCH}
    ) as oldest
  ),
  claimed as (
    update alerts set attempts = attempts + 1, attempted_at = clock.now,
      due_at = clock.now + $3::float8 * interval '1 millisecond'
    from clock, due
    where alerts.incident_id = due.incident_id and channel = $1::text and due_at is not null
    returning alerts.incident_id
  )
  select to_char(clock.now at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as claimed_at, (
    select coalesce(json_agg(json_build_object('id', id, 'revision', revision, 'topic', topic, 'subscriber', subscriber,
      'kind', kind, 'group', error_group, 'message', message, 'state', state, 'change', change,
      'openedAt', extract(epoch from opened_at) * 1000, 'changedAt', extract(epoch from changed_at) * 1000,
      'closedAt', extract(epoch from closed_at) * 1000, 'times', times, 'next', ${NEXT_INCIDENT}, 'blockedLanes', blocked_lanes,
      'haltedLanes', halted_lanes, 'nextProbeAt', (
        select extract(epoch from next_probe_at) * 1000 from outages
        where incidents.topic = '' and outages.subscriber = incidents.subscriber
      ), 'waiting', waiting,
      'owed', owed, 'isAcknowledged', acknowledged_at is not null, 'wasAcknowledged', acknowledged_at is not null or exists (
        select from operator_actions where incident_id = incidents.id and action = 'acknowledge'
      ))
      order by array_position(array['happening', 'owed', 'closed'], state), waiting desc, owed desc, opened_at, id), '[]')
    from incidents where id in (select incident_id from claimed)
  ) as incidents
  from clock`;
