import { SignJWT } from 'jose';
import type { JWTPayload } from 'jose';

import type { OperatorSettings } from '../../lib/platform/config.ts';

export const OPERATOR_SECRET = 'an operator secret of the tests, 32 bytes and more';

/** The settings under which `operatorToken` is accepted. */
export const operatorSettings = {
  issuer: 'postbud',
  audience: 'postbud-operators',
  maxAgeSeconds: 86_400,
  kind: 'secret',
  secret: Buffer.from(OPERATOR_SECRET),
} as const satisfies OperatorSettings;

/**
 * The claims of an accepted token: of Kari, for five minutes, with every scope.
 *
 * @param claims replace these; `undefined` leaves a claim out.
 */
export function operatorClaims(claims: JWTPayload = {}): JWTPayload {
  const seconds = Math.floor(Date.now() / 1000);
  return {
    iss: operatorSettings.issuer,
    aud: operatorSettings.audience,
    sub: 'kari@solvik.example.no',
    iat: seconds,
    exp: seconds + 300,
    scope: 'event-bus:read event-bus:replay event-bus:reveal event-bus:erase',
    ...claims,
  };
}

/** Signs an operator's token. @param claims as of `operatorClaims`. */
export async function operatorToken(claims: JWTPayload = {}, secret = OPERATOR_SECRET): Promise<string> {
  return await new SignJWT(operatorClaims(claims))
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(Buffer.from(secret));
}
