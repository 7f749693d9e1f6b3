import * as z from 'zod';

import { identitySubjects } from '../../drizzle/schema.ts';
import { emit } from '../bus/outbox/emit.ts';
import { eq } from 'drizzle-orm';
import { PermanentError } from '../bus/subscribers/outcome.ts';
import { subscriber } from '../bus/subscribers/subscriber.ts';
import type { BusEvent, TransactionalContext } from '../bus/subscribers/subscriber.ts';

/** Turns identity providers' callbacks into sign-ups (for a new subject) and sign-ins. */
export const identity = subscriber(
  'identity',
  { 'webhook.identityprovider.received': handleCallback },
  { transactional: true },
);

const login = z.object({
  subject: z.string().min(1).max(255),
  // Methods come and go at providers: one that the catalog does not know is kept as it is named.
  method: z.string().min(1).max(255),
  // It does not identify the person, so an invalid one must not prevent the sign-in.
  email: z.email({ pattern: z.regexes.unicodeEmail }).max(254).optional().catch(undefined),
});

async function handleCallback(
  event: BusEvent<'webhook.identityprovider.received'>,
  { tx }: TransactionalContext,
): Promise<void> {
  // Nobody is named any more, so nobody signs in.
  if (event.erased) return;
  const { eventType, body } = event.payload;
  if (eventType !== 'login.succeeded' && body['type'] !== 'login.succeeded') return;
  const parsed = login.safeParse(body['data']);
  if (!parsed.success) throw new PermanentError(`not a login: ${z.prettifyError(parsed.error)}`);
  const { subject, method, email } = parsed.data;
  await tx.insert(identitySubjects).values({ subject, firstEventId: event.id }).onConflictDoNothing();
  const [known] = await tx.select().from(identitySubjects).where(eq(identitySubjects.subject, subject));
  const topic = known?.firstEventId === event.id ? 'user.signed_up' : 'user.signed_in';
  await emit(
    tx,
    topic,
    { subject, method, ...(email !== undefined && { email }) },
    { dedupeKey: event.id, correlationId: event.correlationId, causationId: event.id },
  );
}
