import pTimeout from 'p-timeout';

import { cancelTimer, emit } from '../../bus/outbox/emit.ts';
import { mailKept, recordMailed } from '../../components/inquiries.ts';
import type { KeptInquiry } from '../../components/inquiries/inquiry-mail.ts';
import { InvalidConfiguration } from '../../platform/config.ts';
import type { MailSettings } from '../../platform/config.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { run } from '../../platform/db/statement.ts';
import { handlersUntil } from '../../platform/lifetime.ts';
import { log, logError } from '../../platform/log.ts';
import { SECOND, sleep } from '../../platform/time.ts';
import { KeyReused } from './once.ts';

/** The database in which inquiries are kept. */
export interface Keeping {
  readonly database: () => Promise<Database>;
  /** The event's correlation id; every log line has it too. */
  readonly requestId: string;
  /** Keeps the host awake until the promise settles. */
  readonly waitUntil: (work: Promise<void>) => void;
}

interface Mailing {
  readonly settings: MailSettings;
  /** Digests of an inquiry: of its content, and of its `Idempotency-Key` if it has one. */
  readonly keys: readonly [body: string, ...idempotencyKey: string[]];
  /** Sends the mail. */
  readonly send: () => Promise<void>;
}

/** What became of a try. Without an `error` the mail was accepted. */
export interface Tried {
  readonly error?: unknown;
  /** Whether the inquiry is kept, and mailed as soon as its mail is accepted. */
  readonly isKept: boolean;
  /** Whether an earlier try kept it. */
  readonly isSecond: boolean;
  /** Whether it was mailed before this try. */
  readonly wasMailed: boolean;
}

/** Twice the life of a function: while it sends the mail, nothing releases the timer. */
const TIMER = '1m';

/** For how long the visitor waits for a slow database, before the mail and after it. */
const PATIENCE_MS = 2 * SECOND;

const PAUSE_MS = 1 * SECOND;

/**
 * Sends an inquiry's mail, and keeps the inquiry as an event until the mail is accepted.
 *
 * A timer of `inquiry.delayed` is set before the mail, and is cancelled with the commit that records `inquiry.submitted`. So
 * whatever ends in between, the provider, the process or the database, the timer becomes the event, and the bus mails it. An
 * inquiry that is kept already, because this is the visitor's second try, is mailed here, or not again.
 *
 * A database that is away is asked again until the function's life ends, and neither the mail nor the answer waits for that.
 *
 * @throws KeyReused when an inquiry with this `Idempotency-Key` and another content is kept.
 */
export async function keepUntilMailed(
  inquiry: KeptInquiry,
  mailing: Mailing,
  keeping: Keeping,
): Promise<Tried> {
  const { inquiryId } = inquiry;
  const { requestId, database, waitUntil } = keeping;
  const commit = async <Result>(write: (tx: Transaction) => Promise<Result>) =>
    await (await database()).transaction(write);

  const keep = commit(async (tx) => {
    const earlier = await earlierOf(tx, mailing.keys);
    if (earlier) return earlier;
    const payload = { ...inquiry, keys: [...mailing.keys] };
    const options = { dedupeKey: inquiryId, timerKey: inquiryId, at: TIMER, correlationId: requestId };
    await emit(tx, 'inquiry.delayed', payload, options);
    return undefined;
  }).then((earlier) => ({ earlier }));
  keep.catch((error: unknown) => logError('an inquiry could not be kept', error, { inquiryId, requestId }));
  const kept = await inTime(keep);
  if (kept?.earlier) {
    const { earlier } = kept;
    if (!earlier.is_same) throw new KeyReused();
    const options = { sentAt: new Date(), correlationId: requestId };
    const again = commit(async (tx) => await mailKept(tx, mailing.settings, earlier.inquiry, options));
    const tried = { isKept: true, isSecond: true };
    return await again.then(
      (wasMailed) => ({ ...tried, wasMailed }),
      (error: unknown) => ({ ...tried, wasMailed: false, error }),
    );
  }
  const tried = { isSecond: false, wasMailed: false };
  try {
    await mailing.send();
  } catch (error) {
    return { ...tried, error, isKept: (await inTime(keep)) !== undefined };
  }
  const recording = persist(
    async () => {
      // A slow database may have found only now that this was a second try.
      const earlier = await keep.then(
        (late) => late.earlier,
        () => undefined,
      );
      const mailed = earlier?.is_same ? earlier.inquiry : inquiry;
      await commit(async (tx) => {
        await cancelTimer(tx, 'inquiry.delayed', mailed.inquiryId);
        await recordMailed(tx, mailed, { correlationId: requestId });
      });
    },
    'an inquiry was sent but not recorded as an event',
    { inquiryId, requestId },
  );
  waitUntil(recording);
  if (kept) await inTime(recording);
  return { ...tried, isKept: false };
}

/** Keeps an inquiry that fell into the trap, for an operator to see. Never rejects. */
export async function keepTrapped(inquiry: KeptInquiry, keeping: Keeping): Promise<void> {
  const { inquiryId } = inquiry;
  const { requestId, database, waitUntil } = keeping;
  const keeps = persist(
    async () =>
      await (
        await database()
      ).transaction(async (tx) => {
        await emit(tx, 'inquiry.trapped', inquiry, { dedupeKey: inquiryId, correlationId: requestId });
      }),
    'an inquiry that fell into the trap was not kept',
    { inquiryId, requestId },
  );
  waitUntil(keeps);
  await inTime(keeps);
}

interface Earlier {
  readonly inquiry: KeptInquiry;
  /** Whether its content is the same, and not only its `Idempotency-Key`. */
  readonly is_same: boolean;
}

/** Finds the inquiry that a second try repeats: one that is still kept, or was mailed at last in the past ten minutes. */
async function earlierOf(tx: Transaction, keys: Mailing['keys']): Promise<Earlier | undefined> {
  const values = [JSON.stringify(keys), keys[0]];
  const [earlier] = await run<Earlier>(tx, { text: EARLIER, values });
  return earlier;
}

// Of an event, by the index of dedupe keys: there are few of this topic, and no other index has it.
const EARLIER = `
  with found as (
    select payload from timers where topic = 'inquiry.delayed' and erased_at is null
    union all
    select payload from events where topic = 'inquiry.delayed' and dedupe_key is not null and erased_at is null
  )
  select found.payload as inquiry, found.payload -> 'keys' ? $2::text as is_same
  from found left join events as submitted
    on submitted.topic = 'inquiry.submitted' and submitted.dedupe_key = found.payload ->> 'inquiryId'
  where found.payload -> 'keys' ?| array(select jsonb_array_elements_text($1::jsonb))
    and (submitted.id is null or submitted.created_at > clock_timestamp() - interval '10 minutes')
  order by is_same desc, found.payload ->> 'receivedAt' desc limit 1`;

/** Gives up waiting after a while. @returns undefined then, and where the work fails. */
async function inTime<Result>(work: Promise<Result>): Promise<Result | undefined> {
  const done = work.catch(() => undefined);
  return await pTimeout(done, { milliseconds: PATIENCE_MS, fallback: () => undefined });
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
