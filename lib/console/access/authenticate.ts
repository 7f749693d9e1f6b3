import { parse } from 'hono/utils/cookie';
import { createRemoteJWKSet, errors, jwtVerify } from 'jose';
import type { JWTPayload, JWTVerifyOptions } from 'jose';

import type { OperatorSettings } from '../../platform/config.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { DAY, MINUTE, SECOND } from '../../platform/time.ts';
import type { Operator } from '../kit/operator.ts';

/** Holds the token of a signed-in operator. The prefix guarantees that this host set it, over HTTPS. */
export const SESSION_COOKIE = '__Host-event-bus';

/**
 * Authenticates an operator by the token in `Authorization` or, without one, in the session's cookie. Checks no scope.
 *
 * @throws Problem 401 without a valid token; 403 as `requireOwnPage` does, with the cookie; 503 as `verifyToken` does.
 * @see https://www.rfc-editor.org/rfc/rfc6750#section-3
 */
export async function authenticate(request: Request, settings: OperatorSettings): Promise<Operator> {
  const { token, via } = tokenOf(request);
  // A browser adds the cookie to requests that other sites trigger, but never an Authorization header.
  if (via === 'cookie') requireOwnPage(request);
  const { subject, name, scopes } = await verifyToken(token, settings);
  return { subject, name, scopes, via };
}

/** @throws Problem 403 `insufficient_scope` */
export function requireScope({ scopes }: Pick<Operator, 'scopes'>, scope: Scope): void {
  if (scopes.has(scope)) return;
  throw new Problem('insufficient_scope', {
    detail: `The token lacks the scope ${scope}.`,
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}

/**
 * Requires that a request that changes something comes from a page of the console. `SameSite` lets sibling hosts in, so
 * the browser must say that the page has this exact origin.
 *
 * @throws Problem 403 `cross_site_request`
 * @see https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header
 */
export function requireOwnPage(request: Request): void {
  if (request.method === 'GET' || request.method === 'HEAD') return;
  const site = request.headers.get('sec-fetch-site');
  // Browsers omit the header without HTTPS, and did before 2023; all of them send Origin.
  const isOwn =
    site === null
      ? request.headers.get('origin') === new URL(request.url).origin
      : site.toLowerCase() === 'same-origin';
  if (isOwn) return;
  throw new Problem('cross_site_request');
}

/** Reads the token of a session without verifying it. @returns undefined without a session. */
export function sessionToken({ headers }: Request): string | undefined {
  return parse(headers.get('cookie') ?? '', SESSION_COOKIE)[SESSION_COOKIE] || undefined;
}

/** Reads the token of a request without verifying it. @throws Problem 401 without one. */
export function tokenOf(request: Request): { readonly token: string; readonly via: Operator['via'] } {
  const authorization = request.headers.get('authorization');
  // A malformed header does not fall back to the cookie: the caller did not mean the cookie.
  const token =
    authorization === null
      ? sessionToken(request)
      : /^bearer ([\w.~+/=-]{1,8192})$/i.exec(authorization)?.[1];
  if (token) return { token, via: authorization === null ? 'cookie' : 'bearer' };
  throw new Problem('unauthorized', { headers: { 'www-authenticate': 'Bearer' } });
}

/** The claims of a valid token. */
export interface VerifiedToken extends Omit<Operator, 'via'> {
  /** Seconds since 1970: the token's `exp`, or the moment it becomes too old, whichever comes first. */
  readonly expiresAtSeconds: number;
}

/**
 * A token with a longer life was made as a password. It would be refused by its age anyway, which its owner would not
 * expect.
 */
const LONGEST_LIFE_SECONDS = (366 * DAY) / SECOND;

/**
 * Verifies a token without checking scopes. It is valid until its `exp` and until it is older than the settings allow.
 *
 * @throws Problem 401 `invalid_token`, 503 when no key is configured or the key server does not answer.
 */
export async function verifyToken(token: string, settings: OperatorSettings): Promise<VerifiedToken> {
  const { sub, exp, iat, name, scope } = await claimsOf(token, settings);
  // Claims may hold anything; the subject is recorded with each action, so Postgres must be able to store it.
  if (typeof sub !== 'string' || !sub.trim() || /\p{Cc}/u.test(sub)) throw invalidToken();
  if (exp === undefined || iat === undefined || exp - iat > LONGEST_LIFE_SECONDS) throw invalidToken();
  return {
    subject: sub,
    name: typeof name === 'string' && name.trim() ? name.trim() : sub,
    scopes: new Set(typeof scope === 'string' ? scope.split(' ').filter(Boolean) : []),
    expiresAtSeconds: Math.min(exp, iat + settings.maxAgeSeconds),
  };
}

async function claimsOf(token: string, settings: OperatorSettings): Promise<JWTPayload> {
  const options: JWTVerifyOptions = {
    issuer: settings.issuer,
    audience: settings.audience,
    // Without this option a token that lacks these claims passes.
    requiredClaims: ['exp', 'iat', 'sub', 'scope'],
    clockTolerance: 30,
    // This also refuses tokens issued in the future.
    maxTokenAge: settings.maxAgeSeconds,
  };
  try {
    // The algorithm depends on the key: a public key must never serve as a shared secret.
    if (settings.kind === 'secret') {
      const { payload } = await jwtVerify(token, settings.secret, { ...options, algorithms: ['HS256'] });
      return payload;
    }
    if (settings.kind === 'jwks') {
      const algorithms = ['RS256', 'ES256', 'EdDSA'];
      return await claimsByKeySet(token, keySetOf(settings.url), { ...options, algorithms });
    }
  } catch (error) {
    if (isKeyServerDown(error))
      throw new Problem('key_server_unavailable', { retryAfterSeconds: 30, cause: error });
    throw invalidToken(error);
  }
  throw new Problem('operators_not_configured', { retryAfterSeconds: 60 });
}

export function invalidToken(cause?: unknown): Problem {
  return new Problem('invalid_token', {
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    cause,
  });
}

/** Tries each key that fits where a token does not name one: there are two of a kind while keys are rotated. */
async function claimsByKeySet(token: string, keys: KeySet, options: JWTVerifyOptions): Promise<JWTPayload> {
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

type KeySet = ReturnType<typeof createRemoteJWKSet>;

const keySets = new Map<string, KeySet>();

/** A key set for each URL, which caches the keys it fetched. */
function keySetOf(url: string): KeySet {
  const known = keySets.get(url);
  if (known) return known;
  const keySet = createRemoteJWKSet(new URL(url), { timeoutDuration: 5 * SECOND, cacheMaxAge: 10 * MINUTE });
  keySets.set(url, keySet);
  return keySet;
}

/** Errors that jose throws when it cannot get keys, as opposed to errors of the token. */
function isKeyServerDown(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true;
  if (error instanceof TypeError) return true;
  return error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC';
}
