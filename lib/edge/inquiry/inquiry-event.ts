import pTimeout from 'p-timeout';

import { cancelTimer, emit } from '../../bus/outbox/emit.ts';
import type { Transaction } from '../../bus/outbox/emit.ts';
import { InvalidConfiguration } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { handlersUntil } from '../../platform/lifetime.ts';
import { log, logError } from '../../platform/log.ts';
import { SECOND, sleep } from '../../platform/time.ts';
import type { InquiryRequest } from './inquiry-request.ts';

export interface InquiryEvent {
  readonly inquiryId: string;
  readonly body: InquiryRequest;
  /** The event's correlation id; every log line has it too. */
  readonly requestId: string;
  /** Undefined where no database is configured. */
  readonly database: (() => Promise<Database>) | undefined;
  /** Keeps the host awake until the promise settles. */
  readonly waitUntil: (work: Promise<void>) => void;
}

const TOPIC = 'inquiry.submitted';

/** Twice the life of a function: while it sends the mail, nothing releases the timer. */
const TIMER = '1m';

/** For how long the visitor waits for a slow database, before the mail and after it. */
const PATIENCE_MS = 2 * SECOND;

const PAUSE_MS = 1 * SECOND;

/**
 * Sends an inquiry's mail and records the event that it was accepted.
 *
 * A timer is set before the mail, and the event takes its place afterwards. So a process or a database that ends in between
 * leaves a timer that becomes the event. Where the mail is not accepted the timer is cancelled. A database that is away is
 * asked again until the function's life ends, and neither the mail nor the answer waits for that.
 *
 * @throws what `sendMail` throws.
 */
export async function recordMailed(event: InquiryEvent, sendMail: () => Promise<void>): Promise<void> {
  const { inquiryId, body, requestId, database, waitUntil } = event;
  if (!database) return await sendMail();
  const { name, email, organization, topic, phone, persona, source } = body;
  const payload = { inquiryId, name, email, organization, topic, phone, persona, source };
  // Makes each of these the same event, however often they are repeated.
  const options = { dedupeKey: inquiryId, correlationId: requestId };
  const commit = async (write: (tx: Transaction) => Promise<unknown>) =>
    await (await database()).transaction(write);

  const set = commit((tx) => emit(tx, TOPIC, payload, { ...options, at: TIMER, timerKey: inquiryId }));
  const isSet = await isDoneInTime(set);
  const replace = async (write: (tx: Transaction) => Promise<unknown>, failure: string) => {
    const replacing = persist(
      async () => {
        // A timer that is set late must be replaced too.
        await set.catch(() => undefined);
        await commit(write);
      },
      failure,
      { inquiryId, requestId },
    );
    waitUntil(replacing);
    if (isSet) await isDoneInTime(replacing);
  };
  const cancel = (tx: Transaction) => cancelTimer(tx, TOPIC, inquiryId);

  try {
    await sendMail();
  } catch (error) {
    await replace(cancel, 'an inquiry was not sent, but its event was not cancelled');
    throw error;
  }
  await replace(async (tx) => {
    await cancel(tx);
    await emit(tx, TOPIC, payload, options);
  }, 'an inquiry was sent but not recorded as an event');
}

async function isDoneInTime(work: Promise<unknown>): Promise<boolean> {
  const done = work.then(
    () => true,
    () => false,
  );
  return await pTimeout(done, { milliseconds: PATIENCE_MS, fallback: () => false });
}

/** Repeats until it succeeds or the function's life ends. Never rejects. */
async function persist(
  write: () => Promise<void>,
  failure: string,
  fields: Readonly<Record<string, string>>,
): Promise<void> {
  const until = handlersUntil();
  for (let attempt = 1; ; attempt += 1) {
    try {
      // Of 0 milliseconds p-timeout makes an error, and leaves the rejection of what has begun to nobody.
      return await pTimeout(write(), { milliseconds: Math.max(1, until - Date.now()) });
    } catch (error) {
      if (error instanceof InvalidConfiguration || Date.now() + PAUSE_MS > until)
        return logError(failure, error, fields);
      if (attempt === 1) log('warn', `${failure} yet`, fields);
      await sleep(PAUSE_MS);
    }
  }
}
