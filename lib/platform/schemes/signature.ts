import { createHmac, timingSafeEqual, verify, type KeyObject } from 'node:crypto';

/** One candidate signature of a request, decoded. Made by `parseSignature` only, so its length fits its algorithm. */
export interface Signature {
  readonly algorithm: Algorithm;
  readonly bytes: Uint8Array;
}

export type Algorithm = keyof typeof SIGNATURE_BYTES;

const SIGNATURE_BYTES = { 'hmac-sha256': 32, ed25519: 64 };

/** More than any sender needs during a rotation (Stripe: one per active secret), and few enough to check them all. */
export const MAX_CANDIDATES = 16;

/**
 * Decodes a signature in its canonical encoding, and in no other.
 *
 * `Buffer.from` skips garbage, takes upper-case hex and url-safe base64, and ignores the unused bits of the last base64
 * character, so several texts decode to the same bytes. Only the text that encodes back to itself is accepted.
 *
 * @returns the signature, or `null` when the text cannot be one.
 */
export function parseSignature(
  algorithm: Algorithm,
  encoding: 'hex' | 'base64',
  text: string,
): Signature | null {
  const bytes = Buffer.from(text, encoding);
  const isCanonical = bytes.length === SIGNATURE_BYTES[algorithm] && bytes.toString(encoding) === text;
  return isCanonical ? { algorithm, bytes } : null;
}

/**
 * Whether any candidate is a signature of the message by any of the keys.
 *
 * Every candidate is checked against every key even after a match, so that the time taken does not reveal which one
 * matched. An HMAC key verifies only HMACs and a public key only ed25519: the sender cannot choose.
 */
export function isSigned(
  message: Uint8Array,
  signatures: readonly Signature[],
  keys: readonly KeyObject[],
): boolean {
  let matched = false;
  for (const key of keys) {
    const matches = key.type === 'secret' ? hmacMatcher(message, key) : ed25519Matcher(message, key);
    for (const signature of signatures) {
      if (matches(signature)) matched = true;
    }
  }
  return matched;
}

type Matcher = (signature: Signature) => boolean;

function hmacMatcher(message: Uint8Array, key: KeyObject): Matcher {
  const expected = createHmac('sha256', key).update(message).digest();
  return ({ algorithm, bytes }) => algorithm === 'hmac-sha256' && timingSafeEqual(bytes, expected);
}

function ed25519Matcher(message: Uint8Array, key: KeyObject): Matcher {
  return ({ algorithm, bytes }) => algorithm === 'ed25519' && verify(null, message, key, bytes);
}
