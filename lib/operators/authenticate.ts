import { createRemoteJWKSet, errors, jwtVerify } from 'jose';
import type { JWTPayload, JWTVerifyOptions } from 'jose';

import type { OperatorSettings } from '../config.ts';
import { Problem, unauthorized, unavailable } from '../http/problem.ts';
import { MINUTE, SECOND } from '../time.ts';

export type Scope = 'event-bus:read' | 'event-bus:replay' | 'event-bus:reveal';

export interface Operator {
  /** The token's subject: who is written down beside what was done. */
  readonly subject: string;
  readonly scopes: ReadonlySet<string>;
}

/**
 * Lets an operator in who shows a valid token with the scope.
 *
 * @throws Problem 401 without a valid token, 403 `insufficient_scope`, 503 when no key is configured or the key server
 *   does not answer.
 * @see https://www.rfc-editor.org/rfc/rfc6750#section-3
 */
export async function authenticate(
  request: Request,
  settings: OperatorSettings,
  scope: Scope,
): Promise<Operator> {
  const token = bearerToken(request);
  const claims = await verify(token, settings);
  const { sub } = claims;
  // A token may hold anything under the name.
  if (typeof sub !== 'string' || !sub.trim()) throw invalidToken();
  const operator = { subject: sub, scopes: new Set(String(claims['scope']).split(' ')) };
  if (!operator.scopes.has(scope)) {
    throw new Problem(403, 'insufficient_scope', `The token lacks the scope ${scope}.`, {
      headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
    });
  }
  return operator;
}

function bearerToken(request: Request): string {
  const [, token] = /^bearer ([\w.~+/=-]{1,8192})$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (token) return token;
  throw unauthorized('unauthorized', 'Send an operator’s token: Authorization: Bearer <JWT>.', {
    headers: { 'www-authenticate': 'Bearer' },
  });
}

async function verify(token: string, settings: OperatorSettings): Promise<JWTPayload> {
  const options: JWTVerifyOptions = {
    issuer: settings.issuer,
    audience: settings.audience,
    // Without these a token that lacks them passes.
    requiredClaims: ['exp', 'iat', 'sub', 'scope'],
    clockTolerance: 30,
  };
  try {
    // The algorithm goes with the key: a public key must never be taken for a shared secret.
    if (settings.kind === 'secret') {
      const { payload } = await jwtVerify(token, settings.secret, { ...options, algorithms: ['HS256'] });
      return payload;
    }
    if (settings.kind === 'jwks') {
      const algorithms = ['RS256', 'ES256', 'EdDSA'];
      const { payload } = await jwtVerify(token, keySetOf(settings.url), { ...options, algorithms });
      return payload;
    }
  } catch (error) {
    if (isKeyServerDown(error))
      throw unavailable('key_server_unavailable', 'The key server does not answer.', 30, { cause: error });
    throw invalidToken(error);
  }
  throw unavailable('operators_not_configured', 'No key for operators’ tokens is configured.', 60);
}

function invalidToken(cause?: unknown): Problem {
  return unauthorized('invalid_token', 'The token is not valid, or no longer.', {
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    cause,
  });
}

const keySets = new Map<string, ReturnType<typeof createRemoteJWKSet>>();

/** One for each URL: it holds the keys that it has fetched. */
function keySetOf(url: string) {
  const known = keySets.get(url);
  if (known) return known;
  const keySet = createRemoteJWKSet(new URL(url), { timeoutDuration: 5 * SECOND, cacheMaxAge: 10 * MINUTE });
  keySets.set(url, keySet);
  return keySet;
}

/** What jose throws when keys can't be had, rather than when the token is wrong. */
function isKeyServerDown(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true;
  if (error instanceof TypeError) return true;
  return error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC';
}
