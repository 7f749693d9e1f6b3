import { createPublicKey, createSecretKey, type KeyObject } from 'node:crypto';

/**
 * The shortest secret in any provider's published examples. It catches an empty variable and a placeholder. The
 * provider generates the secret and decides how strong it is.
 */
const MIN_TEXT_CHARACTERS = 6;

/**
 * Makes an HMAC key from a secret whose characters are the key, including any `whsec_` (Stripe, Vipps, GitHub).
 *
 * @returns `null` for a secret that is blank, has almost nothing after its prefix, or has white space around it, which
 *   would verify nothing.
 */
export function textKey(secret: string): KeyObject | null {
  const ownText = secret.replace(/^whsec_/, '').trim();
  if (secret !== secret.trim() || ownText.length < MIN_TEXT_CHARACTERS) return null;
  return createSecretKey(secret, 'utf8');
}

/**
 * Makes an HMAC key from a secret that is the base64 of the key (Standard Webhooks, Idura).
 *
 * @returns `null` for a text that is not base64, and for a key shorter than `minBytes`.
 */
export function base64Key(secret: string, minBytes: number): KeyObject | null {
  const bytes = decodeBase64(secret);
  return bytes && bytes.length >= minBytes ? createSecretKey(bytes) : null;
}

/** Makes an ed25519 public key from the base64 of its 32 bytes. @returns `null` for any other text. */
export function ed25519Key(base64: string): KeyObject | null {
  const bytes = decodeBase64(base64);
  if (bytes?.length !== 32) return null;
  const x = bytes.toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
}

/**
 * Decodes standard base64, padded or not. Unlike in a signature, the unused last bits may be set, as in the unpadded
 * secrets of the Standard Webhooks tests, because secrets come from the operator. Other characters are refused, not
 * skipped.
 */
function decodeBase64(text: string): Buffer | null {
  const unpadded = text.replace(/={1,2}$/, '');
  const isPadded = unpadded.length !== text.length;
  const isBase64 = /^[A-Za-z0-9+/]+$/.test(unpadded) && unpadded.length % 4 !== 1;
  return isBase64 && (!isPadded || text.length % 4 === 0) ? Buffer.from(unpadded, 'base64') : null;
}
