import { createHash } from 'node:crypto';

import { recordingStatement } from '../../bus/outbox/record.ts';
import type { OutboxEvent } from '../../bus/outbox/record.ts';
import type { Provider } from '../../platform/config.ts';
import { noteDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';

/** A provider's event with a body that can be stored: from a verified webhook, or from the provider's API. */
export interface Webhook {
  /** The name of the endpoint that it came by: the provider's, or that of a further account of it. */
  readonly endpoint: string;
  readonly provider: Provider;
  readonly eventId: string;
  readonly eventType: string | null;
  readonly body: Record<string, unknown>;
  /** The hash of the body's bytes, in hexadecimal. */
  readonly bodySha256: string;
  /** Whether the id was not signed: then the same body under another id is a duplicate too. */
  readonly isIdUnsigned?: boolean;
}

export interface Stored {
  readonly isNew: boolean;
  /** Also true of a webhook whose event was found in the provider's API before: the API writes the same body otherwise. */
  readonly isSameBody: boolean;
}

export function topicOf({ provider }: Pick<Webhook, 'provider'>) {
  return `webhook.${provider}.received` as const;
}

/** The payload of a webhook's event. */
export function payloadOf({ eventId, eventType, endpoint, body }: Webhook) {
  return { eventId, eventType, endpoint, body };
}

export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/**
 * Records a webhook and its event, once, no matter how often and by which way it comes.
 *
 * Calls `noteDue` here and not in the caller, so that an event that is stored after a time limit of the caller is
 * delivered at once too.
 *
 * @param isReconciled whether it was found in the provider's API. If it is known already, that changes nothing; a webhook
 *   that is known is counted as a duplicate.
 */
export async function storeWebhook(
  db: Database,
  { endpoint, eventId, eventType, bodySha256, isIdUnsigned = false }: Webhook,
  event: OutboxEvent,
  isReconciled = false,
): Promise<Stored> {
  const values = [endpoint, eventId, eventType, bodySha256, isReconciled, isIdUnsigned];
  const [stored] = await run<Stored>(driverOf(db), receiveWebhook(event, values));
  if (stored?.isNew) noteDue(db);
  // Found in the provider's API and known, or sent again under another id, which was not signed.
  return stored ?? { isNew: false, isSameBody: true };
}

/** The longest wait for the same webhook in another transaction. The rest of the five seconds is for the network. */
const LOCK_LIMIT_MS = 2 * SECOND;

/**
 * Writes receipt, event and marker in one statement: one transaction, one round trip. If the same webhook is being
 * stored by another transaction, it waits for that one. If that one commits, this webhook is a duplicate; if it rolls
 * back, this webhook is the first. A duplicate only updates its receipt, and one that was found in the provider's API
 * not even that: it writes no event and does not take the emitter lock, which would hold back the topic's events.
 *
 * The statement sets the time limit for locks itself, because a pooler keeps no session settings.
 */
const receiveWebhook = recordingStatement({
  name: 'receive_webhook',
  ctes: `
    lock_limit as materialized (
      select set_config('lock_timeout', '${LOCK_LIMIT_MS}ms', true)
    ),
    -- Only where the id is not signed: then the body has a receipt too, and only a new body can be a new webhook.
    body_receipt as (
      insert into webhook_receipts as known (provider, event_id, event_type, body_sha256, received_at)
      select $1::text, 'sha256:' || $4::text, $3::text, $4::text, clock_timestamp() from lock_limit
      where $6::boolean
      on conflict (provider, event_id) do update set
        duplicates = known.duplicates + 1, last_duplicate_at = excluded.received_at
      returning duplicates = 0 as is_new
    ),
    receipt as (
      insert into webhook_receipts as known (provider, event_id, event_type, body_sha256, received_at, reconciled_at)
      select $1::text, $2::text, $3::text, $4::text, clock_timestamp(),
        case when $5::boolean then clock_timestamp() end
      from lock_limit
      where coalesce((select is_new from body_receipt), true) or exists (
        select from webhook_receipts where provider = $1::text and event_id = $2::text
      )
      on conflict (provider, event_id) do update set
        duplicates = known.duplicates + 1,
        body_mismatches = known.body_mismatches
          + (known.body_sha256 <> excluded.body_sha256 and known.reconciled_at is null)::int,
        last_duplicate_at = excluded.received_at
      where not $5::boolean
      returning duplicates = 0 as is_new, body_sha256 = $4::text or reconciled_at is not null as is_same_body
    ),`,
  parameters: 6,
  from: 'from receipt where is_new',
  select: 'select is_new as "isNew", is_same_body as "isSameBody" from receipt',
});
