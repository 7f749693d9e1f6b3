import { and, eq, inArray, sql } from 'drizzle-orm';

import { events } from '../../drizzle/schema.ts';
import { cancelTimer, emit } from '../bus/outbox/emit.ts';
import { NotDelivered, PermanentError } from '../bus/subscribers/outcome.ts';
import { subscriber } from '../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent, TransactionalContext } from '../bus/subscribers/subscriber.ts';
import type { MailSettings } from '../platform/config.ts';
import type { Transaction } from '../platform/db/connect.ts';
import { run } from '../platform/db/statement.ts';
import { MailNotSent, sendMail } from '../platform/mail/send-mail.ts';
import { SECOND } from '../platform/time.ts';
import { inquiryMail } from './inquiries/inquiry-mail.ts';
import type { KeptInquiry } from './inquiries/inquiry-mail.ts';

/** Time limit of each of a mail's two attempts. */
const MAIL_TIMEOUT_MS = 5 * SECOND;

/**
 * Makes the inquiries component: it mails the inquiries whose mail was not accepted at first, in the order in which they
 * were sent, and those of the trap that an operator replays.
 *
 * What the provider has certainly not accepted waits for as long as the provider is away. What it may have accepted is
 * mailed again by the schedule of retries, since a second mail does less harm than none. A mail that it refuses for its
 * content is a dead letter.
 *
 * @param settings without them the inquiries wait.
 */
export function inquiriesBy(settings: MailSettings | undefined): AttachedSubscriber {
  const mail = async (
    event: BusEvent<'inquiry.delayed' | 'inquiry.trapped'>,
    { tx, attemptedAt }: TransactionalContext,
  ) => {
    // Nobody is to be answered any more.
    if (event.erased) return;
    if (!settings)
      throw new NotDelivered(
        'unreachable',
        'no mail is configured: set SENDGRID_API_KEY, FROM_EMAIL and ADMIN_EMAIL',
      );
    const { correlationId, id: causationId } = event;
    const options = { sentAt: attemptedAt, correlationId, causationId };
    await mailKept(tx, settings, event.payload, options).catch((error: unknown) => {
      throw failureOf(error);
    });
  };
  return subscriber(
    'inquiries',
    {
      'inquiry.delayed': mail,
      'inquiry.trapped': async (event, context) => {
        if (context.replayed) await mail(event, context);
      },
    },
    { transactional: true, sharesCommits: false, outage: 'wait', timeoutMs: 15 * SECOND },
  );
}

function failureOf(error: unknown): unknown {
  if (!(error instanceof MailNotSent) || error.mayBeSent) return error;
  // The provider will refuse the same mail again, so it must not hold back those behind it.
  if (error.status === 400 || error.status === 413) return new PermanentError(error.message);
  return new NotDelivered('unreachable', error.message);
}

interface MailKeptOptions {
  readonly sentAt: Date;
  readonly correlationId: string;
  readonly causationId?: string;
}

/**
 * Mails an inquiry that is kept, unless it was mailed. Its event `inquiry.submitted` says that it was, and is recorded in
 * the same transaction: so a retry and a second try of the visitor, which hold the same lock, send one mail.
 *
 * @returns whether it had been mailed before.
 * @throws MailNotSent also where another transaction is mailing it.
 */
export async function mailKept(
  tx: Transaction,
  settings: MailSettings,
  kept: KeptInquiry,
  { sentAt, ...origin }: MailKeptOptions,
): Promise<boolean> {
  const { inquiryId } = kept;
  const [lock] = await run<{ is_held: boolean }>(tx, { text: LOCK, values: [inquiryId] });
  if (!lock!.is_held) throw new MailNotSent('email_timeout', {});
  // In a newer snapshot than the lock's.
  const mailed = await tx
    .select({ id: events.id })
    .from(events)
    .where(isOf(inquiryId, ['inquiry.submitted']));
  if (mailed.length > 0) return true;
  // While this is open, the timer is not released.
  await cancelTimer(tx, 'inquiry.delayed', inquiryId);
  await sendMail(settings, inquiryMail(kept, sentAt), MAIL_TIMEOUT_MS);
  await recordMailed(tx, kept, origin);
  // The mail has them now.
  await tx
    .update(events)
    .set({ payload: sql`${events.payload} - '{summary,message,contextSummary}'::text[]` })
    .where(isOf(inquiryId, ['inquiry.delayed', 'inquiry.trapped']));
  return false;
}

/** First half of the key of the locks of inquiries. */
const INQUIRY_LOCKS = 0x905c;

const LOCK = `select pg_try_advisory_xact_lock(${INQUIRY_LOCKS}, hashtext($1::text)) as is_held`;

function isOf(inquiryId: string, topics: readonly string[]) {
  return and(inArray(events.topic, topics), eq(events.dedupeKey, inquiryId));
}

/** Emits that the provider has accepted an inquiry's mail, once. Its event leaves out what the visitor wrote at length. */
export async function recordMailed(
  tx: Transaction,
  { inquiryId, name, email, organization, topic, phone, persona, source }: KeptInquiry,
  origin: Omit<MailKeptOptions, 'sentAt'>,
): Promise<void> {
  const payload = { inquiryId, name, email, organization, topic, phone, persona, source };
  await emit(tx, 'inquiry.submitted', payload, { ...origin, dedupeKey: inquiryId });
}
