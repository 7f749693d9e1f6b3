import { createRemoteJWKSet, errors, jwtVerify } from 'jose';
import type { JWTPayload, JWTVerifyOptions } from 'jose';

import { MINUTE, SECOND } from '../../platform/time.ts';

type KeySet = ReturnType<typeof createRemoteJWKSet>;

/** An issuer of tokens for operators: its keys, and what its tokens have to say. */
export interface Issuer extends Required<
  Pick<JWTVerifyOptions, 'issuer' | 'audience' | 'algorithms' | 'requiredClaims'>
> {
  readonly keys: KeySet | Uint8Array;
}

export const CLOCK_TOLERANCE_SECONDS = 30;

/** Verifies a token of an issuer, which may not be older than that, nor issued in the future. @throws an error of jose. */
export async function verified(
  token: string,
  { keys, ...must }: Issuer,
  maxTokenAge: number,
): Promise<JWTPayload> {
  const options = { ...must, clockTolerance: CLOCK_TOLERANCE_SECONDS, maxTokenAge };
  if (keys instanceof Uint8Array) return (await jwtVerify(token, keys, options)).payload;
  try {
    return (await jwtVerify(token, keys, options)).payload;
  } catch (error) {
    // Each key that fits is tried where a token does not name one: there are two of a kind while keys are rotated.
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    for await (const key of error) {
      try {
        return (await jwtVerify(token, key, options)).payload;
      } catch (failure) {
        if (!(failure instanceof errors.JWSSignatureVerificationFailed)) throw failure;
      }
    }
    throw error;
  }
}

/** How long a key server or a directory may take to answer. */
export const PATIENCE_SECONDS = 5;

const keySets = new Map<string, KeySet>();

/** The keys that a server has, which are fetched when they are first needed, and again for one that is not known. */
export function keysAt(url: URL): KeySet {
  const known = keySets.get(url.href);
  if (known) return known;
  const keySet = createRemoteJWKSet(url, {
    timeoutDuration: PATIENCE_SECONDS * SECOND,
    cacheMaxAge: 10 * MINUTE,
    // Not by everybody who makes a key up.
    cooldownDuration: SECOND,
  });
  keySets.set(url.href, keySet);
  return keySet;
}

/** Errors that jose throws when it cannot get keys, as opposed to errors of the token. */
export function isKeyServerDown(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true;
  if (error instanceof TypeError) return true;
  return error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC';
}
