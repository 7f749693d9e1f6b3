import type { KeyObject } from 'node:crypto';
import type { Scheme } from '../../platform/config.ts';
import { parseWebhookBody } from './body.ts';
import { criipto } from '../../platform/schemes/criipto.ts';
import { githubStyle } from '../../platform/schemes/github-style.ts';
import {
  Refusal,
  type RefusalReason,
  type SignedRequest,
  type WebhookEvent,
  type WebhookScheme,
} from '../../platform/schemes/scheme.ts';
import { isSigned } from '../../platform/schemes/signature.ts';
import { standard } from '../../platform/schemes/standard.ts';
import { stripe } from '../../platform/schemes/stripe.ts';
import { vipps } from '../../platform/schemes/vipps.ts';

export interface WebhookRequest {
  /** Both the old and the new one during a rotation. Unusable ones are ignored. */
  readonly secrets: readonly string[];
  readonly headers: Headers | Readonly<Record<string, string>>;
  /** The body as received, undecoded. */
  readonly body: Uint8Array;
  /** The absolute URL that the provider posts to. Its host is trusted; the `Host` header is ignored. */
  readonly url: string | URL;
  /** The header of the signature, where it is not the scheme's own. */
  readonly signatureHeader?: string | undefined;
  /** Unix seconds; fractions are ignored. */
  readonly now: number;
  /** How far the sender's clock may be off, either way; 300 by default. 0 disables the check, for offline use only. */
  readonly toleranceSeconds?: number;
}

export type Verification =
  | ({ readonly ok: true } & WebhookEvent)
  | { readonly ok: false; readonly reason: RefusalReason };

/**
 * Verifies that a webhook was recently signed with one of the secrets, and reads its event.
 *
 * Every candidate signature is compared with every secret in constant time. `ok` is about the signature only: the body
 * may not be JSON. `eventId` is then `null`, unless the scheme does not read it from the body's fields.
 *
 * @returns the event's id and type, each `null` if the signed parts have no usable one; or the reason for the refusal.
 * @throws {TypeError} under `vipps`, when `url` is not absolute.
 */
export function verifyWebhook(scheme: Scheme, request: WebhookRequest): Verification {
  const implementation = implementations[scheme];
  return orRefusal(() => {
    const keys = requireKeys(request.secrets, implementation.keyOf);
    const { body, url, signatureHeader } = request;
    const signed = { headers: parseHeaders(request.headers), body, url, signatureHeader };
    const readings = implementation.readingsOf?.(signed) ?? [signed];
    const verifications = readings.map((reading) =>
      orRefusal(() => verifyReading(implementation, reading, keys, request)),
    );
    return verifications.find(({ ok }) => ok) ?? verifications[0]!;
  });
}

function verifyReading(
  { claimOf, eventOf }: WebhookScheme,
  signed: SignedRequest,
  keys: readonly KeyObject[],
  { now, toleranceSeconds = DEFAULT_TOLERANCE_SECONDS }: WebhookRequest,
): Verification {
  const claim = claimOf(signed);
  requireRecent(claim.timestamp, now, toleranceSeconds);
  if (!isSigned(claim.message, claim.signatures, keys)) throw new Refusal('signature_mismatch');
  const parsed = parseWebhookBody(signed.body);
  return { ok: true, ...eventOf({ ...signed, fields: parsed.ok ? parsed.body : {} }) };
}

function orRefusal(verify: () => Verification): Verification {
  try {
    return verify();
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, reason: error.reason };
    throw error;
  }
}

/** Whether a secret can be a key of the scheme: not blank, decodable, and as long as the scheme requires. */
export function isUsableSecret(scheme: Scheme, secret: string): boolean {
  return implementations[scheme].keyOf(secret) !== null;
}

/** The default of the SDKs of Stripe, Svix and Standard Webhooks, and of Vipps' WooCommerce plugin. */
const DEFAULT_TOLERANCE_SECONDS = 300;

const implementations: Readonly<Record<Scheme, WebhookScheme>> = {
  standard,
  stripe,
  vipps,
  criipto,
  'github-style': githubStyle,
};

function requireKeys(secrets: readonly string[], keyOf: WebhookScheme['keyOf']): KeyObject[] {
  const keys = secrets.flatMap((secret) => keyOf(secret) ?? []);
  if (keys.length === 0) throw new Refusal('no_usable_secret');
  return keys;
}

/** `Headers` lower-cases names and joins repeated ones. A record with an invalid header is refused. */
function parseHeaders(headers: WebhookRequest['headers']): Headers {
  try {
    return new Headers(headers);
  } catch {
    throw new Refusal('malformed_header');
  }
}

function requireRecent(timestamp: number | null, now: number, toleranceSeconds: number): void {
  if (timestamp === null || toleranceSeconds === 0) return;
  // In whole seconds, as senders write them and their SDKs compare them. A clock of NaN refuses.
  const isRecent = Math.abs(Math.floor(now) - timestamp) <= toleranceSeconds;
  if (!isRecent) throw new Refusal('timestamp_out_of_tolerance');
}
