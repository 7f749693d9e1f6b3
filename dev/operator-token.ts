import { SignJWT } from 'jose';

import { readConfig } from '../lib/config.ts';

/** A token's claims, as `npm run token` takes them. */
export interface TokenClaims {
  readonly sub: string;
  /** Words with spaces between them. */
  readonly scope: string;
  /** For example `8h`. */
  readonly expires: string;
}

/**
 * Mints an operator's token with `OPERATOR_JWT_SECRET`.
 *
 * @param secret takes the place of the variable, and of a key server’s.
 * @returns null where operators' tokens come from a key server, or no secret is set.
 */
export async function mintToken(
  { sub, scope, expires }: TokenClaims,
  secret?: string,
): Promise<string | null> {
  const { operators } = readConfig(
    secret === undefined ? {} : { OPERATOR_JWT_SECRET: secret, OPERATOR_JWKS_URL: '' },
  );
  if (operators.kind !== 'secret') return null;
  return await new SignJWT({ scope })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setSubject(sub)
    .setIssuer(operators.issuer)
    .setAudience(operators.audience)
    .setIssuedAt()
    .setExpirationTime(expires)
    .sign(operators.secret);
}
