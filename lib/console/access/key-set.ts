import { errors, jwtVerify } from 'jose';
import type { createRemoteJWKSet, JWTPayload, JWTVerifyOptions } from 'jose';

/** The keys of an issuer, as its key server serves them. */
export type KeySet = ReturnType<typeof createRemoteJWKSet>;

/** Tries each key that fits where a token does not name one: there are two of a kind while keys are rotated. */
export async function claimsByKeySet(
  token: string,
  keys: KeySet,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, keys, options)).payload;
  } catch (error) {
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

/** Errors that jose throws when it cannot get keys, as opposed to errors of the token. */
export function isKeyServerDown(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true;
  if (error instanceof TypeError) return true;
  return error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC';
}
