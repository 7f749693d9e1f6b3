import { subscriberNames } from '../../bus/catalog/catalog.ts';
import { OLDEST_SNAPSHOT } from '../../bus/doctor/snapshot.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { LANES_COUNTED } from '../../components/incidents/halts.ts';
import { BOUNDS_MS } from '../../components/subscriber-health/buckets.ts';
import type { Histogram } from '../../components/subscriber-health/buckets.ts';
import type { OperatorSettings } from '../../platform/operator-settings.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { authenticate, requireScope } from '../access/authenticate.ts';
import type { Bus } from '../kit/route.ts';
import type { Counts } from '../kit/shapes.ts';
import { SUBSCRIPTIONS } from '../overview/found.ts';
import { readOverview } from '../overview/read.ts';
import type { BusCounts, SubscriberOverview, TopicOverview } from '../overview/read.ts';
import { METRICS_TYPE } from './route.ts';

/**
 * Answers with the bus's metrics, for operators' tokens with the scope to read.
 *
 * @throws Problem 401, 403 or 503 as `authenticate` and `requireScope` do.
 */
export async function metricsFor(
  request: Request,
  settings: OperatorSettings,
  { database, subscribers }: Pick<Bus, 'database' | 'subscribers'>,
): Promise<Response> {
  const operator = await authenticate(request, settings, async (read) => await read(await database()));
  requireScope(operator, 'event-bus:read');
  const text = await readMetrics(await database(), subscribers());
  return new Response(text, { headers: { 'content-type': METRICS_TYPE } });
}

/**
 * Writes the bus's metrics in Prometheus's text format 0.0.4.
 *
 * Labels are names of the catalog and our own words, never a caller's text. Two concurrent statements, whose cost does
 * not grow with the number of deliveries. All instances report the same numbers, since they are those of the database.
 * Counters of deliveries never decrease. Those of refused webhooks, chat and mails restart at midnight, which Prometheus handles
 * like a restart. As text, because libraries observe single values: they can't take histograms that the database keeps.
 *
 * @param now overrides the database's clock in tests.
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
 */
export async function readMetrics(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
): Promise<string> {
  const [overview, [row]] = await Promise.all([
    readOverview(db, attached, now),
    run<{ found: Found }>(driverOf(db), { text: FOUND, values: [SUBSCRIPTIONS, now?.toISOString() ?? null] }),
  ]);
  const { rows, times } = row!.found;
  const lines = Object.entries(METRICS).flatMap(([name, [help, of]]) => {
    const samples =
      typeof of === 'string'
        ? rows[name]!.map(({ value, ...labels }) => [labels, value] as const).toSorted(([one], [other]) =>
            labelsText(one) < labelsText(other) ? -1 : 1,
          )
        : of({ ...overview, times });
    const single = name.endsWith('_total') ? 'counter' : 'gauge';
    return [
      `# HELP postbud_${name} ${help}`,
      `# TYPE postbud_${name} ${samples.some(([, , part]) => part) ? 'histogram' : single}`,
      ...samples.map(
        ([labels, value, part = '']) => `postbud_${name}${part}${labelsText(labels)} ${valueText(value)}`,
      ),
    ];
  });
  return `${lines.join('\n')}\n`;
}

type Labels = Readonly<Record<string, string | number>>;

function labelsText(labels: Labels): string {
  const texts = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return texts.length === 0 ? '' : `{${texts.join(',')}}`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}

/** @param value null: it is not known. */
function valueText(value: number | null): string {
  return value === Infinity ? '+Inf' : String(value ?? NaN);
}

/** @param part of a histogram: `_bucket`, `_sum` or `_count`. */
type Sample = readonly [labels: Labels, value: number | null, part?: string];

/** The times of a subscriber since its first delivery. */
interface Times {
  readonly subscriber: string;
  readonly delivered_in: Histogram;
  readonly delivered_ms: number;
  readonly handled_in: Histogram;
  readonly handled_ms: number;
}

type Facts = BusCounts & { readonly times: readonly Times[] };
type Samples = (facts: Facts) => readonly Sample[];

/** Read of the overview, or in SQL: the labels of each sample, and its `value`. */
type Metric = readonly [help: string, samples: Samples | string];

interface Found {
  readonly rows: Readonly<Record<string, readonly (Labels & { readonly value: number | null })[]>>;
  readonly times: readonly Times[];
}

const OF_PROVIDER = ['unavailable', 'rejected', 'timeout', 'unreachable', 'bad_response'].map(
  (kind) => `provider_${kind}`,
);

/** Every known series is there, with 0 if need be: alerts never fire on a missing one, and `increase` misses the first value of a later one. */
const METRICS: Readonly<Record<string, Metric>> = {
  relay_last_pass_age_seconds: [
    'Time since a relay last claimed; +Inf if none ever did.',
    ({ relay: { lastPassAt }, generatedAt }) => [
      [{}, lastPassAt === null ? Infinity : secondsBetween(lastPassAt, generatedAt)],
    ],
  ],
  relay_lag_seconds: [
    'Age of the oldest due delivery of an attached subscriber.',
    ({ relay }) => [[{}, relay.lagSeconds]],
  ],
  events: [
    'Events not yet delivered to every subscriber, by the worst state of their deliveries.',
    ({ topics }) => topics.flatMap((one) => byState({ topic: one.topic }, one)),
  ],
  events_awaiting_place: [
    'Events that wait for their places in the order.',
    byTopic(({ awaitingPlace }) => awaitingPlace),
  ],
  topic_held_back_seconds: [
    'How long a producer’s open transaction has held back the topic’s events.',
    byTopic(({ heldBackSince }, { generatedAt }) =>
      heldBackSince === null ? 0 : secondsBetween(heldBackSince, generatedAt),
    ),
  ],
  deliveries: [
    'Unfinished deliveries and dead letters, by state.',
    ({ topics }) =>
      topics.flatMap(({ topic, subscribers }) =>
        subscribers.flatMap((one) => byState({ topic, subscriber: one.subscriber }, one)),
      ),
  ],
  oldest_due_age_seconds: [
    'Age of the oldest due delivery; 0 if none is due.',
    bySubscription(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0),
  ],
  lanes_blocked: [
    `Lanes whose first delivery waits for its next attempt, and all others behind it; counted up to ${LANES_COUNTED}.`,
    `select topic, subscriber, coalesce(sum(waiting.number), 0) as value
      from subscription left join lanes using (topic, subscriber), lateral (
        -- The first delivery of a lane that waits, or of a key, is due later.
        select count(*) as number from (
          select from clock join exceptions on due_at > clock.now where lane = lanes.id limit ${LANES_COUNTED}
        ) as first
      ) as waiting
      group by topic, subscriber`,
  ],
  lanes_halted: [
    'Lanes that wait until a dead letter is replayed or dismissed.',
    bySubscription(({ haltedLanes }) => haltedLanes),
  ],
  subscription_unattached: [
    '1: the subscriber has neither a handler nor an endpoint for the topic, and its deliveries wait.',
    bySubscription(({ attached }) => (attached ? 0 : 1)),
  ],
  subscription_paused: [
    '1: an operator has paused the subscriber here.',
    bySubscription(({ paused }) => (paused ? 1 : 0)),
  ],
  deliveries_delivered_total: [
    'Delivered deliveries; a replayed one counts again.',
    totalOf('delivered_total'),
  ],
  attempts_failed_total: [
    'Failed attempts, including the last ones before a dead letter.',
    totalOf('failed_total'),
  ],
  deliveries_dead_lettered_total: [
    'Dead-lettered deliveries, including those replayed since.',
    totalOf('dead_lettered_total'),
  ],
  webhooks_rejected_total: [
    'Refused webhooks since midnight UTC, when the count restarts.',
    `select provider, reason, count as value from clock, webhook_rejections
      where day = (clock.now at time zone 'utc')::date`,
  ],
  chat_calls_total: [
    'Calls of the language model since midnight UTC, when the count restarts, by what became of them.',
    byOutcome(['answered', 'cut_off', 'refused', 'aborted', ...OF_PROVIDER], ['chat']),
  ],
  inquiry_mails_total: [
    'Mails of inquiries since midnight UTC, when the count restarts, by what became of them at first.',
    byOutcome(['mailed', 'email_failed', 'email_timeout', 'email_unreachable'], ['inquiry']),
  ],
  verifications_total: [
    'Calls above a rate since midnight UTC, when the count restarts, by what Turnstile said; away: it said nothing, and the call passed.',
    byOutcome(
      ['verified', 'verification_required', 'verification_failed', 'verification_away'],
      ['chat', 'inquiry'],
    ),
  ],
  budget_reached: [
    '1: so many per cent of the calls that all visitors have today are used.',
    `select budget, percent, (
        select count(*) from edge where source = budget and outcome = 'budget_' || percent and count > 0
      ) as value
      from unnest('{chat,inquiry}'::text[]) as budget, unnest('{80,100}'::int[]) as percent`,
  ],
  webhooks_set_aside: [
    'Payment webhooks without a recorded intent: waiting, or unclaimed after 72 hours.',
    `select provider, state, (
        select count(*) from webhooks_set_aside as found
        where found.provider = known.provider and (unclaimed_at is null) = (state = 'waiting')
      ) as value
      from unnest('{cardpayments,walletpayments}'::text[]) as known(provider),
        unnest('{waiting,unclaimed}'::text[]) as state`,
  ],
  webhooks_reconciled_total: [
    'Webhooks that had not come and were found in the provider’s API.',
    'select provider, found as value from reconciliation',
  ],
  reconciliation_age_seconds: [
    'Time since the provider was last asked for all that was due.',
    'select provider, greatest(0, extract(epoch from now - greatest(succeeded_at, begun_at))) as value from reconciliation',
  ],
  backlog_age_seconds: [
    'Age of the oldest unfinished delivery, also while it waits for a retry: the greatest of this hour’s samples.',
    `select subscriber, coalesce(backlog_age_ms, 0) / 1000.0 as value from component left join (
        select subscriber, backlog_age_ms from clock, subscriber_health
        where period = 'hour' and starts_at = date_trunc('hour', clock.now, 'UTC') and topic = ''
      ) as health using (subscriber)`,
  ],
  subscriber_outage: [
    '1: the subscriber does not answer. Its deliveries wait, and one at a time probes.',
    'select subscriber, (opened_at is not null)::int as value from silence',
  ],
  subscriber_outage_seconds: [
    'How long the subscriber has not answered; 0 without an outage.',
    'select subscriber, greatest(0, extract(epoch from now - opened_at)) as value from clock, silence',
  ],
  oldest_snapshot_age_seconds: [
    'How long the oldest snapshot has been held, for which Postgres keeps dead rows; 0 without one, NaN if it is not known.',
    "select case when oldest is null then 0 else (oldest ->> 'seconds')::float8 end as value from snapshot",
  ],
  oldest_snapshot_age_transactions: [
    'Transactions that began since the oldest snapshot, where it is not known how long it has been held; else 0.',
    `select case when oldest ->> 'seconds' is null then coalesce((oldest ->> 'transactions')::float8, 0) else 0 end as value
      from snapshot`,
  ],
  delivery_seconds: [
    'Time from an event’s record to its delivery, without replays; approximate.',
    histograms(({ delivered_in: counts, delivered_ms: ms }) => ({ counts, ms })),
  ],
  handler_seconds: [
    'Time that handlers took, of all attempts; approximate.',
    histograms(({ handled_in: counts, handled_ms: ms }) => ({ counts, ms })),
  ],
};

function secondsBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / SECOND;
}

function byState(labels: Labels, { pending, failing, deadLettered }: Counts): readonly Sample[] {
  const counts = { pending, failing, dead_lettered: deadLettered };
  return Object.entries(counts).map(([state, number]) => [{ ...labels, state }, number]);
}

function byTopic(valueOf: (topic: TopicOverview, facts: Facts) => number): Samples {
  return (facts) => facts.topics.map((one) => [{ topic: one.topic }, valueOf(one, facts)]);
}

function bySubscription(valueOf: (one: SubscriberOverview) => number): Samples {
  return ({ topics }) =>
    topics.flatMap(({ topic, subscribers }) =>
      subscribers.map((one) => [{ topic, subscriber: one.subscriber }, valueOf(one)] as const),
    );
}

/** @param column of `subscription_counts`. */
function totalOf(column: string): string {
  return `select topic, subscriber, coalesce(${column}, 0) as value
    from subscription full join subscription_counts using (topic, subscriber)`;
}

function byOutcome(outcomes: readonly string[], sources: readonly string[]): string {
  return `select outcome, (
      select coalesce(sum(count), 0) from edge
      where edge.outcome = named.outcome and source in ('${sources.join("', '")}')
    ) as value
    from unnest('{${outcomes.join(',')}}'::text[]) as named(outcome)`;
}

/** Every fourth bound of the buckets, each four times the one before it: 1 ms, 4 ms, 16 ms, … 3 days. */
const SHOWN_BOUNDS = BOUNDS_MS.flatMap((ms, bucket) =>
  bucket % 4 === 0 ? [{ bucket, seconds: ms / SECOND }] : [],
);

/** A few hundred series, for every subscriber of the catalog. */
function histograms(
  timesIn: (row: Facts['times'][number]) => { readonly counts: Histogram; readonly ms: number },
): Samples {
  return ({ times }) =>
    subscriberNames().flatMap((subscriber): readonly Sample[] => {
      const found = times.find((row) => row.subscriber === subscriber);
      const { counts, ms } = found ? timesIn(found) : { counts: [], ms: 0 };
      const upTo = (bucket: number) => counts.slice(0, bucket + 1).reduce((sum, number) => sum + number, 0);
      const total = upTo(counts.length);
      return [
        ...SHOWN_BOUNDS.map(({ bucket, seconds }): Sample => [
          { subscriber, le: seconds },
          upTo(bucket),
          '_bucket',
        ]),
        [{ subscriber, le: '+Inf' }, total, '_bucket'],
        [{ subscriber }, ms / SECOND, '_sum'],
        [{ subscriber }, total, '_count'],
      ];
    });
}

const FOUND = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber from jsonb_to_recordset($1::text::jsonb) as listed(topic text, subscriber text)
    where subscriber <> ''
  ),
  component as materialized (
    select distinct subscriber from subscription
  ),
  edge as (
    select source, outcome, count from clock, edge_counts where day = (clock.now at time zone 'utc')::date
  ),
  -- One that has not been taken up for an hour was turned off.
  reconciliation as (
    select reconciliations.*, now from clock, reconciliations where next_at > clock.now - interval '1 hour'
  ),
  silence as (
    select subscriber, opened_at from component full join outages using (subscriber)
  ),
  snapshot as materialized (
    select (${OLDEST_SNAPSHOT}) as oldest
  ),
  times as (
    select subscriber, delivered_in, delivered_ms, handled_in, handled_ms from subscriber_health
    where period = 'total' and starts_at = 'epoch' and topic = ''
  )
  select json_build_object(
    'times', (select coalesce(json_agg(times), '[]') from times),
    'rows', json_build_object(${Object.entries(METRICS)
      .flatMap(([name, [, of]]) =>
        typeof of === 'string'
          ? [`'${name}', (select coalesce(json_agg(sample), '[]') from (${of}) as sample)`]
          : [],
      )
      .join(', ')})
  ) as found`;
