import { createHash } from 'node:crypto';
import { eventIdFrom, eventTypeFrom } from './event.ts';
import {
  type Claim,
  Refusal,
  requireHeader,
  type SignedRequest,
  type VerifiedRequest,
  type WebhookEvent,
  type WebhookScheme,
} from './scheme.ts';
import { textKey } from './secret.ts';
import { parseSignature } from './signature.ts';

/**
 * Vipps MobilePay: signs method, path, query, date, host and the hash of the body.
 *
 * @see https://developer.vippsmobilepay.com/docs/APIs/webhooks-api/request-authentication/
 */
export const vipps: WebhookScheme = {
  // The secret looks like base64, but its text is the key.
  keyOf: textKey,
  claimOf,
  eventOf: ({ body, fields }) => vippsEvent({ fields, body }),
};

/** The form that signs method, path and host. Accepting the shorter legacy form would be a downgrade. */
const AUTHORIZATION = /^HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=(\S+)$/;

function claimOf({ headers, body, url }: SignedRequest): Claim {
  const date = requireHeader(headers, 'x-ms-date');
  const contentHash = requireHeader(headers, 'x-ms-content-sha256');
  const authorization = requireHeader(headers, 'authorization');
  const [, candidate] = AUTHORIZATION.exec(authorization) ?? [];
  const signature = candidate && parseSignature('hmac-sha256', 'base64', candidate);
  if (!signature) throw new Refusal('malformed_header');
  const timestamp = parseHttpDate(date);
  // The signature covers the body only through this hash. The hash is not secret, so a plain comparison reveals
  // nothing.
  if (contentHash !== createHash('sha256').update(body).digest('base64')) {
    throw new Refusal('content_hash_mismatch');
  }
  const { host, pathname, search } = new URL(url);
  const message = Buffer.from(`POST\n${pathname}${search}\n${date};${host};${contentHash}`);
  return { timestamp, message, signatures: [signature] };
}

/**
 * Reads an RFC 1123 date such as `Thu, 30 Mar 2023 08:38:32 GMT`, in unix seconds. `Date.parse` also accepts other
 * forms and wrong weekdays, so the date must be the same when written back.
 */
function parseHttpDate(text: string): number {
  const date = new Date(text);
  if (date.toUTCString() !== text) throw new Refusal('malformed_header');
  return date.getTime() / 1000;
}

/**
 * Reads the event of a payment or of any other product.
 *
 * Vipps sends no event id with payments, so it is made of name, reference and `pspReference`: one reference has several
 * captures and refunds, each with its own `pspReference`, and one `pspReference` may occur under several names. Other
 * products have an `eventId`, or none: then the hash of the body takes its place, since a retry has the same bytes.
 *
 * @param request its `body` may be left out for an entry of a payment's log, which has the three parts.
 */
export function vippsEvent({
  fields: { name, reference, pspReference, eventId, eventType },
  body = new Uint8Array(),
}: Pick<VerifiedRequest, 'fields'> & { readonly body?: Uint8Array }): WebhookEvent {
  const parts = [name, reference, pspReference];
  const isOfPayment = parts.every((part) => typeof part === 'string' && part !== '');
  const own = isOfPayment ? paymentId(parts) : eventIdFrom(eventId);
  return {
    eventId: own ?? sha256(body),
    // In other products `name` may be a person's.
    eventType: eventTypeFrom(eventType) ?? eventTypeFrom(isOfPayment || isEventName(name) ? name : null),
  };
}

/** With a colon, two events could have the same joined id. Vipps' references have up to 64 characters; 80 keep the id within 255. */
function paymentId(parts: readonly unknown[]): string {
  const isPlain = parts.every((part) => typeof part === 'string' && /^[\w.-]{1,80}$/.test(part));
  return isPlain ? parts.join(':') : sha256(JSON.stringify(parts));
}

/** `CAPTURED`, or `recurring.charge-captured.v1`. */
function isEventName(name: unknown): boolean {
  return typeof name === 'string' && /^(?:[A-Z][A-Z_]+|[a-z][\w-]*(?:\.[\w-]+)+)$/.test(name);
}

function sha256(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex');
}
