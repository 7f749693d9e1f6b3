import * as z from 'zod';

import { subscriberNames } from '../../bus/catalog/catalog.ts';
import { topicsOf } from '../../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { FAILING } from '../../components/incidents/halts.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { shapesOf } from '../kit/fields.ts';
import { limitOf, reachedLimits } from '../kit/limits.ts';
import type { FoundLimit } from '../kit/limits.ts';
import { outage, pause } from '../kit/pauses.ts';
import { failureText } from '../kit/states.ts';
import * as shape from '../kit/shapes.ts';
import { countFields, findOverview } from '../overview/found.ts';
import type { Found, FoundSubscription } from '../overview/found.ts';
import { hasLeft, isRefusing, stateOf, subscriberState, sumOf, withoutName } from '../overview/read.ts';

export const subscriberStanding = z
  .object({
    subscriber: z.string(),
    inCatalog: z.boolean().describe('Whether this release’s catalog lists it for any topic.'),
    standIn: z.boolean().describe('Whether a stand-in has its place, which only the embedded mode has.'),
    place: z
      .enum(['here', 'elsewhere', 'unattached'])
      .describe('Where it runs: in this process, or behind an endpoint. Deliveries to others wait.'),
    host: z.string().nullable().describe('The host of its endpoint. Null without an endpoint.'),
    state: subscriberState,
    pausedBy: z.string().nullable().describe('The operator of its first pause, see `pauses`.'),
    pauses: z.array(pause),
    outage: outage.nullable().describe('While it does not answer.'),
    limited: z
      .object({
        limit: z.string().describe('`600/m`, or `4 at once`.'),
        until: shape.instant
          .nullable()
          .describe(
            'When at this rate all that waits is handed over. Null where the limit is how many at once.',
          ),
      })
      .nullable()
      .meta({
        id: 'ReachedLimit',
        description: 'While deliveries wait and its limit allows none: `rate_limited`.',
      }),
    ...shapesOf(countFields),
    lastDeliveredAt: shape.instant.nullable(),
    lastFailedAt: shape.instant.nullable(),
    lastAnswer: z
      .string()
      .nullable()
      .describe('How its last failure reads, without personal data; null if it is not on record.'),
  })
  .meta({ id: 'SubscriberStanding', description: 'A subscriber as it is now.' });
export type SubscriberStanding = z.output<typeof subscriberStanding>;

export const subscriberStandings = z
  .object({
    generatedAt: shape.instant,
    items: z
      .array(subscriberStanding)
      .describe('By state: outages, failing, paused, delivering, unattached; then by name.'),
  })
  .meta({ id: 'SubscriberStandings', description: 'All subscribers as they are now.' });
export type SubscriberStandings = z.output<typeof subscriberStandings>;

/** What the overview does not know of a subscriber. */
interface Told {
  readonly subscriber: string;
  readonly last: shape.LastError | null;
  readonly reached: FoundLimit | null;
}

/**
 * Reads how subscribers are: those of the catalog, and others that have something left or are paused.
 *
 * @param attached the subscribers of this process.
 * @param only the name of one, which is read if anything of it is on record; null: all.
 * @param watched ends when the incidents are up to date, which say what a subscriber answered last.
 * @returns with what was found of each of their subscriptions.
 */
export async function readStandings(
  db: Database,
  attached: readonly AttachedSubscriber[],
  only: string | null = null,
  watched: Promise<unknown> = watchIncidents(db),
): Promise<SubscriberStandings & Pick<Found, 'subscriptions'>> {
  const [found, told] = await Promise.all([
    findOverview(db, attached, undefined, ''),
    watched.then(async () => await run<Told>(driverOf(db), { text: TOLD, values: [only] })),
  ]);
  const { generatedAt, subscriptions, pauses } = found;
  const known = [...subscriptions.filter((row) => row.subscriber === only || hasLeft(row)), ...pauses];
  const names = new Set([...subscriberNames(), ...known.map(({ subscriber }) => subscriber)]);
  const items = [...names]
    .filter((name) => only === null || name === only)
    .map((name) =>
      standingOf(
        name,
        found,
        attached,
        told.find(({ subscriber }) => subscriber === name),
      ),
    );
  return { generatedAt, items: items.toSorted(byState), subscriptions };
}

function byState(one: SubscriberStanding, other: SubscriberStanding): number {
  return (
    subscriberState.options.indexOf(one.state) - subscriberState.options.indexOf(other.state) ||
    one.subscriber.localeCompare(other.subscriber, 'en')
  );
}

function standingOf(
  subscriber: string,
  found: Found,
  attached: readonly AttachedSubscriber[],
  told: Told | undefined,
): SubscriberStanding {
  const isOf = (one: { readonly subscriber: string }) => one.subscriber === subscriber;
  const rows = found.subscriptions.filter(isOf);
  const counts = sumOf(rows);
  const pauses = found.pauses.filter(isOf).map((one) => withoutName(one));
  const down = found.outages.find(isOf);
  const parts = attached.filter(({ name }) => name === subscriber);
  const listed = topicsOf(subscriber);
  const handled = listed.filter((topic) => parts.some(({ handlers }) => handlers.has(topic)));
  const isPaused = (topic: string) => pauses.some((one) => one.topic === null || one.topic === topic);
  const elsewhere = parts.find(({ place }) => place === 'elsewhere');
  const ended = rows.filter((row) => row.lastDeliveredAt !== null || row.lastFailedAt !== null);
  const lastDeliveredAt = newest(rows, 'lastDeliveredAt');
  const lastFailedAt = newest(rows, 'lastFailedAt');
  return {
    subscriber,
    ...counts,
    inCatalog: listed.length > 0,
    standIn: parts.length > 0 && parts.every(({ place }) => place === 'journal'),
    place: elsewhere ? 'elsewhere' : parts.length > 0 ? 'here' : 'unattached',
    host: elsewhere?.host ?? null,
    state: stateOf({
      ...counts,
      isAttached: handled.length > 0,
      isPaused: handled.every(isPaused),
      isSilent: down !== undefined,
      isHalted: rows.some(({ haltedLanes }) => haltedLanes > 0),
      isRefusing: ended.length > 0 && ended.every(isRefusing),
      lastDeliveredAt,
    }),
    pausedBy: pauses[0]?.pausedBy ?? null,
    pauses,
    outage: down ? withoutName(down) : null,
    limited:
      told?.reached && counts.pending + counts.failing > 0
        ? limitOf(told.reached, Date.parse(found.generatedAt))
        : null,
    lastDeliveredAt,
    lastFailedAt,
    lastAnswer: lastFailedAt === null || !told?.last ? null : failureText(told.last),
  };
}

function newest(rows: readonly FoundSubscription[], of: 'lastDeliveredAt' | 'lastFailedAt'): string | null {
  return (
    rows
      .flatMap(({ [of]: at }) => at ?? [])
      .toSorted()
      .at(-1) ?? null
  );
}

/** Older failures are told by their time alone. */
const SAID_DAYS = 30;

// What a subscriber said last is in its incidents, masked: in that of an outage, in that of what failed or died then, or else in
// the only one of which nothing is left and that was open then. Where several were, nobody knows which it was.
const TOLD = `
  with failure as materialized (
    select subscriber, max(last_failed_at) as at from lane_outcomes where $1::text is null or subscriber = $1::text group by subscriber
  ),
  failed as (
    select distinct on (subscriber) subscriber, attempted_at + coalesce(duration_ms, 0) * interval '1 millisecond' as at,
      jsonb_path_query_array(attempt_log, '$[*] ? (@.outcome == "failed")') -> -1 ->> 'group' as error_group
    from (${FAILING}) as failing where $1::text is null or subscriber = $1::text
    order by subscriber, attempted_at desc
  ),
  said as (
    select distinct on (subscriber) subscriber,
      case when is_sure or count(*) over (partition by subscriber) = 1 then json_build_object('kind', kind, 'message', message) end as last
    from failure join incidents using (subscriber) left join failed using (subscriber, error_group), lateral (
      select greatest(failed.at, (
        select max(dead_lettered_at) from exceptions where exceptions.error_group = incidents.error_group
      )) as last_at, topic = '' and closed_at is null as is_outage
    ) as found, lateral (
      -- A settlement comes a moment after the attempt.
      select is_outage or last_at > failure.at - interval '10 seconds' as is_sure
    ) as judged
    where failure.at > clock_timestamp() - interval '${SAID_DAYS} days'
      and opened_at <= failure.at and coalesce(closed_at >= failure.at, true) and (is_sure or last_at is null)
    order by subscriber, is_outage desc, last_at desc nulls last, changed_at desc
  )
  select subscriber, last, reached from said full join (${reachedLimits('clock_timestamp()')}) as limits using (subscriber)`;
