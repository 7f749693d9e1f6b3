import { eq, sql } from 'drizzle-orm';

import { notifications as table } from '../../drizzle/schema.ts';
import { catalog } from '../catalog/catalog.ts';
import type { TopicName } from '../catalog/catalog.ts';
import type { MailSettings } from '../config.ts';
import { html } from '../markup.ts';
import { MailNotSent, sendMail } from '../mail/send-mail.ts';
import type { Mail } from '../mail/send-mail.ts';
import { SECOND } from '../time.ts';
import { PermanentError } from './outcome.ts';
import { subscriber, topicsOf } from './subscriber.ts';
import type { AttachedSubscriber, BusEvent, TransactionalContext } from './subscriber.ts';

/** Time limit of each of a mail's two attempts. */
const MAIL_TIMEOUT_MS = 5 * SECOND;

/** Its address is unverified, and the inquiry itself was already mailed to the people it concerns. */
const NOT_MAILED: ReadonlySet<TopicName> = new Set(['inquiry.submitted']);

/**
 * Makes the notifications component: it records a notification for each event, and mails it where the payload names an
 * address.
 *
 * @param mail without it no mail is sent.
 */
export function notificationsBy(mail: MailSettings | undefined): AttachedSubscriber {
  const record = async (event: BusEvent, { tx }: TransactionalContext) => {
    const { id: eventId, topic, payload } = event;
    const named = 'email' in payload && typeof payload.email === 'string' ? payload.email : null;
    const email = event.erased ? null : named;
    const subject = catalog[topic].description;
    const recorded = await tx
      .insert(table)
      .values({ eventId, topic, email, subject })
      .onConflictDoNothing()
      .returning();
    // Already recorded: a replay notifies nobody twice.
    if (recorded.length === 0 || !mail || email === null || NOT_MAILED.has(topic)) return;
    await send(mail, { to: email, ...mailOf(subject, eventId) });
    await tx
      .update(table)
      .set({ mailedAt: sql`clock_timestamp()` })
      .where(eq(table.eventId, eventId));
  };
  return subscriber(
    'notifications',
    Object.fromEntries(topicsOf('notifications').map((topic) => [topic, record])),
    {
      transactional: true,
      // If another delivery in its commit failed, a mail could not be rolled back with it.
      sharesCommits: mail === undefined,
      timeoutMs: 15 * SECOND,
      // A mail can't be taken back, and the table alone does not tell whether one was sent before a rollback.
      onReplay: 'refuse',
    },
  );
}

async function send(settings: MailSettings, mail: Mail): Promise<void> {
  try {
    await sendMail(settings, mail, MAIL_TIMEOUT_MS);
  } catch (error) {
    // The provider will refuse the same mail again, so it must not hold back the notifications behind it.
    if (error instanceof MailNotSent && error.status === 400)
      throw new PermanentError('the mail provider refused the mail');
    throw error;
  }
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
