import { and, eq, inArray } from 'drizzle-orm';

import { webhookReceipts } from '../../../../drizzle/schema.ts';
import { outboxEvent } from '../../../bus/outbox/record.ts';
import type { EmitOptions } from '../../../bus/outbox/record.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { inSendSpan } from '../../../platform/telemetry/event.ts';
import { parseWebhookBody } from '../body.ts';
import { payloadOf, sha256, storeWebhook, topicOf } from '../store.ts';
import type { Webhook } from '../store.ts';

/** An event that a provider's API lists, with the id and the body that its webhook has. */
export interface FoundEvent {
  /** Null if it has no usable one. */
  readonly eventId: string | null;
  readonly eventType: string | null;
  readonly body: Readonly<Record<string, unknown>>;
  /** The event that it was read for. */
  readonly cause?: Pick<EmitOptions, 'causationId' | 'correlationId'>;
}

/**
 * Records the events whose webhook has not come, in their order, each as its webhook would have been.
 *
 * @param onFound called for each that is recorded, so that they are counted even if a later one fails.
 * @returns how many cannot be stored, as their webhooks could not.
 * @throws the error of the database at the first one that cannot be written.
 */
export async function takeIn(
  db: Database,
  from: Pick<Webhook, 'endpoint' | 'provider'>,
  events: readonly FoundEvent[],
  onFound: () => void,
): Promise<number> {
  const usable = events.flatMap((event) => {
    const webhook = webhookOf(from, event);
    return webhook ? { ...webhook, cause: event.cause } : [];
  });
  const known = await knownIds(
    db,
    from.endpoint,
    usable.map(({ eventId }) => eventId),
  );
  for (const { cause, ...webhook } of usable) {
    if (!known.has(webhook.eventId) && (await takeInOne(db, webhook, cause))) onFound();
  }
  return events.length - usable.length;
}

/** @returns null for an event that the endpoint would refuse, too. */
function webhookOf(
  { endpoint, provider }: Pick<Webhook, 'endpoint' | 'provider'>,
  { eventId, eventType, body }: FoundEvent,
): Webhook | null {
  const text = JSON.stringify(body, refusable);
  const parsed = parseWebhookBody(Buffer.from(text));
  if (!parsed.ok || eventId === null) return null;
  return { endpoint, provider, eventId, eventType, body: parsed.body, bodySha256: sha256(text) };
}

/** `JSON.stringify` would write null for a number that was changed; U+0000 is refused, as the number in a webhook is. */
function refusable(_name: string, value: unknown): unknown {
  return value === Infinity ? '\0' : value;
}

/** Finds those that have a receipt, so that what is found again and again costs one query. */
async function knownIds(
  db: Database,
  endpoint: string,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const { eventId } = webhookReceipts;
  const known = await db
    .select({ eventId })
    .from(webhookReceipts)
    .where(and(eq(webhookReceipts.provider, endpoint), inArray(eventId, [...ids])));
  return new Set(known.map((one) => one.eventId));
}

/** @returns whether it is new: its webhook may have come meanwhile. */
async function takeInOne(db: Database, webhook: Webhook, cause: FoundEvent['cause']): Promise<boolean> {
  const topic = topicOf(webhook);
  return await inSendSpan(topic, async (sent) => {
    const event = outboxEvent(topic, payloadOf(webhook), cause);
    const { isNew } = await storeWebhook(db, webhook, event, true);
    if (isNew) sent(event.id);
    return isNew;
  });
}
