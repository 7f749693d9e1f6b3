import { SignJWT } from 'jose';

import { readConfig } from '../lib/config.ts';
import type { OperatorSettings } from '../lib/config.ts';
import { SECOND, msOf } from '../lib/time.ts';

/** A token's claims, as `npm run token` takes them. */
export interface TokenClaims {
  readonly sub: string;
  /** Words with spaces between them. */
  readonly scope: string;
  /** For example `8h`. */
  readonly expires: string;
}

/**
 * Mints an operator's token with `OPERATOR_JWT_SECRET`, which lasts no longer than the server takes it.
 *
 * @param secret takes the place of the variable, and of a key server’s.
 * @returns null where operators' tokens come from a key server, or no secret is set.
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

/** How a server with this environment verifies tokens. @param secret as `mintToken` takes it. */
export function operatorSettings(secret?: string): OperatorSettings {
  const own = secret === undefined ? {} : { OPERATOR_JWT_SECRET: secret, OPERATOR_JWKS_URL: '' };
  return readConfig(own).operators;
}
