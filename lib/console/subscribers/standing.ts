import * as z from 'zod';

import { subscriberNames } from '../../bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { topicsOf } from '../../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { outage, outageFields } from '../incidents/outage.ts';
import { computed, field, instantOrNull, instantSql, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { limitOf, reachedLimits } from '../kit/limits.ts';
import type { FoundLimit } from '../kit/limits.ts';
import { pause, pauseFields } from '../kit/pauses.ts';
import * as shape from '../kit/shapes.ts';
import { failureText } from '../kit/states.ts';

const states = ['outage', 'failing', 'paused', 'delivering', 'unattached'] as const;

const countOf = (sql: string) => field(shape.count, `coalesce(${sql}, 0)`);

const fields = {
  subscriber: field(z.string(), 'known.subscriber'),
  inCatalog: computed(
    z.boolean().meta({ description: 'Whether this release’s catalog lists it for any topic.' }),
  ),
  topics: computed(
    z.object({ listed: shape.count, attached: shape.count, standIns: shape.count }).meta({
      description:
        'Its topics in the catalog, those that it is attached to here, and those of them that a stand-in has in its place, which only the embedded mode has.',
    }),
  ),
  place: computed(
    z.enum(['here', 'elsewhere', 'unattached']).meta({
      description: 'Where it runs: in this process, or behind an endpoint. Deliveries to others wait.',
    }),
  ),
  host: computed(
    z.string().nullable().meta({ description: 'The host of its endpoint. Null without an endpoint.' }),
  ),
  state: computed(
    z.enum(states).meta({
      id: 'SubscriberState',
      description:
        'The first that applies: `unattached`, `paused` (all its topics), `outage`, `failing` (a delivery waits for a retry, a dead letter halts a lane, or the newest outcome of every topic is a failure), `paused` (some topics), `delivering`.',
    }),
  ),
  pausedBy: computed(
    z.string().nullable().meta({ description: 'The operator of its first pause, see `pauses`.' }),
  ),
  pauses: field(
    z.array(pause),
    `(
      select coalesce(json_agg(${jsonOf(pauseFields)} order by topic), '[]') from pauses
      where pauses.subscriber = known.subscriber
    )`,
  ),
  outage: field(
    outage.nullable().meta({ description: 'While it does not answer.' }),
    `(
      select ${jsonOf(outageFields)} from outages
      where outages.subscriber = known.subscriber
    )`,
  ),
  limited: computed(
    z
      .object({
        limit: z.string().meta({ description: '`600/m`, or `4 at once`.' }),
        until: shape.instant.nullable().meta({
          description:
            'When at this rate all that waits is handed over. Null where the limit is how many at once.',
        }),
      })
      .nullable()
      .meta({
        id: 'ReachedLimit',
        description: 'While deliveries wait and its limit allows none: `rate_limited`.',
      }),
  ),
  pending: countOf('coalesce(total.pending, 0) + awaited.events, total.pending'),
  failing: countOf('total.failing'),
  deadLettered: countOf('total.dead_lettered'),
  lastDeliveredAt: instantOrNull('total.last_delivered_at'),
  lastFailedAt: instantOrNull('total.last_failed_at'),
  lastAnswer: computed(
    z.string().nullable().meta({
      description: 'How its last failure reads, without personal data; null if it is not on record.',
    }),
  ),
};

export const subscriberStanding = z
  .object(shapesOf(fields))
  .meta({ id: 'SubscriberStanding', description: 'A subscriber as it is now.' });
export type SubscriberStanding = z.output<typeof subscriberStanding>;

export const subscriberStandings = z
  .object({
    generatedAt: shape.instant,
    items: z.array(subscriberStanding).meta({
      description: 'By state: outages, failing, paused, delivering, unattached; then by name.',
    }),
  })
  .meta({ id: 'SubscriberStandings', description: 'All subscribers as they are now.' });
export type SubscriberStandings = z.output<typeof subscriberStandings>;

/** What the statement reads of one subscriber. */
interface Found extends Row<typeof fields> {
  /** Whether a dead letter halts one of its lanes. */
  readonly isHalted: boolean;
  /** Whether the newest outcome of each topic that has one is a failure. */
  readonly isRefusing: boolean;
  readonly last: shape.LastError | null;
  readonly reached: FoundLimit | null;
}

/**
 * Reads how subscribers are: those of the catalog, and others that have something left or are paused.
 *
 * One statement whose cost does not grow with the number of deliveries, but with that of lanes and exceptions.
 *
 * @param attached the subscribers of this process.
 * @param only the name of one; null: all.
 */
export async function readStandings(
  db: Database,
  attached: readonly AttachedSubscriber[],
  only: string | null = null,
): Promise<SubscriberStandings> {
  const listed = subscriberNames().filter((name) => only === null || name === only);
  const [row] = await run<{ at: string; found: readonly Found[] }>(driverOf(db), {
    text: STANDINGS,
    values: [JSON.stringify(listed), only],
  });
  const { at, found } = row!;
  const items = found.map((one) => standingOf(one, attached, at));
  return { generatedAt: at, items: items.toSorted(byState) };
}

function byState(one: SubscriberStanding, other: SubscriberStanding): number {
  return (
    states.indexOf(one.state) - states.indexOf(other.state) ||
    one.subscriber.localeCompare(other.subscriber, 'en')
  );
}

function standingOf(
  { isHalted, isRefusing, last, reached, ...found }: Found,
  attached: readonly AttachedSubscriber[],
  at: string,
): SubscriberStanding {
  const { subscriber, pauses, pending, failing, lastFailedAt } = found;
  const parts = attached.filter(({ name }) => name === subscriber);
  const listed = topicsOf(subscriber);
  const handled = listed.filter((topic) => parts.some(({ handlers }) => handlers.has(topic)));
  const played = handled.filter((topic) =>
    parts.some(({ place, handlers }) => place === 'journal' && handlers.has(topic)),
  );
  const elsewhere = parts.find(({ place }) => place === 'elsewhere');
  return {
    ...found,
    inCatalog: listed.length > 0,
    topics: { listed: listed.length, attached: handled.length, standIns: played.length },
    place: elsewhere ? 'elsewhere' : parts.length > 0 ? 'here' : 'unattached',
    host: elsewhere?.host ?? null,
    state: stateOf({ ...found, isHalted, isRefusing }, handled),
    pausedBy: pauses[0]?.pausedBy ?? null,
    limited: reached !== null && pending + failing > 0 ? limitOf(reached, Date.parse(at)) : null,
    lastAnswer: lastFailedAt === null || last === null ? null : failureText(last),
  };
}

function stateOf(
  {
    pauses,
    outage: silence,
    failing,
    isHalted,
    isRefusing,
    deadLettered,
    lastDeliveredAt,
  }: Omit<Found, 'last' | 'reached'>,
  handled: readonly string[],
): SubscriberStanding['state'] {
  const isPaused = (topic: string) => pauses.some((one) => one.topic === null || one.topic === topic);
  if (handled.length === 0) return 'unattached';
  if (handled.every(isPaused)) return 'paused';
  if (silence !== null) return 'outage';
  if (failing > 0 || isHalted) return 'failing';
  // Of one that has delivered before, a refusal is settled when its dead letter is.
  if (isRefusing && (deadLettered > 0 || lastDeliveredAt === null)) return 'failing';
  return pauses.length > 0 ? 'paused' : 'delivering';
}

/** Older failures are told by their time alone. */
const SAID_DAYS = 30;

// What a subscriber said last is in its incidents, masked: of those that happen now the newest, else of what ended last.
const STANDINGS = `
  with total as (
    select subscriber, sum(pending) as pending, sum(failing) as failing, sum(dead_lettered) as dead_lettered,
      sum(halted) > 0 as is_halted, max(last_delivered_at) as last_delivered_at, max(last_failed_at) as last_failed_at,
      bool_and(coalesce(last_failed_at, '-infinity') > coalesce(last_delivered_at, '-infinity'))
        filter (where last_failed_at is not null or last_delivered_at is not null) as is_refusing
    from subscription_counts where $2::text is null or subscriber = $2::text
    group by subscriber
  ),
  awaited as (
    select subscriber, sum(events) as events
    from (
      select subscribers, count(*) as events from awaiting
      where topic <> '${SMOKE_TEST.topic}' group by subscribers
    ) as addressed_alike, unnest(subscribers) as subscriber
    where $2::text is null or subscriber = $2::text group by subscriber
  ),
  known as (
    select jsonb_array_elements_text($1::text::jsonb) as subscriber
    union select subscriber from total where $2::text is not null or pending + failing + dead_lettered > 0
    union select subscriber from awaited
    union select subscriber from pauses where $2::text is null or subscriber = $2::text
  ),
  said as (
    select distinct on (subscriber) subscriber, kind, message from incidents
    where subscriber <> '' and ($2::text is null or subscriber = $2::text)
      and coalesce(closed_at > clock_timestamp() - interval '${SAID_DAYS} days', true)
    order by subscriber, state = 'happening' desc, coalesce(closed_at, changed_at) desc
  )
  select ${instantSql('clock_timestamp()')} as at, (
    select coalesce(json_agg(${jsonOf(fields, {
      isHalted: 'coalesce(total.is_halted, false)',
      isRefusing: 'coalesce(total.is_refusing, false)',
      reached: 'limits.reached',
      last: `case when said.subscriber is not null then json_build_object('kind', kind, 'message', message) end`,
    })}), '[]')
    from known left join total using (subscriber) left join awaited using (subscriber)
      left join said using (subscriber)
      left join (${reachedLimits('clock_timestamp()')}) as limits using (subscriber)
  ) as found`;
