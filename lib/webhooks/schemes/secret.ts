import { createPublicKey, createSecretKey, type KeyObject } from 'node:crypto';

/**
 * The shortest secret in any provider's published examples. It catches an empty variable and a placeholder;
 * strength is up to the provider, who draws the secret.
 */
const MIN_TEXT_CHARACTERS = 6;

/**
 * Makes an HMAC key of a secret whose characters are the key (Stripe, Vipps, GitHub), a `whsec_` included.
 *
 * @returns `null` for a secret that is blank, nothing or little more than its prefix, or pasted with white space
 * around it, which would verify nothing.
 */
export function textKey(secret: string): KeyObject | null {
  const ownText = secret.replace(/^whsec_/, '').trim();
  if (secret !== secret.trim() || ownText.length < MIN_TEXT_CHARACTERS) return null;
  return createSecretKey(secret, 'utf8');
}

/**
 * Makes an HMAC key of a secret that is the base64 of the key (Standard Webhooks, Idura).
 *
 * @returns `null` for what is not base64, or is shorter than `minBytes`.
 */
export function base64Key(secret: string, minBytes: number): KeyObject | null {
  const bytes = decodeBase64(secret);
  return bytes && bytes.length >= minBytes ? createSecretKey(bytes) : null;
}

/** Makes an ed25519 public key of the base64 of its 32 bytes, or returns `null` when the text is not that. */
export function ed25519Key(base64: string): KeyObject | null {
  const bytes = decodeBase64(base64);
  if (bytes?.length !== 32) return null;
  const x = bytes.toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
}

/**
 * Decodes standard base64, padded or not. A secret is the operator's, so unlike a signature it may leave its unused
 * last bits set, as the unpadded secrets of the Standard Webhooks tests do; other characters are not skipped.
 */
function decodeBase64(text: string): Buffer | null {
  const unpadded = text.replace(/={1,2}$/, '');
  const isPadded = unpadded.length !== text.length;
  const isBase64 = /^[A-Za-z0-9+/]+$/.test(unpadded) && unpadded.length % 4 !== 1;
  return isBase64 && (!isPadded || text.length % 4 === 0) ? Buffer.from(unpadded, 'base64') : null;
}
