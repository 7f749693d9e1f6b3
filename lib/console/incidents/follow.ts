import { and, desc, eq } from 'drizzle-orm';

import { exceptions, incidents, operatorActions } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { now } from '../kit/clock.ts';
import type { Following } from '../kit/following.ts';
import { time } from '../kit/instants.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { count, quantity } from '../kit/words.ts';

interface OfIncident {
  readonly incidentId: string;
}

interface Times {
  readonly now: number;
  readonly since: number;
}

interface Found extends Times {
  readonly by: string;
  readonly lanes: number;
  readonly delivered: number;
  readonly failed: number;
  readonly paused: boolean;
}

/** Follows the lanes of an incident that were retried together, until each has been attempted. */
export async function followRetry(
  db: Database,
  { incidentId }: OfIncident,
  names: OperatorNames,
): Promise<Following | null> {
  const found = await readFirst<Found>(db, ACTED_ON, [incidentId, 'retry', '10 seconds']);
  if (!found) return null;
  const { lanes: retried, delivered, failed } = found;
  const waiting = retried - delivered - failed;
  const rest = [
    failed > 0 && `${count(failed)} failed again`,
    waiting > 0 &&
      (found.paused ? `${count(waiting)} wait for the end of the pause` : `${count(waiting)} on the way …`),
  ].filter((part) => part !== false);
  return {
    tone: failed > 0 ? 'dead' : waiting > 0 ? 'wait' : 'ok',
    words: html`<b>Retried ${quantity(retried, 'lane')}: ${count(delivered)} deliver again</b
      >${rest.map((part) => `, ${part}`)}.${whoWords(found, names)}`,
    isSettled: waiting === 0 || found.paused,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

/** Says how many deliveries were skipped together. */
export async function followSkip(
  db: Database,
  { incidentId }: OfIncident,
  names: OperatorNames,
): Promise<Following | null> {
  const found = await readFirst<Found>(db, ACTED_ON, [incidentId, 'skip', '30 seconds']);
  if (!found) return null;
  const what = quantity(found.lanes, 'delivery');
  return {
    tone: 'ok',
    words: html`<b>Skipped ${what}.</b> ${found.lanes === 1 ? 'It is a dead letter' : 'They are dead letters'}
      now, and can be replayed. What waited behind follows.${whoWords(found, names)}`,
    isSettled: true,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

/** Says what the last dismissal of an incident took. */
export async function followDismissal(
  db: Database,
  { incidentId }: OfIncident,
  names: OperatorNames,
): Promise<Following | null> {
  const { at: since, action, incidentId: of, operator: by } = operatorActions;
  const dismissed = db.$count(exceptions, eq(exceptions.dismissedAt, since));
  const [found] = await db
    .select({ now, since, by, dismissed })
    .from(operatorActions)
    .where(and(eq(of, incidentId), eq(action, 'dismiss')))
    .orderBy(desc(since))
    .limit(1);
  if (!found) return null;
  const what = quantity(found.dismissed, 'dead letter');
  return {
    tone: 'ok',
    words: html`<b>Dismissed ${what}.</b> They are in no count any more, and can still be
      replayed.${whoWords(found, names)}`,
    isSettled: true,
    since: instantOf(found.since),
    now: instantOf(found.now),
  };
}

interface Who {
  readonly by: string;
  readonly since: Parameters<typeof instantOf>[0];
  readonly now: Parameters<typeof instantOf>[0];
}

/** Says who asked for it, and when: somebody else may have been first. */
function whoWords({ by, since, now: at }: Who, names: OperatorNames): Html {
  return html` Asked for by ${operatorText(by, names)} at ${time(instantOf(since), instantOf(at))}.`;
}

/** Says who has taken an incident up. */
export async function followAcknowledgement(
  db: Database,
  { incidentId }: OfIncident,
  names: OperatorNames,
): Promise<Following | null> {
  const { id, acknowledgedAt, acknowledgedBy: by } = incidents;
  const [found] = await db.select({ now, acknowledgedAt, by }).from(incidents).where(eq(id, incidentId));
  if (!found?.acknowledgedAt) return null;
  const [since, nowAt] = [instantOf(found.acknowledgedAt), instantOf(found.now)];
  const words = html`<b>Acknowledged</b> at ${time(since, nowAt)}, by ${operatorText(found.by ?? '', names)}.
    It stays open until nothing is left of it.`;
  return { tone: 'ok', words, isSettled: true, since, now: nowAt };
}

async function readFirst<Row>(db: Database, text: string, values: string[]): Promise<Row | null> {
  const [row] = await run<Row>(driverOf(db), { text, values });
  return row ?? null;
}

// The lanes of one request are acted on within so many seconds. A lane that was retried twice in them counts once, by the
// last of the two. A first delivery that has not been attempted since is still failing, with its last attempt before the retry.
const ACTED_ON = `
  with action as materialized (
    select at, delivery_id, topic, subscriber, operator, max(at) over () as last_at from operator_actions
    where incident_id = $1::text::uuid and action = $2::text
  ),
  lane as (
    select distinct on (lane, ordering_key) at, action.operator, state, attempted_at
    from action join deliveries on event_id = split_part(delivery_id, '.', 1)::uuid
      and deliveries.subscriber = action.subscriber
    where at > last_at - $3::text::interval
    order by lane, ordering_key, at desc
  )
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from min(at)) * 1000)::float8 as since,
    (array_agg(operator order by at desc))[1] as by, count(*)::int as lanes,
    count(*) filter (where state = 'delivered')::int as delivered,
    count(*) filter (where state <> 'delivered' and attempted_at >= at)::int as failed,
    exists (
      select from pauses join action on pauses.subscriber = action.subscriber and pauses.topic in ('', action.topic)
    ) as paused
  from lane
  having count(*) > 0`;
