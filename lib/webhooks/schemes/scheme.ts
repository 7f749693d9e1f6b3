import type { KeyObject } from 'node:crypto';
import type { Signature } from './signature.ts';

/**
 * How one family of providers signs its webhooks. `verifyWebhook` tells the story; a scheme supplies what differs.
 *
 * `claimOf` and `eventOf` read what a stranger sent: they must be bounded and must not throw anything but `Refusal`.
 */
export interface WebhookScheme {
  /** The key that a configured secret stands for, or `null` when it must never be used as one. */
  readonly keyOf: (secret: string) => KeyObject | null;
  /** What the request claims about itself, parsed but not yet believed. @throws {Refusal} when it cannot be read. */
  readonly claimOf: (request: SignedRequest) => Claim;
  /** What happened, according to a request whose signature has been verified. */
  readonly eventOf: (request: VerifiedRequest) => WebhookEvent;
}

export interface SignedRequest {
  readonly headers: Headers;
  /** The bytes as received. A decoded or re-serialised body has another signature. */
  readonly body: Uint8Array;
  /** Where the sender posted to, as we know it: the `Host` header is the sender's word. */
  readonly url: string | URL;
}

export interface VerifiedRequest extends SignedRequest {
  /** The fields of the body; none where it is no JSON object, which the endpoint refuses by itself. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Claim {
  /** When the sender signed, in unix seconds; `null` in schemes that sign no time. */
  readonly timestamp: number | null;
  /** What the sender must have signed. */
  readonly message: Uint8Array;
  /** The candidates; one that verifies is enough, since a sender signs with old and new key while it rotates. */
  readonly signatures: readonly Signature[];
}

export interface WebhookEvent {
  /** What a duplicate is recognised by; `null` when the body states none that can be used. */
  readonly eventId: string | null;
  readonly eventType: string | null;
}

/** Why a request is not accepted. For logs and counters: the sender is told none of it. */
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
    super(`The webhook is refused: ${reason}.`);
    this.name = 'Refusal';
    this.reason = reason;
  }
}

/** Room for 16 of the longest signatures (93 characters each), with as much again to spare. */
const MAX_HEADER_CHARACTERS = 4096;

/**
 * Returns a header's value, at most 4096 characters.
 *
 * A header that was sent twice arrives joined by `, `. It is not taken apart here: the grammar of every scheme
 * refuses the joined value.
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
