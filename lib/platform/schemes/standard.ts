import type { KeyObject } from 'node:crypto';
import { eventTypeFrom } from './event.ts';
import {
  type Claim,
  parseUnixSeconds,
  Refusal,
  requireHeader,
  type SignedRequest,
  type WebhookScheme,
} from './scheme.ts';
import { base64Key, ed25519Key } from './secret.ts';
import { MAX_CANDIDATES, parseSignature, type Signature } from './signature.ts';

/**
 * Standard Webhooks 1.0.0, also under Svix's header names. The event id is signed.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export const standard: WebhookScheme = {
  keyOf,
  readingsOf,
  claimOf,
  eventOf: ({ headers, fields }) => {
    const id = headers.get(`${brandOf(headers)}-id`) ?? '';
    return { eventId: EVENT_ID.test(id) ? id : null, eventType: eventTypeFrom(fields.type) };
  },
};

/**
 * The specification asks senders for 24 to 64 bytes, but Svix's own documented example has 18. A key below 16 (128
 * bits) is a mistake.
 */
const MIN_KEY_BYTES = 16;

/**
 * The specification forbids full stops in ids: otherwise id `evil` with body `<time>.<body>` could pass as id
 * `evil.<time>`.
 */
const EVENT_ID = /^[\w-]{1,255}$/;

const BRANDS = ['webhook', 'svix'] as const;
type Brand = (typeof BRANDS)[number];

const PARTS = ['id', 'timestamp', 'signature'] as const;

function keyOf(secret: string): KeyObject | null {
  if (secret.startsWith('whpk_')) return ed25519Key(secret.slice('whpk_'.length));
  return base64Key(secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : secret, MIN_KEY_BYTES);
}

function claimOf({ headers, body }: SignedRequest): Claim {
  const brand = brandOf(headers);
  const id = requireHeader(headers, `${brand}-id`);
  const timestamp = requireHeader(headers, `${brand}-timestamp`);
  const signatures = requireHeader(headers, `${brand}-signature`);
  // Any other unusable id is the provider's own mistake, because it signed the id: `eventOf` returns null.
  if (id.includes('.')) throw new Refusal('malformed_header');
  return {
    timestamp: parseUnixSeconds(timestamp),
    message: Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]),
    signatures: parseSignatures(signatures),
  };
}

/**
 * Svix sends its own header names, or the standard's to customers who ask, and a gateway on the way may add the other
 * set. Svix's SDK then looks only at its own names, that of Standard Webhooks only at the standard's: what either of
 * them takes is taken here. The two sets are never mixed.
 */
function readingsOf(request: SignedRequest): readonly SignedRequest[] {
  if (!BRANDS.every((brand) => isWhole(request.headers, brand))) return [request];
  return BRANDS.map((ignored) => {
    const headers = new Headers(request.headers);
    for (const part of PARTS) headers.delete(`${ignored}-${part}`);
    return { ...request, headers };
  });
}

/** The first complete set: a gateway may also have added a `webhook-id` alone. */
function brandOf(headers: Headers): Brand {
  return BRANDS.find((brand) => isWhole(headers, brand)) ?? 'webhook';
}

function isWhole(headers: Headers, brand: Brand): boolean {
  return PARTS.every((part) => headers.get(`${brand}-${part}`));
}

/** Reads `v1,<base64> v1a,<base64> …`. Unknown versions are skipped, as the specification asks. */
function parseSignatures(header: string): Signature[] {
  const candidates = header.split(' ');
  const wasSentTwice = header.includes(', ');
  if (wasSentTwice || candidates.length > MAX_CANDIDATES) throw new Refusal('malformed_header');
  return candidates.flatMap((candidate) => parseCandidate(candidate) ?? []);
}

function parseCandidate(candidate: string): Signature | null {
  if (candidate.startsWith('v1,'))
    return parseSignature('hmac-sha256', 'base64', candidate.slice('v1,'.length));
  if (candidate.startsWith('v1a,'))
    return parseSignature('ed25519', 'base64', candidate.slice('v1a,'.length));
  return null;
}
