import { Counter, Gauge, Registry } from 'prom-client';

import { subscriberNames } from '../../bus/catalog/catalog.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { LANES_COUNTED } from '../../components/incidents/halts.ts';
import type { OperatorSettings } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { SECOND } from '../../platform/time.ts';
import { authenticate, requireScope } from '../access/authenticate.ts';
import type { Bus } from '../kit/route.ts';
import type { Counts } from '../kit/shapes.ts';
import { readOverview } from '../overview/read.ts';
import type { BusCounts } from '../overview/read.ts';
import { findOthers } from './found.ts';
import type { Others } from './found.ts';
import { timesText } from './times.ts';

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
  return new Response(text, { headers: { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE } });
}

/**
 * Writes the bus's metrics in Prometheus's text format 0.0.4.
 *
 * Labels are names of the catalog and our own words, never a caller's text. Two concurrent statements, whose cost does
 * not grow with the number of deliveries. All instances report the same numbers, since they are those of the database.
 * Counters of deliveries never decrease. Those of refused webhooks, chat and mails restart at midnight, which Prometheus handles
 * like a restart.
 *
 * @param now overrides the database's clock in tests.
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
 */
export async function readMetrics(
  db: Database,
  attached: readonly AttachedSubscriber[],
  now?: Date,
): Promise<string> {
  const [overview, others] = await Promise.all([readOverview(db, attached, now), findOthers(db, now)]);
  // A new registry for each answer, so that it holds no older values.
  const registry = new Registry();
  addRelay(registry, overview);
  addTopics(registry, overview);
  addSubscriptions(registry, overview, others);
  addOutcomes(registry, overview, others);
  addRejections(registry, others);
  addEdge(registry, others);
  addSetAside(registry, others);
  addReconciliations(registry, others);
  addBacklogAges(registry, others);
  addOutages(registry, others);
  addOldestSnapshot(registry, others);
  return (await registry.metrics()) + timesText(others.times);
}

function addRelay(registry: Registry, { relay, generatedAt }: BusCounts): void {
  const { lastPassAt, lagSeconds } = relay;
  const sinceMs = lastPassAt === null ? Infinity : Date.parse(generatedAt) - Date.parse(lastPassAt);
  gauge(
    registry,
    'relay_last_pass_age_seconds',
    'Time since a relay last claimed; +Inf if none ever did.',
  ).set(sinceMs / SECOND);
  gauge(registry, 'relay_lag_seconds', 'Age of the oldest due delivery of an attached subscriber.').set(
    lagSeconds,
  );
}

function addTopics(registry: Registry, { topics, generatedAt }: BusCounts): void {
  const events = gauge(
    registry,
    'events',
    'Events not yet delivered to every subscriber, by the worst state of their deliveries.',
    ['topic', 'state'],
  );
  const awaiting = gauge(
    registry,
    'events_awaiting_place',
    'Events that wait for their places in the order.',
    ['topic'],
  );
  const held = gauge(
    registry,
    'topic_held_back_seconds',
    'How long a producer’s open transaction has held back the topic’s events.',
    ['topic'],
  );
  for (const { topic, awaitingPlace, heldBackSince, ...counts } of topics) {
    setStates(events, { topic }, counts);
    awaiting.set({ topic }, awaitingPlace);
    const heldMs = heldBackSince === null ? 0 : Date.parse(generatedAt) - Date.parse(heldBackSince);
    held.set({ topic }, heldMs / SECOND);
  }
}

const SUBSCRIPTION_LABELS = ['topic', 'subscriber'];

function addSubscriptions(registry: Registry, { topics }: BusCounts, { lanes }: Others): void {
  const deliveries = gauge(registry, 'deliveries', 'Unfinished deliveries and dead letters, by state.', [
    ...SUBSCRIPTION_LABELS,
    'state',
  ]);
  const due = gauge(
    registry,
    'oldest_due_age_seconds',
    'Age of the oldest due delivery; 0 if none is due.',
    SUBSCRIPTION_LABELS,
  );
  const waiting = gauge(
    registry,
    'lanes_blocked',
    `Lanes whose first delivery waits for its next attempt, and all others behind it; counted up to ${LANES_COUNTED}.`,
    SUBSCRIPTION_LABELS,
  );
  const halted = gauge(
    registry,
    'lanes_halted',
    'Lanes that wait until a dead letter is replayed or dismissed.',
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
      halted.set(subscription, row.haltedLanes);
      unattached.set(subscription, row.attached ? 0 : 1);
      paused.set(subscription, row.paused ? 1 : 0);
    }
  }
}

/** Every subscription is reported, with 0 if need be: `increase` misses the first value of a series that starts later. */
function addOutcomes(registry: Registry, { topics }: BusCounts, { outcomes }: Others): void {
  const delivered = counter(
    registry,
    'deliveries_delivered_total',
    'Delivered deliveries; a replayed one counts again.',
    SUBSCRIPTION_LABELS,
  );
  const failed = counter(
    registry,
    'attempts_failed_total',
    'Failed attempts, including the last ones before a dead letter.',
    SUBSCRIPTION_LABELS,
  );
  const died = counter(
    registry,
    'deliveries_dead_lettered_total',
    'Dead-lettered deliveries, including those replayed since.',
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
    'Refused webhooks since midnight UTC, when the count restarts.',
    ['provider', 'reason'],
  );
  for (const { provider, reason, count } of rejections) refused.inc({ provider, reason }, count);
}

const CHAT_OUTCOMES = [
  'answered',
  'cut_off',
  'refused',
  'aborted',
  'provider_unavailable',
  'provider_rejected',
  'provider_timeout',
  'provider_unreachable',
  'provider_bad_response',
];
const MAIL_OUTCOMES = ['mailed', 'email_failed', 'email_timeout', 'email_unreachable'];

const VERIFICATIONS = ['verified', 'verification_required', 'verification_failed', 'verification_away'];

/** Every outcome is reported, with 0 if need be: `increase` misses the first value of a series that starts later. */
function addEdge(registry: Registry, { edge }: Others): void {
  const countOf = (source: string, outcome: string) =>
    edge.find((row) => row.source === source && row.outcome === outcome)?.count ?? 0;
  const calls = counter(
    registry,
    'chat_calls_total',
    'Calls of the language model since midnight UTC, when the count restarts, by what became of them.',
    ['outcome'],
  );
  for (const outcome of CHAT_OUTCOMES) calls.inc({ outcome }, countOf('chat', outcome));
  const mails = counter(
    registry,
    'inquiry_mails_total',
    'Mails of inquiries since midnight UTC, when the count restarts, by what became of them at first.',
    ['outcome'],
  );
  for (const outcome of MAIL_OUTCOMES) mails.inc({ outcome }, countOf('inquiry', outcome));
  const verifications = counter(
    registry,
    'verifications_total',
    'Calls above a rate since midnight UTC, when the count restarts, by what Turnstile said; away: it said nothing, and the call passed.',
    ['outcome'],
  );
  for (const outcome of VERIFICATIONS)
    verifications.inc({ outcome }, countOf('chat', outcome) + countOf('inquiry', outcome));
  const reached = gauge(
    registry,
    'budget_reached',
    '1: so many per cent of the calls that all visitors have today are used.',
    ['budget', 'percent'],
  );
  for (const budget of ['chat', 'inquiry'])
    for (const percent of [80, 100])
      reached.set({ budget, percent }, countOf(budget, `budget_${percent}`) > 0 ? 1 : 0);
}

/** Both states of both providers are reported, with 0 if need be: alerts never fire on missing series. */
function addSetAside(registry: Registry, { setAside }: Others): void {
  const webhooks = gauge(
    registry,
    'webhooks_set_aside',
    'Payment webhooks without a recorded intent: waiting, or unclaimed after 72 hours.',
    ['provider', 'state'],
  );
  for (const provider of ['cardpayments', 'walletpayments']) {
    const counts = setAside.find((row) => row.provider === provider);
    webhooks.set({ provider, state: 'waiting' }, counts?.waiting ?? 0);
    webhooks.set({ provider, state: 'unclaimed' }, counts?.unclaimed ?? 0);
  }
}

/** Providers that are asked for webhooks that never came. */
function addReconciliations(registry: Registry, { reconciliations }: Others): void {
  const labels = ['provider'];
  const found = counter(
    registry,
    'webhooks_reconciled_total',
    'Webhooks that had not come and were found in the provider’s API.',
    labels,
  );
  const age = gauge(
    registry,
    'reconciliation_age_seconds',
    'Time since the provider was last asked for all that was due.',
    labels,
  );
  const failures = gauge(
    registry,
    'reconciliation_failures',
    'How often asking the provider failed in a row; 0: the last time it answered.',
    labels,
  );
  for (const { provider, ...one } of reconciliations) {
    found.inc({ provider }, one.found);
    age.set({ provider }, one.ms / SECOND);
    failures.set({ provider }, one.failures);
  }
}

/** Every subscriber is reported, with 0 if need be. */
function addOutages(registry: Registry, { outages }: Others): void {
  const outage = gauge(
    registry,
    'subscriber_outage',
    '1: the subscriber does not answer. Its deliveries wait, and one at a time probes.',
    ['subscriber'],
  );
  const since = gauge(
    registry,
    'subscriber_outage_seconds',
    'How long the subscriber has not answered; 0 without an outage.',
    ['subscriber'],
  );
  const probes = gauge(
    registry,
    'subscriber_outage_probes',
    'Probes without an answer in this outage; 0 without one.',
    ['subscriber'],
  );
  const known = new Map(outages.map((one) => [one.subscriber, one]));
  for (const subscriber of new Set([...subscriberNames(), ...known.keys()])) {
    const found = known.get(subscriber);
    outage.set({ subscriber }, found ? 1 : 0);
    since.set({ subscriber }, (found?.ms ?? 0) / SECOND);
    probes.set({ subscriber }, found?.probes ?? 0);
  }
}

function addBacklogAges(registry: Registry, { backlogAges }: Others): void {
  const ages = gauge(
    registry,
    'backlog_age_seconds',
    'Age of the oldest unfinished delivery, also while it waits for a retry: the greatest of this hour’s samples.',
    ['subscriber'],
  );
  const known = new Map(backlogAges.map(({ subscriber, ms }) => [subscriber, ms]));
  for (const subscriber of subscriberNames()) ages.set({ subscriber }, (known.get(subscriber) ?? 0) / SECOND);
}

function addOldestSnapshot(registry: Registry, { oldestSnapshot: oldest }: Others): void {
  gauge(
    registry,
    'oldest_snapshot_age_seconds',
    'How long the oldest snapshot has been held, for which Postgres keeps dead rows; 0 without one, NaN if it is not known.',
  ).set(oldest === null ? 0 : (oldest.seconds ?? NaN));
  gauge(
    registry,
    'oldest_snapshot_age_transactions',
    'Transactions that began since the oldest snapshot, where it is not known how long it has been held; else 0.',
  ).set(oldest?.seconds === null ? oldest.transactions : 0);
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
