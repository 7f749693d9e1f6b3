import { createHash } from 'node:crypto';
import { eventTypeFrom } from './event.ts';
import { Refusal, requireHeader, type Claim, type SignedRequest, type WebhookScheme } from './scheme.ts';
import { base64Key } from './secret.ts';
import { parseSignature } from './signature.ts';

/**
 * Criipto Signatures, now Idura: the base64 HMAC of the body. Neither a time nor an id is signed, so the receipt, which
 * is never purged, is the only protection against replay.
 *
 * @see https://docs.criipto.com/signatures/webhooks/
 */
export const criipto: WebhookScheme = {
  keyOf: (secret) => base64Key(secret, MIN_KEY_BYTES),
  claimOf,
  // There is no event id, so the body's hash takes its place: a retry has the same bytes. Two events with equal bodies
  // count as one.
  eventOf: ({ body, fields }) => ({
    eventId: createHash('sha256').update(body).digest('hex'),
    eventType: eventTypeFrom(fields.event),
  }),
};

/** Idura's API takes secrets of 256 to 512 bits. */
const MIN_KEY_BYTES = 32;

function claimOf({ headers, body }: SignedRequest): Claim {
  const header = requireHeader(headers, 'x-criipto-signature');
  const signature = parseSignature('hmac-sha256', 'base64', header);
  if (!signature) throw new Refusal('malformed_header');
  return { timestamp: null, message: body, signatures: [signature] };
}
