import { and, eq, isNull, sql } from 'drizzle-orm';

import { notifications as table } from '../../drizzle/schema.ts';
import { catalog } from '../bus/catalog/catalog.ts';
import type { TopicName } from '../bus/catalog/catalog.ts';
import { PermanentError } from '../bus/subscribers/outcome.ts';
import { subscriber, topicsOf } from '../bus/subscribers/subscriber.ts';
import type {
  AttachedSubscriber,
  BusEvent,
  DeliveryContext,
  TransactionalContext,
} from '../bus/subscribers/subscriber.ts';
import type { MailSettings } from '../platform/config.ts';
import type { Database } from '../platform/db/connect.ts';
import { MailNotSent, sendMail } from '../platform/mail/send-mail.ts';
import type { Mail } from '../platform/mail/send-mail.ts';
import { html } from '../platform/markup.ts';
import { SECOND } from '../platform/time.ts';

/** Time limit of each of a mail's two attempts. */
const MAIL_TIMEOUT_MS = 5 * SECOND;

/** Its address is unverified, and the inquiry itself was already mailed to the people it concerns. */
const NOT_MAILED: ReadonlySet<TopicName> = new Set(['inquiry.submitted']);

/**
 * Makes the notifications component: it records a notification for each event, and mails it where the payload names an
 * address.
 *
 * It knows a repetition by the event's id, so a retry or a replay notifies nobody twice. A mail can't be taken back: it is
 * sent once at most. Where nobody knows whether it was, the delivery becomes a dead letter that says so, and its replay
 * settles it without a mail.
 *
 * @param mailing without it no mail is sent.
 */
export function notificationsBy(mailing?: Mailing): AttachedSubscriber {
  if (!mailing) return subscriber('notifications', forAll(record), { transactional: true });
  const mail = async (event: BusEvent, context: DeliveryContext) =>
    await notify(await mailing.open(), mailing.settings, event, context);
  return subscriber('notifications', forAll(mail), { timeoutMs: 15 * SECOND });
}

interface Mailing {
  readonly settings: MailSettings;
  /** Opens the database: what is to be mailed is committed before it is. */
  readonly open: () => Promise<Database>;
}

function forAll<Handler>(handler: Handler): Readonly<Record<string, Handler>> {
  return Object.fromEntries(topicsOf('notifications').map((topic) => [topic, handler]));
}

async function record(event: BusEvent, { tx }: TransactionalContext): Promise<void> {
  await tx.insert(table).values(noticeOf(event)).onConflictDoNothing();
}

function noticeOf({ id: eventId, topic, payload, erased }: BusEvent) {
  const named = 'email' in payload && typeof payload.email === 'string' ? payload.email : null;
  return { eventId, topic, email: erased ? null : named, subject: catalog[topic].description };
}

async function notify(
  db: Database,
  settings: MailSettings,
  event: BusEvent,
  { replayed }: DeliveryContext,
): Promise<void> {
  const notice = noticeOf(event);
  const to = NOT_MAILED.has(event.topic) ? null : notice.email;
  const begun = await db
    .insert(table)
    .values({ ...notice, mailBegunAt: to === null ? null : sql`clock_timestamp()` })
    .onConflictDoNothing()
    .returning();
  if (begun.length === 0) return await requireKnown(db, event.id, replayed);
  if (to === null) return;
  try {
    await sendMail(settings, { to, ...mailOf(notice.subject, event.id) }, MAIL_TIMEOUT_MS);
  } catch (error) {
    if (!(error instanceof MailNotSent) || error.mayBeSent)
      throw new PermanentError(MAY_BE_SENT, { cause: error });
    await db.delete(table).where(and(eq(table.eventId, event.id), isNull(table.mailedAt)));
    // The provider will refuse the same mail again, so it must not hold back the notifications behind it.
    if (error.status === 400) throw new PermanentError('the mail provider refused the mail');
    throw error;
  }
  await db
    .update(table)
    .set({ mailedAt: sql`clock_timestamp()` })
    .where(eq(table.eventId, event.id));
}

const MAY_BE_SENT =
  'the mail may have been sent: the provider’s answer is unknown. Look for the event’s id, its reference, in the provider’s activity log. A replay settles this without a mail.';

/**
 * Requires that the outcome of a mail is known, or that an operator has replayed the delivery, knowing that it is not.
 *
 * @throws PermanentError
 */
async function requireKnown(db: Database, eventId: string, replayed: boolean): Promise<void> {
  const [known] = await db.select().from(table).where(eq(table.eventId, eventId));
  const isKnown = !known || known.mailBegunAt === null || known.mailedAt !== null;
  if (!isKnown && !replayed) throw new PermanentError(MAY_BE_SENT);
}

function mailOf(subject: string, reference: string): Omit<Mail, 'to'> {
  return {
    senderName: 'Postbud',
    subject,
    text: `${subject}\n\nReference: ${reference}\n`,
    html: String(
      html`<p>${subject}</p>
        <p style="color:#667">Reference: ${reference}</p>`,
    ),
    categories: ['notification'],
    reference,
  };
}
