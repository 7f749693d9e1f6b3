import type { TestWebhook } from '../../../drizzle/schema.ts';
import { topics as catalogTopics, subscriberNames } from '../../bus/catalog/catalog.ts';
import { saidIn } from '../../platform/said.ts';
import { topicsOf } from '../../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { providerOf, webhookVariable } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { variableOf } from '../../platform/remote-subscribers.ts';
import { instantOf, instantOrNull, MINUTE, SECOND } from '../../platform/time.ts';
import { namedOperator } from '../kit/operator-names.ts';
import type { Bus } from '../kit/route.ts';
import { joinNames, truncate } from '../kit/words.ts';
import { STALLED_AFTER_MS } from '../overview/read.ts';
import { findDeliveries, findReceipts, findSmokeTest } from './found.ts';
import type { Found, FoundDelivery, FoundReceipt, FoundTest } from './found.ts';
import type { SmokeSubscriber, SmokeTest, SmokeWebhook } from './view.ts';

/** Nobody waits for the next attempt of a delivery that is due later. */
const SOON_MS = 30 * SECOND;

/** An answer of a component elsewhere says in its first words what is wrong. */
const ANSWER_LENGTH = 160;

/**
 * Reads what of a smoke test arrived where, and what the deployment lacks for the rest of the catalog.
 *
 * @param id null: only the deployment, without a test.
 * @returns null for a test that there is none of.
 */
export async function readSmokeTest(bus: Bus, id: string | null): Promise<SmokeTest | null> {
  const db = await bus.database();
  const handled = handledBy(bus.subscribers());
  const unattached = subscriptions().filter(({ key }) => !handled.has(key));
  const found = await findSmokeTest(db, unattached, id);
  if (id !== null && found.test === null) return null;
  const receipts = await findReceipts(db, found.test?.webhooks ?? []);
  const eventIds = receipts.flatMap(({ event_id }) => event_id ?? []);
  const deliveries = found.test === null ? [] : await findDeliveries(db, [found.test.id, ...eventIds]);
  const reading: Reading = { bus, found, handled, receipts, deliveries };
  const webhooks = bus.webhooks().map((endpoint) => webhookOf(reading, endpoint));
  const subscribers = subscriberNames().map((name) => subscriberOf(reading, name));
  return {
    generatedAt: instantOf(found.now),
    test: found.test && { ...testOf(found.test), state: stateOf(found.test, webhooks, subscribers) },
    relay: relayOf(found, bus.relays()),
    webhooks,
    subscribers: [...subscribers.filter(isAttached), ...subscribers.filter((one) => !isAttached(one))],
    topics: topicsIn(reading),
  };
}

/** Lists whom a test event can be for: whoever is attached and not paused. */
export async function recipientsOf(db: Database, attached: readonly AttachedSubscriber[]): Promise<string[]> {
  const { pauses } = await findSmokeTest(db, [], null);
  const names = [...new Set(attached.map(({ name }) => name))].toSorted();
  return names.filter((name) => !pauses.some(({ subscriber, topic }) => subscriber === name && topic === ''));
}

interface Reading {
  readonly bus: Bus;
  readonly found: Found;
  /** As `topic subscriber`. */
  readonly handled: ReadonlySet<string>;
  readonly receipts: readonly FoundReceipt[];
  readonly deliveries: readonly FoundDelivery[];
}

const isAttached = ({ state }: SmokeSubscriber) => state !== 'unattached';

function handledBy(attached: readonly AttachedSubscriber[]): ReadonlySet<string> {
  return new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
}

function subscriptions() {
  return catalogTopics().flatMap(([topic, { subscribers }]) =>
    subscribers.map((subscriber) => ({ topic, subscriber, key: `${topic} ${subscriber}` })),
  );
}

function testOf({ id, started_at, started_by, origin, webhooks }: FoundTest) {
  const sentTo = webhooks?.length === 0 ? null : origin;
  return { smokeTestId: id, startedAt: instantOf(started_at), startedBy: started_by, origin: sentTo };
}

function relayOf({ now, last_pass: lastPass }: Found, runsHere: boolean): SmokeTest['relay'] {
  const state = lastPass === null ? 'never_run' : now - lastPass > STALLED_AFTER_MS ? 'stalled' : 'running';
  return { state, runsHere, lastPassAt: instantOrNull(lastPass) };
}

/** Something that waits may still arrive; what failed will not do so soon. */
function stateOf(
  { webhooks: sent }: FoundTest,
  webhooks: readonly SmokeWebhook[],
  subscribers: readonly SmokeSubscriber[],
): 'arrived' | 'waiting' | 'failed' {
  const states = new Set<string>([...webhooks, ...subscribers].map(({ state }) => state));
  if (sent === null || states.has('waiting')) return 'waiting';
  return states.has('failed') || states.has('misconfigured') ? 'failed' : 'arrived';
}

type Arrival = SmokeWebhook['deliveries'][number]['state'];

/** How far one subscriber is with one event. */
function arrivalOf(
  { found, handled, bus }: Reading,
  delivery: FoundDelivery | undefined,
  topic: string,
  subscriber: string,
): Arrival {
  if (delivery?.state === 'delivered') return 'arrived';
  if (!handled.has(`${topic} ${subscriber}`)) return 'unattached';
  const isPaused = found.pauses.some((pause) => pause.subscriber === subscriber && isIn(pause.topic, topic));
  if (isPaused) return 'paused';
  if (delivery === undefined) return 'waiting';
  const next = delivery.next_attempt_at;
  const isSoon = delivery.message === null || (next !== null && next - found.now < SOON_MS);
  return isSoon && !delivery.is_dismissed && bus.relays() ? 'waiting' : 'failed';
}

const isIn = (pausedTopic: string, topic: string) => pausedTopic === '' || pausedTopic === topic;

function webhookOf(reading: Reading, endpoint: ReturnType<Bus['webhooks']>[number]): SmokeWebhook {
  const { bus, found, receipts } = reading;
  const { provider, endpoint: state } = endpoint;
  const sent = found.test?.webhooks?.find((one) => one.provider === provider);
  const receipt = receipts.find((one) => one.provider === provider);
  const none = { provider, scheme: endpoint.scheme, status: null, durationMs: null, receiptStored: false };
  const unsent = { ...none, eventId: null, deliveries: [], problem: null };
  const variable = webhookVariable(provider, 'SECRET');
  if (sent === undefined) {
    if (state === 'not_configured') return { ...unsent, scheme: null, state, problem: `set ${variable}` };
    if (state === 'misconfigured')
      return { ...unsent, state, problem: `${variable} or _SCHEME is wrong: see the log, or the doctor` };
    if (!bus.testWebhooks().canSign(provider))
      return {
        ...unsent,
        state: 'not_tested',
        problem: `${variable} is a public key, which signs nothing: send a test from the provider’s own pages`,
      };
    if (found.test?.webhooks === null) return { ...unsent, state: 'waiting' };
    return found.test?.origin === null
      ? { ...unsent, state: 'failed', problem: NO_ADDRESS }
      : { ...unsent, state: 'not_sent' };
  }
  const topic = `webhook.${providerOf(provider)}.received`;
  const eventId = receipt?.event_id ?? null;
  const deliveries = eventId === null ? [] : deliveriesOf(reading, topic, eventId);
  return {
    ...none,
    status: sent.status,
    durationMs: sent.durationMs,
    receiptStored: receipt !== undefined,
    eventId,
    deliveries,
    ...webhookOutcome(reading, sent, deliveries),
  };
}

const NO_ADDRESS = 'this deployment does not know where providers reach it: set PUBLIC_URL';

function deliveriesOf(reading: Reading, topic: string, eventId: string): SmokeWebhook['deliveries'] {
  const listed = catalogTopics().find(([name]) => name === topic)?.[1].subscribers ?? [];
  return listed.map((subscriber) => {
    const delivery = deliveryOf(reading, eventId, subscriber);
    const state = arrivalOf(reading, delivery, topic, subscriber);
    return { subscriber, state, afterMs: state === 'arrived' ? (delivery?.after_ms ?? null) : null };
  });
}

function deliveryOf({ deliveries }: Reading, eventId: string, subscriber: string): FoundDelivery | undefined {
  return deliveries.find((one) => one.event_id === eventId && one.subscriber === subscriber);
}

function webhookOutcome(
  reading: Reading,
  { problem }: TestWebhook,
  deliveries: SmokeWebhook['deliveries'],
): Pick<SmokeWebhook, 'state' | 'problem'> {
  if (problem !== null) return { state: 'failed', problem };
  // It is stored, and a relay elsewhere delivers it.
  if (!reading.bus.relays()) return { state: 'arrived', problem: null };
  const failed = deliveries.filter(({ state }) => state === 'failed').map(({ subscriber }) => subscriber);
  if (failed.length > 0)
    return { state: 'failed', problem: `stored, but not delivered to ${joinNames(failed)}` };
  const isWaiting = deliveries.length === 0 || deliveries.some(({ state }) => state === 'waiting');
  return { state: isWaiting ? 'waiting' : 'arrived', problem: null };
}

function subscriberOf(reading: Reading, name: string): SmokeSubscriber {
  const { bus, found, handled } = reading;
  const attached = bus.subscribers().filter((part) => part.name === name);
  const listed = topicsOf(name);
  const missing = listed.filter((topic) => !handled.has(`${topic} ${name}`));
  const waiting = found.waiting.find(({ subscriber }) => subscriber === name);
  const common = {
    subscriber: name,
    place: (attached.find(({ place }) => place === 'elsewhere') ?? attached[0])?.place ?? null,
    topics: { listed: listed.length, attached: listed.length - missing.length },
    waiting: { deliveries: waiting?.deliveries ?? 0, oldestAt: instantOrNull(waiting?.oldest ?? null) },
  };
  const delivery = found.test === null ? undefined : deliveryOf(reading, found.test.id, name);
  return {
    ...common,
    toAttach: missing.length === 0 ? null : attaching(reading, name, missing, attached.length > 0),
    afterMs: delivery?.after_ms ?? null,
    attempts: delivery?.attempts ?? 0,
    ...subscriberOutcome(reading, name, attached.length > 0, delivery),
  };
}

function subscriberOutcome(
  { bus, found }: Reading,
  name: string,
  isAttachedHere: boolean,
  delivery: FoundDelivery | undefined,
): Pick<SmokeSubscriber, 'state' | 'problem'> {
  if (!isAttachedHere) return { state: 'unattached', problem: null };
  const pause = found.pauses.find(({ subscriber, topic }) => subscriber === name && topic === '');
  if (delivery === undefined && pause)
    return { state: 'paused', problem: `paused by ${namedOperator(pause.by, pause.by_name)}` };
  const isRecipient = found.test?.subscribers.includes(name) ?? false;
  if (!isRecipient) return { state: 'not_sent', problem: bus.relays() ? null : NOT_HERE };
  if (delivery?.state === 'delivered') return { state: 'arrived', problem: null };
  if (delivery === undefined || delivery.message === null)
    return { state: isOver(found) ? 'failed' : 'waiting', problem: notYet(found) };
  const soon = delivery.next_attempt_at !== null && delivery.next_attempt_at - found.now < SOON_MS;
  return {
    state: soon && !delivery.is_dismissed ? 'waiting' : 'failed',
    problem: refusalWords(delivery),
  };
}

const NOT_HERE = 'this deployment does not relay: set RELAY=on if its database is its own';

/** Later than that nobody looks. */
const OVER_AFTER_MS = 10 * MINUTE;

function isOver({ now, test }: Found): boolean {
  return test !== null && now - test.started_at > OVER_AFTER_MS;
}

/** A relay that has looked for work since the test began will hand it over in a moment. */
function notYet({ now, last_pass: lastPass, test }: Found): string | null {
  if (lastPass === null) return 'no relay has ever run: is the cron called, and CRON_SECRET set?';
  if (test !== null && lastPass >= test.started_at) return null;
  const seconds = Math.max(0, Math.round((now - lastPass) / SECOND));
  return `the relay’s last run was ${seconds} s ago`;
}

function refusalWords({ message, answer }: FoundDelivery): string {
  // What an answer says in words is in the message.
  const isSaid = answer === null || saidIn(answer) !== null;
  const said = isSaid ? '' : `: ${truncate(ANSWER_LENGTH, answer.replaceAll(/\s+/g, ' ').trim())}`;
  return `${message ?? ''}${said}`;
}

/** Says which variables attach what is not attached, or which one is wrong. */
function attaching(
  { bus }: Reading,
  name: string,
  missing: readonly string[],
  isAttachedHere: boolean,
): string {
  const refusal = bus.refusals().find(({ subscriber }) => subscriber === name);
  if (refusal) return refusal.error.message;
  const variables = [variableOf(name, 'URL'), variableOf(name, 'SECRET')];
  if (isAttachedHere) variables.push(`${variableOf(name, 'TOPICS')} to ${missing.join(' ')}`);
  return `set ${joinNames(variables)}`;
}

function topicsIn({ found, handled }: Reading): SmokeTest['topics'] {
  const waitFor = new Map<string, number>();
  let deliverable = 0;
  for (const [topic, { subscribers }] of catalogTopics()) {
    const missing = subscribers.filter(
      (name) =>
        !handled.has(`${topic} ${name}`) ||
        found.pauses.some((pause) => pause.subscriber === name && isIn(pause.topic, topic)),
    );
    for (const name of missing) waitFor.set(name, (waitFor.get(name) ?? 0) + 1);
    if (missing.length === 0) deliverable += 1;
  }
  return {
    total: catalogTopics().length,
    deliverable,
    waitFor: Array.from(waitFor, ([subscriber, topics]) => ({ subscriber, topics })).toSorted(
      (one, other) => other.topics - one.topics || one.subscriber.localeCompare(other.subscriber),
    ),
  };
}
