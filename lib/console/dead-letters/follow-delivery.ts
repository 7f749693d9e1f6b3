import { and, eq, inArray } from 'drizzle-orm';

import { pauses } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { readDeadLetter } from '../event/delivery.ts';
import type { Attempt } from '../deliveries/attempts.ts';
import type { DeadLetter } from '../event/delivery.ts';
import type { Following } from '../kit/following.ts';
import { duration, time } from '../kit/instants.ts';
import { deadLetterPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { failureWords } from '../kit/states.ts';
import { truncate } from '../kit/words.ts';

interface OfDelivery {
  readonly deliveryId: string;
}

/** Follows a delivery that was retried, until the attempt has ended. */
export async function followRetry(
  db: Database,
  { deliveryId }: OfDelivery,
  names: OperatorNames,
): Promise<Following | null> {
  return await followAttempt(db, deliveryId, ['retried_early', 'Retried'], names);
}

/** Follows a delivery that was tried at no cost, until the attempt has ended. */
export async function followProbe(
  db: Database,
  { deliveryId }: OfDelivery,
  names: OperatorNames,
): Promise<Following | null> {
  return await followAttempt(db, deliveryId, ['probed', 'Tried'], names);
}

async function followAttempt(
  db: Database,
  deliveryId: string,
  [act, done]: readonly [act: 'retried_early' | 'probed', done: string],
  names: OperatorNames,
): Promise<Following | null> {
  const delivery = await readDeadLetter(db, deliveryId);
  const place = delivery?.attempts.findLastIndex(({ outcome }) => outcome === act) ?? -1;
  const since = delivery?.attempts[place]?.at;
  if (!delivery || since === undefined) return null;
  const later = delivery.attempts.slice(place + 1);
  const outcome = outcomeOf(delivery, later, names) ?? (await waitOutcome(db, delivery));
  const name = html`<b>${done} ${nameOf(delivery)}:</b>`;
  const now = delivery.generatedAt;
  if (outcome === null) {
    return { tone: 'wait', words: html`${name} on its way …`, isSettled: false, since, now };
  }
  return { tone: outcome.tone, words: html`${name} ${outcome.words}.`, isSettled: true, since, now };
}

/** Says that a delivery was skipped. */
export async function followSkip(db: Database, { deliveryId }: OfDelivery): Promise<Following | null> {
  const delivery = await readDeadLetter(db, deliveryId);
  const since = delivery?.attempts.findLast(({ outcome }) => outcome === 'skipped')?.at;
  if (!delivery || since === undefined || delivery.state !== 'dead_lettered') return null;
  const words = html`<b>Skipped ${nameOf(delivery)}:</b> it is a dead letter now. ${GOES_ON}`;
  return { tone: 'ok', words, isSettled: true, since, now: delivery.generatedAt };
}

/** Says that a dead letter was dismissed, and whether that ends a halt. */
export async function followDismissal(
  db: Database,
  { deliveryId, lane }: OfDelivery & { readonly lane: 'released' | null },
  names: OperatorNames,
): Promise<Following | null> {
  const delivery = await readDeadLetter(db, deliveryId);
  if (!delivery || delivery.dismissedAt === null) return null;
  const { dismissedAt: since, generatedAt: now } = delivery;
  const by = delivery.attempts.findLast((entry) => entry.outcome === 'dismissed');
  // Somebody else may have been first.
  const who =
    by !== undefined && 'by' in by && html` by ${operatorText(by.by, names)} at ${time(since, now)}`;
  const words = html`<b>Dismissed ${nameOf(delivery)}${who}:</b> it is in no count any
    more.${lane !== null && ` ${GOES_ON}`}`;
  return { tone: 'ok', words, isSettled: true, since, now };
}

const GOES_ON = 'What waited behind it follows.';

function nameOf({ deliveryId: id, topic, subscriber }: DeadLetter): Html {
  return html`<a class="mono" href="${deadLetterPath(id)}">${topic}</a> to ${subscriber}`;
}

type Outcome = Pick<Following, 'tone' | 'words'>;

/** @param attempts those since the operator acted. @returns null while there is none. */
function outcomeOf(
  { state, nextAttemptAt, generatedAt: now }: DeadLetter,
  attempts: readonly Attempt[],
  names: OperatorNames,
): Outcome | null {
  const last = attempts.findLast(({ outcome }) => !['retried_early', 'probed', 'returned'].includes(outcome));
  if (!last) return null;
  if (!('attempt' in last)) {
    const words = html`skipped by ${operatorText(last.by, names)}`;
    return last.outcome === 'skipped' ? { tone: 'dead', words } : null;
  }
  if (last.outcome === 'delivered') {
    const words = html`delivered ${time(last.at, now)} after ${duration(last.durationMs)}`;
    return { tone: 'ok', words };
  }
  const next = nextAttemptAt !== null && html`, next try ${time(nextAttemptAt, now)}`;
  if (last.isProbe) {
    const said = last.error === null ? '' : html`: ${truncate(LONGEST_ERROR, failureWords(last.error))}`;
    return { tone: 'fail', words: html`it still fails${said}; no attempt was used up${next}` };
  }
  if (last.outcome === 'waited') return { tone: 'fail', words: html`the handler asked to wait${next}` };
  const error = last.error && html`: ${truncate(LONGEST_ERROR, failureWords(last.error))}`;
  if (state === 'dead_lettered') return { tone: 'dead', words: html`failed again${error}; dead-lettered` };
  return { tone: 'fail', words: html`failed again${error}${next}` };
}

/** The delivery's own page shows the whole message. */
const LONGEST_ERROR = 120;

/** A paused subscriber's delivery is attempted when someone resumes it, and one of a silent subscriber when it answers. */
async function waitOutcome(
  db: Database,
  { topic, subscriber, generatedAt: now }: DeadLetter,
): Promise<Outcome | null> {
  const paused = and(eq(pauses.subscriber, subscriber), inArray(pauses.topic, ['', topic]));
  if ((await db.$count(pauses, paused)) > 0) {
    return { tone: 'fail', words: html`waits, because ${subscriber} is paused; resume it to deliver` };
  }
  // Another delivery may have probed in its place.
  const [silent] = await run<{ next: number }>(driverOf(db), {
    text: `select (extract(epoch from next_probe_at) * 1000)::float8 as next from outages
      where subscriber = $1::text and next_probe_at > clock_timestamp()
        and probed_at is null`,
    values: [subscriber],
  });
  if (!silent) return null;
  const next = time(instantOf(silent.next), now);
  return { tone: 'fail', words: html`waits, because ${subscriber} does not answer; next probe ${next}` };
}
