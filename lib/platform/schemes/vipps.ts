import { createHash } from 'node:crypto';
import { eventTypeFrom } from './event.ts';
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
  eventOf: vippsEvent,
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
 * Makes the event id from name, reference and `pspReference`, because Vipps sends none: one reference has several
 * captures and refunds, each with its own `pspReference`, and one `pspReference` may occur under several names.
 */
export function vippsEvent({
  fields: { name, reference, pspReference },
}: Pick<VerifiedRequest, 'fields'>): WebhookEvent {
  const parts = [name, reference, pspReference];
  return {
    eventId: parts.every(isIdPart) ? parts.join(':') : null,
    eventType: eventTypeFrom(name),
  };
}

/**
 * With a colon, two events could have the same joined id. Vipps' references have up to 64 characters; 80 keep the id
 * within 255.
 */
function isIdPart(part: unknown): part is string {
  return typeof part === 'string' && /^[\w.-]{1,80}$/.test(part);
}
