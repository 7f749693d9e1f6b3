import { eventIdFrom, eventTypeFrom } from './event.ts';
import {
  type Claim,
  parseUnixSeconds,
  Refusal,
  requireHeader,
  type SignedRequest,
  type VerifiedRequest,
  type WebhookEvent,
  type WebhookScheme,
} from './scheme.ts';
import { textKey } from './secret.ts';
import { MAX_CANDIDATES, parseSignature } from './signature.ts';

/**
 * Stripe: `Stripe-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>…]` over `<t>.<body>`.
 *
 * @see https://docs.stripe.com/webhooks?verify=verify-manually
 */
export const stripe: WebhookScheme = {
  // Unlike Standard Webhooks, whose prefix it shares, Stripe uses the whole text as the key, `whsec_` included.
  keyOf: textKey,
  claimOf,
  eventOf: stripeEvent,
};

export function stripeEvent({ fields: { id, type } }: Pick<VerifiedRequest, 'fields'>): WebhookEvent {
  return { eventId: eventIdFrom(id), eventType: eventTypeFrom(type) };
}

function claimOf({ headers, body }: SignedRequest): Claim {
  const items = parseItems(requireHeader(headers, 'stripe-signature'));
  const [timestamp, ...furtherTimestamps] = valuesOf(items, 't');
  // Only v1 counts: v0 is Stripe's test scheme, and accepting it would let the sender downgrade.
  const candidates = valuesOf(items, 'v1');
  // With two `t`, Stripe's SDK for Node takes the last, those for Python, Ruby and PHP the first.
  const isAmbiguous = furtherTimestamps.length > 0 || candidates.length > MAX_CANDIDATES;
  if (timestamp === undefined || isAmbiguous || candidates.length === 0)
    throw new Refusal('malformed_header');
  return {
    timestamp: parseUnixSeconds(timestamp),
    message: Buffer.concat([Buffer.from(`${timestamp}.`), body]),
    signatures: candidates.flatMap((candidate) => parseSignature('hmac-sha256', 'hex', candidate) ?? []),
  };
}

type Item = readonly [key: string, value: string];

/** Reads `key=value,key=value`. White space is invalid: a header that was sent twice arrives joined with it. */
function parseItems(header: string): Item[] {
  return header.split(',').map((item) => {
    const [, key, value] = /^([^\s=]+)=(\S*)$/.exec(item) ?? [];
    if (key === undefined || value === undefined) throw new Refusal('malformed_header');
    return [key, value];
  });
}

function valuesOf(items: readonly Item[], wanted: string): string[] {
  return items.filter(([key]) => key === wanted).map(([, value]) => value);
}
