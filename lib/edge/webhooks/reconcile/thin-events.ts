import { and, eq, sql } from 'drizzle-orm';
import pLimit from 'p-limit';

import { events, webhooksSetAside } from '../../../../drizzle/schema.ts';
import { forget } from '../../../components/payments/set-aside.ts';
import { readThinEvent } from '../../../components/payments/thin-event.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { SECOND } from '../../../platform/time.ts';
import type { Webhook } from '../store.ts';
import { ProviderFailed } from './provider-api.ts';
import { readNamed } from './stripe.ts';
import type { StripeSettings } from './stripe.ts';
import { takeIn } from './take-in.ts';

/** Objects that a step reads, and requests at once. */
const OBJECTS = 20;
const AT_ONCE = 4;

/** So that the walk over undelivered events has time left, whatever becomes of these. */
const LIMIT_MS = 4 * SECOND;

/**
 * Reads the objects that thin events name, and takes in each as the webhook that would have held it: caused by the thin
 * event, and once, since its id is made of the thin event's. What cannot be read stays set aside, with the reason.
 *
 * @returns why objects were not read, null if all were; and whether more wait.
 */
export async function readThinEvents(
  db: Database,
  {
    endpoint,
    provider,
    settings,
  }: Pick<Webhook, 'endpoint' | 'provider'> & { readonly settings: StripeSettings },
  signal: AbortSignal,
): Promise<{ readonly error: string | null; readonly isMore: boolean }> {
  const { eventId, provider: sentBy, providerEventId, correlationId, reason } = webhooksSetAside;
  const body = sql<Record<string, unknown>>`${events.payload} -> 'body'`;
  const waiting = await db
    .select({ eventId, providerEventId, correlationId, body })
    .from(webhooksSetAside)
    .innerJoin(events, eq(events.id, eventId))
    .where(
      and(
        eq(sentBy, 'cardpayments'),
        eq(reason, 'unread'),
        eq(sql`coalesce(${events.payload} ->> 'endpoint', ${sentBy})`, endpoint),
      ),
    )
    // What can never be read must not keep back the others.
    .orderBy(sql`random()`)
    .limit(OBJECTS);
  const limited = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
  const limit = pLimit(AT_ONCE);
  const errors = await Promise.all(waiting.map((webhook) => limit(async () => await readOne(webhook))));
  const failed = errors.filter((error) => error !== null);
  return {
    error: failed.length === 0 ? null : `${failed.length} of ${waiting.length} objects: ${failed[0]!}`,
    isMore: failed.length === 0 && waiting.length === OBJECTS,
  };

  async function readOne(webhook: (typeof waiting)[number]): Promise<string | null> {
    try {
      const thin = readThinEvent(webhook.body)!;
      const { apiVersion, object } = await readNamed(settings, thin, limited);
      const { created, livemode } = webhook.body;
      const read = {
        eventId: `${webhook.providerEventId}:read`,
        eventType: thin.snapshotType,
        body: {
          id: webhook.providerEventId,
          object: 'event',
          type: thin.snapshotType,
          api_version: apiVersion,
          created,
          livemode,
          ...(thin.account !== null && { account: thin.account }),
          data: { object },
        },
        cause: { causationId: webhook.eventId, correlationId: webhook.correlationId },
      };
      const unusable = await takeIn(db, { endpoint, provider }, [read], () => {});
      if (unusable > 0) throw new ProviderFailed('answered what cannot be stored');
      await forget(db, webhook.eventId);
      return null;
    } catch (error) {
      if (!(error instanceof ProviderFailed)) throw error;
      const detail = `it names ${readThinEvent(webhook.body)!.path}, of which Stripe ${error.message}`;
      await db.update(webhooksSetAside).set({ detail }).where(eq(eventId, webhook.eventId));
      return error.message;
    }
  }
}
