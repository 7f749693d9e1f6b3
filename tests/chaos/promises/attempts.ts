import { PLANNED } from '../history.ts';
import type { Call, DeliveryHistory, Reading } from '../reading.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/** After the first, second, … failed attempt: spec, rule 4. */
const WAITS_MS = [60_000, 300_000, 1_800_000, 21_600_000, 86_400_000];

/**
 * A relay's own clock runs ahead of the database's by the time that its claim took to get there. Against the waits, of
 * which the shortest is a minute, that is allowed.
 */
const CLAIM_LATENCY_MS = 1000;

/** Kinds of failures as the handlers of a run throw them. */
const THROWN = [PLANNED, 'permanent', 'not_taken'];
const DIVISION_BY_ZERO = '22012';

/** The kind of an attempt whose relay died. */
const LAPSED = 'lease_expired';

/** Promise 3. */
export function* withinAttempts(read: Reading): Generator<Violation> {
  for (const delivery of read.deliveries.values()) {
    yield* neverTooMany(delivery);
    yield* ofItsOwn(delivery);
    yield* byKilling(delivery, read);
    yield* asLongAsScheduled(delivery);
    for (const [index, call] of delivery.calls.entries())
      yield* notTooSoon(call, delivery.calls[index - 1], delivery, read);
  }
}

function* neverTooMany({ laneId, eventId, limits, calls, versions }: DeliveryHistory): Generator<Violation> {
  const about = { laneId, eventId, subscriber: limits.name };
  for (const { start } of calls) {
    if (start.attempt <= limits.maxAttempts) continue;
    const what = `${limits.name} was handed ${start.tag} as attempt ${start.attempt} of ${limits.maxAttempts}`;
    yield { rule: 'attempts', what, about, t: start.t };
  }
  for (const { attempts, at } of versions) {
    if (attempts <= limits.maxAttempts) continue;
    const what = `${attempts} attempts of ${limits.maxAttempts} were recorded`;
    yield { rule: 'attempts', what, about, t: at };
  }
}

/**
 * What a delivery failed of is what its own handler did, and nobody else's: not a neighbour's in the transaction that
 * they shared, nor one's behind it in a batch. Time limits, leases and lost connections may be those of others.
 */
function* ofItsOwn({ laneId, eventId, limits, calls, versions }: DeliveryHistory): Generator<Violation> {
  const log = versions.at(-1)!.log;
  const threw = calls.filter(({ end }) => end && end.end !== 'ok' && end.end !== 'waits').length;
  // In a batch this is the transaction of all, whoever broke it.
  const own = limits.batch ? THROWN : [...THROWN, DIVISION_BY_ZERO];
  const failed = log.filter(({ outcome, kind = '' }) => outcome === 'failed' && own.includes(kind)).length;
  if (failed <= threw) return;
  const what = `it failed ${failed} times of what ${limits.name} threw, which threw ${threw} times`;
  yield { rule: 'attempts', what, about: { laneId, eventId, subscriber: limits.name } };
}

/**
 * A handler that ends its relay's process uses up attempts as well. What it was doing is not known for certain at first:
 * once in each life of a delivery the one ahead of it takes the blame, or nobody.
 */
function* byKilling(
  { laneId, eventId, limits, calls, versions }: DeliveryHistory,
  read: Reading,
): Generator<Violation> {
  const { log, replays } = versions.at(-1)!;
  const kills = calls.filter(
    ({ start, end }) => end?.end === 'crashes' && !read.mayBeTakenBack(start),
  ).length;
  const counted = log.filter(({ kind }) => kind === LAPSED).length;
  if (kills - counted <= 1 + replays) return;
  const what = `${limits.name} ended its relay's process ${kills} times, of which ${counted} were recorded`;
  yield { rule: 'attempts', what, about: { laneId, eventId, subscriber: limits.name } };
}

/** What is stored as the time of the next attempt. */
function* asLongAsScheduled({ laneId, eventId, limits, versions }: DeliveryHistory): Generator<Violation> {
  for (const [index, version] of versions.entries()) {
    const before = versions[index - 1];
    if (!before || version.attempts !== before.attempts + 1 || version.state !== 'failing') continue;
    const waitMs = (version.nextAttemptAt ?? 0) - (version.attemptedAt ?? 0) - (version.durationMs ?? 0);
    const scheduledMs = WAITS_MS[before.attempts] ?? Infinity;
    if (waitMs + ROUNDING_MS >= scheduledMs) continue;
    const what = `after attempt ${version.attempts} it waits ${Math.round(waitMs)} ms, not ${scheduledMs}`;
    yield { rule: 'wait', what, about: { laneId, eventId, subscriber: limits.name }, t: version.at };
  }
}

/** No call before its time has come, neither by what was stored nor by what the handler asked for. */
function* notTooSoon(
  call: Call,
  previous: Call | undefined,
  { versions }: DeliveryHistory,
  read: Reading,
): Generator<Violation> {
  const { subscriber, eventId, tag, t, real } = call.start;
  const lease = read.lease(call, t);
  if (!lease || lease.isOver) return;
  const { claim } = lease;
  if (read.isDisturbed(real - (t - claim.at), real)) return;
  const known = versions.findLast(({ at }) => at <= claim.at);
  if (!known) return;
  const about = { eventId, subscriber };
  const earlyMs = (known.nextAttemptAt ?? 0) - t;
  if (earlyMs > CLAIM_LATENCY_MS) {
    const what = `${subscriber} was handed ${tag} ${Math.round(earlyMs)} ms too early`;
    yield { rule: 'wait', what, about, t };
  }
  if (!previous || read.mayBeTakenBack(previous.start)) return;
  if (previous.end?.end !== 'waits' || known.log.at(-1)?.outcome !== 'waited') return;
  const askedMs = previous.end.ms ?? 0;
  const waitedMs = t - previous.end.t;
  if (waitedMs + CLAIM_LATENCY_MS < askedMs) {
    const what = `${subscriber} asked for ${askedMs} ms and was handed ${tag} after ${Math.round(waitedMs)}`;
    yield { rule: 'wait', what, about, t };
  }
}
