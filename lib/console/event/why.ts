import { catalog, isTopicName, subscribersOf } from '../../bus/catalog/catalog.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { attemptsOf, lastErrorOf, HALTS } from '../deliveries/attempts.ts';
import { silenceWords } from '../kit/pauses.ts';
import { quantity, shortId, timeText, capitalize, joinNames, truncate } from '../kit/words.ts';
import { limitOf, STALLED_AFTER_MS } from '../kit/limits.ts';
import type { FoundLimit } from '../kit/limits.ts';
import { namesIn, operatorText } from '../kit/document.ts';
import { endsOf } from '../kit/prepared.ts';
import { saidIn } from '../../platform/said.ts';
import { visible } from '../../platform/visible.ts';
import type { AttemptError } from '../deliveries/attempts.ts';
import type { OperatorNames } from '../kit/document.ts';
import { statusOf } from '../kit/states.ts';
import type {
  Found,
  FoundAhead,
  FoundDelivery,
  FoundPlace,
  FoundTries,
  OpenProducer,
  OperatorsWord,
} from './found.ts';
import type { Why, EventDelivery } from './view.ts';

/** The circumstances that all deliveries of an event share. */
export interface Circumstances {
  readonly found: Found;
  /** The subscribers of this process. */
  readonly attached: readonly AttachedSubscriber[];
  /** `topic subscriber` of each subscription that a relay here would hand over. */
  readonly handled: ReadonlySet<string>;
  /** Those of them that do not wait while their subscriber does not answer. */
  readonly heedless: ReadonlySet<string>;
}

/**
 * Says why a subscriber does not have the event yet. Several reasons may hold at once; the widest comes first, since the
 * others matter only when it is gone:
 *
 * 1. it has not happened: `timer`; nothing moves: `relay_stopped`
 * 2. the event: `producer_open`, else `not_fanned_out`
 * 3. the subscription: `not_in_catalog`, else `unattached`; then `paused`; then `outage`
 * 4. the lane: `backfill`, else `halted`, else `behind`
 * 5. the delivery: `leased`, else `newer_version`, else `backoff`, else `rate_limited`, else `due`
 *
 * A lease that has not run out proves that some relay hands the lane over, also one of another release. So under a lease
 * this release's own catalog and handlers are no reason.
 *
 * @param delivery null while the event awaits its place.
 */
export function whyOf(subscriber: string, delivery: FoundDelivery | null, circumstances: Circumstances): Why {
  const { found } = circumstances;
  const isHeld = isLeased(delivery?.place?.leasedUntil ?? null, found.now);
  const down = outageOf(subscriber, circumstances);
  const reason =
    notDue(found) ??
    stopped(found) ??
    (delivery === null ? notPlaced(found) : null) ??
    (isHeld ? null : notHandled(subscriber, delivery, circumstances)) ??
    paused(subscriber, found) ??
    down ??
    (delivery?.place ? inLane(delivery, delivery.place, found, down !== null) : null);
  return { ...reason!, text: sentence(reason!.text) };
}

function stopped(found: Found): Why | null {
  const { now, lastPass } = found;
  if (lastPass !== null && now - lastPass <= STALLED_AFTER_MS) return null;
  const since = instantOrNull(lastPass);
  const words =
    since === null ? 'no relay has ever run on this database' : `no relay has run since ${at(since, now)}`;
  return reasonOf('relay_stopped', words, { since });
}

function notDue({ timer, now }: Found): Why | null {
  if (timer === null) return null;
  const { dueAt, setAt, isRefused } = timer;
  const words = isRefused
    ? 'it is set for later, and the catalog refuses its payload: see what is set aside'
    : `it is set for later: it happens at ${at(dueAt, now)}`;
  return reasonOf('timer', words, { since: setAt, until: dueAt, reason: isRefused ? 'refused' : null });
}

function notPlaced({ event, producers, now }: Found): Why {
  const [oldest, ...others] = producers;
  if (oldest)
    return reasonOf('producer_open', producerWords(oldest, others.length, now), { since: oldest.since });
  const since = event.createdAt;
  return reasonOf('not_fanned_out', `it awaits its place in the order since ${at(since, now)}`, { since });
}

/** Names the process of the oldest transaction, as far as Postgres tells. */
function producerWords(oldest: OpenProducer, others: number, now: number): string {
  const { applicationName, pid, clientAddress, state, since, gid, owner } = oldest;
  const more = others > 0 ? `, and ${quantity(others, 'other transaction')}` : '';
  const held = `${since === null ? '' : ` since ${at(since, now)}`}${more}`;
  if (gid !== null)
    return `the prepared transaction ${gid} of ${owner} has held its topic back${held}; end it with ${endsOf({ gid }).join(' or ')}`;
  const process = `${pid === null ? 'unknown process' : `process ${pid}`}${clientAddress === null ? '' : ` at ${clientAddress}`}`;
  const named = [applicationName, process, state].filter((fact) => fact !== null);
  return `a producer’s transaction (${named.join(', ')}) has been open${held}`;
}

function notHandled(
  subscriber: string,
  delivery: FoundDelivery | null,
  { found, handled }: Circumstances,
): Why | null {
  const { topic } = found.event;
  const since = waitsSince(found.event, delivery?.tries ?? null, found.now);
  // A relay hands the event of a smoke test to whoever is attached.
  if (topic === SMOKE_TEST.topic) return null;
  if (!subscribersOf(topic).includes(subscriber))
    return reasonOf(
      'not_in_catalog',
      'this release’s catalog does not list the subscription; it waits for a release that does',
      { since },
    );
  if (handled.has(`${topic} ${subscriber}`)) return null;
  return reasonOf('unattached', 'this deployment has no handler and no endpoint for the subscriber', {
    since,
  });
}

function paused(subscriber: string, found: Found): Why | null {
  const pause = found.pauses.find((one) => one.subscriber === subscriber);
  if (!pause) return null;
  const { subscriber: _, ...facts } = pause;
  return reasonOf(
    'paused',
    `paused by ${operatorText(pause.by, namesIn(found.names))}${sinceWords(pause, found)}`,
    facts,
  );
}

/** Since when an operator's word holds, and why, without a full stop of its own. */
function sinceWords({ since, reason }: OperatorsWord, { now }: Found): string {
  return ` since ${at(since, now)}${reason === null ? '' : `: ${withoutStop(reason)}`}`;
}

/** Says that a subscriber does not answer, where its deliveries wait for that. */
export function outageOf(subscriber: string, { found, heedless }: Circumstances): Why | null {
  const silent = found.outages.find((one) => one.subscriber === subscriber);
  const { topic } = found.event;
  if (!silent || topic === SMOKE_TEST.topic || heedless.has(`${topic} ${subscriber}`)) return null;
  const { kind, since, probes, nextProbeAt: until } = silent;
  const probed = probes === 0 ? '' : `${quantity(probes, 'probe')} without an answer, `;
  const words = `it ${silenceWords(kind)} since ${at(since, found.now)}; ${probed}next probe ${at(until, found.now)}`;
  return reasonOf('outage', words, { since, until });
}

/** @param isDown whether the subscriber does not answer. */
function inLane({ subscriber, tries }: FoundDelivery, place: FoundPlace, found: Found, isDown: boolean): Why {
  const limit = found.limits.find((one) => one.subscriber === subscriber)?.reached ?? null;
  const { first, backfill, leasedUntil } = place;
  const { event, now } = found;
  if (backfill !== null) {
    const by = operatorText(backfill.by, namesIn(found.names));
    const words = `older events come first: ${by} has been backfilling them${sinceWords(backfill, found)}`;
    return reasonOf('backfill', words, backfill);
  }
  if (first === null) return inItself(event, { ...place, tries }, limit, now);
  const { deliveryId, eventId, topic, deadLetteredAt } = first;
  const subject = subjectOf(topic, first.payload, first.version);
  // A sentence would seem to speak of one and the same event.
  const isSame = subject === subjectOf(event.topic, event.payload, event.version);
  const ahead = { deliveryId, eventId, topic, subject: isSame ? null : subject };
  const name = ahead.subject ?? shortId(eventId);
  if (deadLetteredAt !== null) {
    const lastError = lastErrorIn(first, first.tries);
    const because = lastError === null ? '' : `, because ${failedClause(lastError)}`;
    const words = `halted behind ${name}, which was dead-lettered at ${at(deadLetteredAt, now)}${because}; it goes on when dead letter ${deliveryId} is replayed or dismissed`;
    return reasonOf('halted', words, { since: deadLetteredAt, behind: { ...ahead, code: 'halted' } });
  }
  const own = inItself(first, { ...first, leasedUntil }, limit, now);
  const isSilent = isDown && own.code === 'backoff';
  const waits = isSilent ? (failedClause(lastErrorIn(first, first.tries)) ?? 'it does not answer') : own.text;
  return reasonOf('behind', `behind ${name}: ${waits}`, {
    since: waitsSince(event, tries, now),
    until: own.until,
    behind: { ...ahead, code: isSilent ? 'outage' : own.code },
  });
}

type ReadEvent = Pick<FoundAhead, 'topic' | 'payload' | 'version' | 'createdAt'>;

function lastErrorIn({ topic, payload, version }: ReadEvent, tries: FoundTries) {
  return lastErrorOf(attemptsOf(tries, personalTexts(topic, payload, version)));
}

interface Standing {
  readonly tries: FoundTries;
  readonly leasedUntil: number | null;
  readonly isInHand: boolean;
}

/** Says why the first delivery of a lane, or of a key, waits. */
function inItself(
  event: ReadEvent,
  { tries, leasedUntil, isInHand }: Standing,
  limit: FoundLimit | null,
  now: number,
): Why {
  const { topic, version } = event;
  const nextAttemptAt = tries.next_attempt_at;
  // Errors from before a replay no longer hold it.
  const lastError = tries.state === 'failing' ? lastErrorIn(event, tries) : null;
  const since = waitsSince(event, tries, now);
  const failed = lastError === null ? '' : `${failedClause(lastError)}; `;
  const due = `due since ${at(since, now)}`;
  if (isInHand) {
    const until = instantOrNull(leasedUntil);
    const ends = until === null ? '' : `, its lease ends ${at(until, now)}`;
    return reasonOf('leased', `${failed}a relay is delivering it now${ends}`, { since, until });
  }
  if (isTopicName(topic) && version > catalog[topic].version) {
    const words = `it waits for a release that reads payload version ${version}`;
    return reasonOf('newer_version', words, { since });
  }
  if (nextAttemptAt !== null && nextAttemptAt > now) {
    const until = instantOf(nextAttemptAt);
    const words = `${lastError === null ? 'it asked to wait until' : `${failed}next try`} ${at(until, now)}`;
    return reasonOf('backoff', words, { since: instantOrNull(tries.attempted_at), until });
  }
  if (limit !== null) {
    const { limit: reason, until } = limitOf(limit, now);
    const through = until === null ? '' : `; all that waits for it is through at about ${at(until, now)}`;
    const words = `${due}; the subscriber’s limit is ${reason}${through}`;
    return reasonOf('rate_limited', words, { since, until, reason });
  }
  return reasonOf('due', `${failed}${due}, the relay takes it when it next looks`, { since });
}

/** A lease that has run out is none: its relay died. */
function isLeased(leasedUntil: number | null, now: number): boolean {
  return leasedUntil !== null && leasedUntil > now;
}

/** Since it was recorded, its retry was due, or an operator replayed it. */
function waitsSince(
  { createdAt }: Pick<ReadEvent, 'createdAt'>,
  tries: FoundTries | null,
  now: number,
): string {
  const dueAt = tries?.next_attempt_at ?? 0;
  return instantOf(Math.max(Date.parse(createdAt), dueAt > now ? 0 : dueAt, tries?.replayed_at ?? 0));
}

function at(instant: string, now: number): string {
  return timeText(instant, instantOf(now));
}

/**
 * A reason of which nothing more is known than these facts.
 *
 * @param text a clause: a sentence without its capital and its full stop, in which `it` is the subscriber.
 */
function reasonOf(code: Why['code'], text: string, facts: Partial<Why>): Why {
  return {
    since: null,
    until: null,
    by: null,
    reason: null,
    pausedTopic: null,
    behind: null,
    ...facts,
    code,
    text,
  };
}

/** Makes a sentence of a clause. */
function sentence(clause: string): string {
  return `${capitalize(clause)}.`;
}

/** The clause that a sentence of ours was made of. */
function clauseOf(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1, -1);
}

/** An operator's reason, without a full stop of its own. */
function withoutStop(reason: string): string {
  return reason.replace(/\.+$/, '');
}

/** More does not fit into a sentence; the attempt shows all of it. */
const LONGEST_ERROR = 120;

/** Says how an attempt failed: `it answered 503 “the period is closed”`, `it did not answer in time`. */
function failedClause(error: AttemptError | null): string | null {
  if (error === null) return null;
  const { kind, message, answer } = error;
  // Earlier releases left out of the message what the subscriber said.
  const [, answered, inMessage = saidIn(answer)] =
    /^the subscriber (answered \d{3}[^:]*)(?:: (.*))?$/.exec(message) ?? [];
  const quoted = inMessage === null ? '' : ` “${visible(inMessage)}”`;
  if (answered !== undefined) return `it ${truncate(LONGEST_ERROR, answered)}${quoted}`;
  const words = truncate(LONGEST_ERROR, message);
  const status = statusOf(kind);
  if (status !== null) return `it answered ${status}${words === '' ? quoted : ` “${words}”`}`;
  if (/timeout/i.test(kind)) return 'it did not answer in time';
  if (kind === 'permanent') return `it rejected the event${words === '' ? '' : `: ${words}`}`;
  return `it failed with ${words === '' ? kind : `${kind}: ${words}`}`;
}

/** The instant at which it is said, and the names of operators. */
interface Told {
  readonly now: string;
  readonly names: OperatorNames;
}

/** Says where an event is: who gave it up, why it waits for the others, or to whom it is delivered. */
export function verdictOf(deliveries: readonly EventDelivery[], told: Told): string {
  if (deliveries.length === 0) return 'No subscriber is to receive it.';
  const dismissed = deliveries.filter(({ dismissedAt }) => dismissedAt !== null);
  const clauses = [
    ...deadClause(deliveries, told),
    ...waitingClauses(deliveries),
    // Its history says by whom, and why.
    ...(dismissed.length > 0 ? [`dismissed for ${namesOf(dismissed)}`] : []),
  ];
  if (clauses.length > 0) return sentence(clauses.join('; '));
  const last = deliveries
    .flatMap(({ deliveredAt }) => deliveredAt ?? [])
    .toSorted()
    .at(-1);
  const when = last && `${deliveries.length > 1 ? ', the last' : ''} at ${timeText(last, told.now)}`;
  return sentence(`delivered to ${namesOf(deliveries)}${when ?? ''}`);
}

function namesOf(deliveries: readonly { readonly subscriber: string }[]): string {
  return joinNames(deliveries.map(({ subscriber }) => subscriber));
}

function deadClause(deliveries: readonly EventDelivery[], { now, names }: Told): readonly string[] {
  const dead = deliveries.filter(({ deadLetteredAt }) => deadLetteredAt !== null);
  const [first] = dead;
  if (!first) return [];
  const { deadLetteredAt, lastError, attempts, isHalting } = first;
  const when = timeText(deadLetteredAt!, now);
  if (dead.length > 1) return [`dead-lettered for ${namesOf(dead)}, the first at ${when}`];
  const last = attempts.at(-1);
  const skipped = last?.outcome === 'skipped' && `skipped by ${operatorText(last.by, names)}`;
  const because = skipped || failedClause(lastError);
  return [
    `dead-lettered for ${namesOf(dead)} at ${when}${because === null ? '' : `: ${because}`}`,
    ...(isHalting ? [`this ${HALTS}`] : []),
  ];
}

/** A sentence with more reasons is not read to its end. */
const REASONS_IN_VERDICT = 2;

/** What an operator can end comes before what waits for a deployment. */
const FAILING: ReadonlySet<string | undefined> = new Set(['backoff', 'halted', 'outage']);

function waitingClauses(deliveries: readonly EventDelivery[]): readonly string[] {
  const waiting = deliveries.flatMap(({ subscriber, why }) => (why ? [{ subscriber, why }] : []));
  const isFailing = ({ why }: (typeof waiting)[number]) =>
    FAILING.has(why.code) || FAILING.has(why.behind?.code);
  const sorted = [...waiting.filter(isFailing), ...waiting.filter((one) => !isFailing(one))];
  const groups = new Map<string, typeof waiting>();
  for (const one of sorted) {
    // “It” is one subscriber.
    const key = one.why.code === 'backoff' ? one.subscriber : one.why.text;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  const said = [...groups.values()].slice(0, REASONS_IN_VERDICT);
  const others = [...groups.values()].slice(REASONS_IN_VERDICT).flat();
  return [
    ...said.map((group) => {
      const isAll = group.length === deliveries.length && group.length > 1;
      return `not delivered to ${isAll ? 'anyone' : namesOf(group)}: ${clauseOf(group[0]!.why.text)}`;
    }),
    ...(others.length > 0 ? [`${quantity(others.length, 'more subscriber')} not reached yet`] : []),
  ];
}
