import { SignJWT } from 'jose';

import { readConfig } from '../lib/platform/config.ts';
import type { OperatorSettings } from '../lib/platform/operator-settings.ts';
import { SECOND, msOf } from '../lib/platform/time.ts';

/** A token's claims. */
export interface TokenClaims {
  readonly sub: string;
  /** Scopes, separated by spaces. */
  readonly scope: string;
  /** A lifetime, such as `8h`. */
  readonly expires: string;
}

/**
 * Mints an operator's token with `OPERATOR_JWT_SECRET`, valid for no longer than the server accepts.
 *
 * @param secret replaces the variable, and a key server.
 * @returns null where tokens come from a key server, or no secret is set.
 */
export async function mintToken(
  { sub, scope, expires }: TokenClaims,
  secret?: string,
): Promise<string | null> {
  const operators = operatorSettings(secret);
  if (operators.kind !== 'secret') return null;
  const now = Math.floor(Date.now() / SECOND);
  return await new SignJWT({ scope })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(sub)
    .setIssuer(operators.issuer)
    .setAudience(operators.audience)
    .setIssuedAt(now)
    .setExpirationTime(now + Math.min(msOf(expires) / SECOND, operators.maxAgeSeconds))
    .sign(operators.secret);
}

/** Reads how a server with this environment verifies tokens. @param secret as `mintToken` takes it. */
export function operatorSettings(secret?: string): OperatorSettings {
  const own = secret === undefined ? {} : { OPERATOR_JWT_SECRET: secret, OPERATOR_JWKS_URL: '' };
  return readConfig(own).operators;
}
