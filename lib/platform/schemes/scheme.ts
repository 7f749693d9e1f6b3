import type { KeyObject } from 'node:crypto';
import type { Signature } from './signature.ts';

/**
 * The signing scheme of one family of providers. `verifyWebhook` does what all schemes have in common.
 *
 * `readingsOf`, `claimOf` and `eventOf` read requests that anyone may send: their work must be bounded, and they may throw
 * only `Refusal`.
 */
export interface WebhookScheme {
  /** Makes the key of a configured secret; `null` for an unusable secret. */
  readonly keyOf: (secret: string) => KeyObject | null;
  /** A reading for each set of signature headers, where a request may have several: one valid reading is enough. */
  readonly readingsOf?: (request: SignedRequest) => readonly SignedRequest[];
  /** Parses the request's claims, which are not yet verified. @throws {Refusal} when they cannot be read. */
  readonly claimOf: (request: SignedRequest) => Claim;
  /** Reads the event of a verified request. */
  readonly eventOf: (request: VerifiedRequest) => WebhookEvent;
}

export interface SignedRequest {
  readonly headers: Headers;
  /** The bytes as received. A decoded or re-serialised body has another signature. */
  readonly body: Uint8Array;
  /** The URL that the sender posted to, from our side: the sender could forge the `Host` header. */
  readonly url: string | URL;
  /** The header of the signature, where it is not the scheme's own. */
  readonly signatureHeader?: string | undefined;
}

export interface VerifiedRequest extends SignedRequest {
  /** The fields of the body; none if it is not a JSON object, which the endpoint refuses later. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Claim {
  /** When the sender signed, in unix seconds; `null` in schemes that sign no time. */
  readonly timestamp: number | null;
  /** The bytes that the sender must have signed. */
  readonly message: Uint8Array;
  /**
   * The candidates. One valid signature is enough: during a rotation senders sign with both the old and the new key.
   */
  readonly signatures: readonly Signature[];
}

export interface WebhookEvent {
  /** Identifies duplicates; `null` when the body has no usable id. */
  readonly eventId: string | null;
  readonly eventType: string | null;
  /** Whether the id was not signed, so that anyone could send the same body again under another id. */
  readonly isIdUnsigned?: boolean;
}

/** The reason for a refusal, for logs and counters. The sender does not learn it. */
export type RefusalReason =
  | 'no_usable_secret'
  | 'missing_header'
  | 'malformed_header'
  | 'timestamp_out_of_tolerance'
  | 'content_hash_mismatch'
  | 'signature_mismatch';

export class Refusal extends Error {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason) {
    super(`the webhook is refused: ${reason}`);
    this.name = 'Refusal';
    this.reason = reason;
  }
}

/** More than twice the length of 16 of the longest signatures (93 characters each). */
const MAX_HEADER_CHARACTERS = 4096;

/**
 * Returns a header's value, at most 4096 characters.
 *
 * A header that was sent twice arrives as one value, joined by `, `. It is not split here: the grammar of every scheme
 * refuses it.
 *
 * @throws {Refusal} when it is absent, empty or too long.
 */
export function requireHeader(headers: Headers, name: string): string {
  const value = headers.get(name);
  if (!value) throw new Refusal('missing_header');
  if (value.length > MAX_HEADER_CHARACTERS) throw new Refusal('malformed_header');
  return value;
}

/**
 * Reads unix seconds, strictly: the SDKs of Stripe and Standard Webhooks use `parseInt`, which also takes
 * `1614265330abc`, `+1614265330` and `1614265330.9`. Twelve digits reach the year 33658.
 *
 * @throws {Refusal} when the text is anything but digits.
 */
export function parseUnixSeconds(text: string): number {
  if (!/^\d{1,12}$/.test(text)) throw new Refusal('malformed_header');
  return Number(text);
}
