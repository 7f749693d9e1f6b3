import { Counter, Gauge, Registry } from 'prom-client';

import { catalog } from '../../catalog/catalog.ts';
import type { Topic } from '../../catalog/topic.ts';
import type { OperatorSettings } from '../../config.ts';
import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { SECOND } from '../../time.ts';
import type { Bus } from '../access/route.ts';
import { authenticate, requireScope } from '../access/authenticate.ts';
import { readOverview } from '../overview/read.ts';
import type { Overview } from '../overview/read.ts';
import type { Counts } from '../shapes.ts';

/**
 * Answers with the bus's metrics, for operators' tokens that may read.
 *
 * @throws Problem 401, 403 or 503 as `authenticate` and `requireScope` do.
 */
export async function metricsFor(
  request: Request,
  settings: OperatorSettings,
  { database, subscribers }: Pick<Bus, 'database' | 'subscribers'>,
): Promise<Response> {
  requireScope(await authenticate(request, settings), 'event-bus:read');
  const text = await readMetrics(await database(), subscribers());
  return new Response(text, { headers: { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE } });
}

/**
 * Reads how much is where and what waits for what, in Prometheus's text format 0.0.4.
 *
 * Labels are the catalog's names and our own words, nothing that a caller chooses. Two statements at once, whose cost
 * does not grow with the number of deliveries. The counters are the database's, so that all instances tell the same.
 * Those of deliveries never go down; that of refused webhooks starts again at midnight: to Prometheus that is a restart.
 *
 * @param now overrides the database's clock in tests.
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
 */
export async function readMetrics(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
): Promise<string> {
  const [overview, others] = await Promise.all([readOverview(db, attached, now), readOthers(db, now)]);
  // One of its own for each answer: it holds what was read now and nothing from before.
  const registry = new Registry();
  addRelay(registry, overview);
  addTopics(registry, overview);
  addSubscriptions(registry, overview, others);
  addOutcomes(registry, overview, others);
  addRejections(registry, others);
  addSetAside(registry, others);
  return await registry.metrics();
}

function addRelay(registry: Registry, { relay, generatedAt }: Overview): void {
  const { lastPassAt, lagSeconds } = relay;
  const sinceMs = lastPassAt === null ? Infinity : Date.parse(generatedAt) - Date.parse(lastPassAt);
  gauge(registry, 'relay_last_pass_age_seconds', 'Time since a relay last looked for work; +Inf: never.').set(
    sinceMs / SECOND,
  );
  gauge(registry, 'relay_lag_seconds', 'Age of the oldest delivery that is due and attached.').set(
    lagSeconds,
  );
}

function addTopics(registry: Registry, { topics, generatedAt }: Overview): void {
  const events = gauge(
    registry,
    'events',
    'Events that are not delivered to all, by the worst state of their deliveries.',
    ['topic', 'state'],
  );
  const awaiting = gauge(registry, 'events_awaiting_fan_out', 'Events that have no deliveries yet.', [
    'topic',
  ]);
  const held = gauge(
    registry,
    'topic_held_back_seconds',
    'For how long a producer’s open transaction has held back the topic’s events.',
    ['topic'],
  );
  for (const { topic, awaitingFanOut, heldBackSince, ...counts } of topics) {
    setStates(events, { topic }, counts);
    awaiting.set({ topic }, awaitingFanOut);
    const heldMs = heldBackSince === null ? 0 : Date.parse(generatedAt) - Date.parse(heldBackSince);
    held.set({ topic }, heldMs / SECOND);
  }
}

const SUBSCRIPTION_LABELS = ['topic', 'subscriber'];

function addSubscriptions(registry: Registry, { topics }: Overview, { lanes }: Others): void {
  const deliveries = gauge(registry, 'deliveries', 'Deliveries that are not delivered, by state.', [
    ...SUBSCRIPTION_LABELS,
    'state',
  ]);
  const due = gauge(
    registry,
    'oldest_due_age_seconds',
    'Age of the oldest delivery that could be handed over now; 0: none could.',
    SUBSCRIPTION_LABELS,
  );
  const waiting = gauge(
    registry,
    'lanes_blocked',
    `Lanes whose first delivery waits for its next attempt, and all others behind it; counted up to ${LANES}.`,
    SUBSCRIPTION_LABELS,
  );
  const unattached = gauge(
    registry,
    'subscription_unattached',
    '1: the subscriber has neither a handler nor an endpoint for the topic, and its deliveries wait.',
    SUBSCRIPTION_LABELS,
  );
  const paused = gauge(
    registry,
    'subscription_paused',
    '1: an operator has paused the subscriber here.',
    SUBSCRIPTION_LABELS,
  );
  const blocked = new Map(lanes.map((lane) => [`${lane.topic} ${lane.subscriber}`, lane.blocked]));
  for (const { topic, subscribers } of topics) {
    for (const row of subscribers) {
      const subscription = { topic, subscriber: row.subscriber };
      setStates(deliveries, subscription, row);
      due.set(subscription, row.oldestDueAgeSeconds ?? 0);
      waiting.set(subscription, blocked.get(`${topic} ${row.subscriber}`) ?? 0);
      unattached.set(subscription, row.attached ? 0 : 1);
      paused.set(subscription, row.paused ? 1 : 0);
    }
  }
}

/** A subscription without any is there with 0: of a series that begins later `increase` would miss the first. */
function addOutcomes(registry: Registry, { topics }: Overview, { outcomes }: Others): void {
  const delivered = counter(
    registry,
    'deliveries_delivered_total',
    'Deliveries delivered; one that was replayed counts again.',
    SUBSCRIPTION_LABELS,
  );
  const failed = counter(
    registry,
    'attempts_failed_total',
    'Attempts that failed, also those that were the last of their delivery.',
    SUBSCRIPTION_LABELS,
  );
  const died = counter(
    registry,
    'deliveries_dead_lettered_total',
    'Deliveries given up, also those that were replayed since.',
    SUBSCRIPTION_LABELS,
  );
  const known = new Map(outcomes.map((row) => [`${row.topic} ${row.subscriber}`, row]));
  for (const { topic, subscribers } of topics) {
    for (const { subscriber } of subscribers) {
      const counts = known.get(`${topic} ${subscriber}`);
      delivered.inc({ topic, subscriber }, counts?.delivered ?? 0);
      failed.inc({ topic, subscriber }, counts?.failed ?? 0);
      died.inc({ topic, subscriber }, counts?.dead_lettered ?? 0);
    }
  }
}

function addRejections(registry: Registry, { rejections }: Others): void {
  const refused = counter(
    registry,
    'webhooks_rejected_total',
    'Webhooks refused since midnight UTC, when the count starts again.',
    ['provider', 'reason'],
  );
  for (const { provider, reason, count } of rejections) refused.inc({ provider, reason }, count);
}

/** Both states of both providers, also with 0: an alert on what is not there says nothing. */
function addSetAside(registry: Registry, { setAside }: Others): void {
  const webhooks = gauge(
    registry,
    'webhooks_set_aside',
    'Payment webhooks whose intent nobody has recorded: waiting, or unclaimed after 72 hours.',
    ['provider', 'state'],
  );
  for (const provider of ['cardpayments', 'walletpayments']) {
    const counts = setAside.find((row) => row.provider === provider);
    webhooks.set({ provider, state: 'waiting' }, counts?.waiting ?? 0);
    webhooks.set({ provider, state: 'unclaimed' }, counts?.unclaimed ?? 0);
  }
}

function setStates(
  of: Gauge,
  labels: Readonly<Record<string, string>>,
  { pending, failing, deadLettered }: Counts,
): void {
  of.set({ ...labels, state: 'pending' }, pending);
  of.set({ ...labels, state: 'failing' }, failing);
  of.set({ ...labels, state: 'dead_lettered' }, deadLettered);
}

function gauge(registry: Registry, name: string, help: string, labelNames: readonly string[] = []): Gauge {
  return new Gauge({ name: `postbud_${name}`, help, labelNames: [...labelNames], registers: [registry] });
}

function counter(registry: Registry, name: string, help: string, labelNames: readonly string[]): Counter {
  return new Counter({ name: `postbud_${name}`, help, labelNames: [...labelNames], registers: [registry] });
}

/** What the overview does not tell. */
interface Others {
  readonly lanes: readonly {
    readonly topic: string;
    readonly subscriber: string;
    readonly blocked: number;
  }[];
  readonly outcomes: readonly {
    readonly topic: string;
    readonly subscriber: string;
    readonly delivered: number;
    readonly failed: number;
    readonly dead_lettered: number;
  }[];
  readonly rejections: readonly {
    readonly provider: string;
    readonly reason: string;
    readonly count: number;
  }[];
  readonly setAside: readonly {
    readonly provider: string;
    readonly waiting: number;
    readonly unclaimed: number;
  }[];
}

async function readOthers(db: Database, now: Date | undefined): Promise<Others> {
  const [row] = await run<{ found: Others }>(driverOf(db), {
    text: OTHERS,
    values: [SUBSCRIPTIONS, now?.toISOString() ?? null],
  });
  return row!.found;
}

const SUBSCRIPTIONS = JSON.stringify(
  Object.entries<Topic>(catalog).flatMap(([topic, { subscribers }]) =>
    subscribers.map((subscriber) => ({ topic, subscriber })),
  ),
);

/** Lanes of one subscription that are counted at most: more of them say the same. */
const LANES = 100;

// A lane that waits is due later, and in nobody's hands. Asked for by rows, in the order of the index: of conditions on
// each column the planner makes a scan of the whole table, once for every subscription, when it takes them for many.
const OTHERS = `
  with clock as materialized (
    select coalesce($2::text::timestamptz, clock_timestamp()) as now
  ),
  lane as (
    select topic, subscriber, (
      select count(*) from (
        select from lanes
        where (lanes.topic, lanes.subscriber, due_at) > (subscription.topic, subscription.subscriber, clock.now)
          and (lanes.topic, lanes.subscriber, due_at) <= (subscription.topic, subscription.subscriber, 'infinity')
          and due_at is not null and lease_token is null
        order by lanes.topic, lanes.subscriber, due_at limit ${LANES}
      ) as waiting
    ) as blocked
    from clock, jsonb_to_recordset($1::text::jsonb) as subscription(topic text, subscriber text)
  ),
  outcome as (
    select topic, subscriber, sum(delivered_total) as delivered, sum(failed_total) as failed,
      sum(dead_lettered_total) as dead_lettered
    from backlog where subscriber <> '' group by topic, subscriber
  ),
  rejection as (
    select provider, reason, count from clock, webhook_rejections
    where day = (clock.now at time zone 'utc')::date
  ),
  set_aside as (
    select provider, count(*) filter (where unclaimed_at is null) as waiting, count(unclaimed_at) as unclaimed
    from webhooks_set_aside group by provider
  )
  select json_build_object(
    'lanes', (select coalesce(json_agg(lane), '[]') from lane where blocked > 0),
    'outcomes', (select coalesce(json_agg(outcome), '[]') from outcome),
    'rejections', (select coalesce(json_agg(rejection), '[]') from rejection),
    'setAside', (select coalesce(json_agg(set_aside), '[]') from set_aside)
  ) as found`;
