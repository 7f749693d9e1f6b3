import { decodeJwt } from 'jose';
import type { JWTPayload } from 'jose';

import type { DirectorySettings, OperatorSettings } from '../../platform/operator-settings.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { codeOf, log } from '../../platform/log.ts';
import { DAY, SECOND } from '../../platform/time.ts';
import type { Operator } from '../kit/operator.ts';
import { sessionToken, readSession, SESSION_LIFE_MS, HANDLE } from './session.ts';
import { isName, personIn } from './directory-claims.ts';
import { claimIn } from './directory-refusals.ts';
import { verifyByDirectory } from './directory.ts';
import { isKeyServerDown, keysAt, verified } from './issuer.ts';
import type { Issuer } from './issuer.ts';

/** Reads from the database, which is opened only for that. @throws Problem 503 `database_unavailable` */
export type Reading = <Found>(read: (db: Database) => Promise<Found>) => Promise<Found>;

/**
 * Authenticates an operator by the token in `Authorization` or, without one, by the session's cookie. Checks no scope.
 *
 * @throws Problem 401 without a valid token or session; 403 as `requireOwnPage` does, with the cookie; 403 and 503 as
 * `verifyToken` and `reading` do.
 */
export async function authenticate(
  request: Request,
  settings: OperatorSettings,
  reading: Reading,
): Promise<Operator> {
  const { token, via } = tokenOf(request);
  // A browser adds the cookie to requests that other sites trigger, but never an Authorization header.
  if (via === 'cookie') requireOwnPage(request);
  if (via === 'cookie' && HANDLE.test(token))
    return await reading(async (db) => await readSession(db, token, settings));
  const { expiresAtSeconds: _, ...operator } = await verifyToken(token, settings, via);
  return { ...operator, via };
}

/** @throws Problem 403 `insufficient_scope` */
export function requireScope(
  { scopes, isOfDirectory = false }: Pick<Operator, 'scopes' | 'isOfDirectory'>,
  scope: Scope,
): void {
  if (scopes.has(scope)) return;
  throw new Problem('insufficient_scope', {
    detail: isOfDirectory ? `None of your roles gives ${scope}.` : `The token lacks the scope ${scope}.`,
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

/** Reads the token of a request, or the handle of its session, without verifying it. @throws Problem 401 without one. */
export function tokenOf(request: Request): { readonly token: string; readonly via: Operator['via'] } {
  const authorization = request.headers.get('authorization');
  // A malformed header does not fall back to the cookie: the caller did not mean the cookie.
  const token =
    authorization === null
      ? sessionToken(request)
      : /^bearer ([\w.~+/=-]{1,16384})$/i.exec(authorization)?.[1];
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
 * Verifies a token without checking scopes. It is valid until its `exp` and until it is older than the settings allow,
 * one of the directory as a session for an hour at most.
 *
 * @throws Problem 401 `invalid_token`; 403 `no_role`; 503 when no key is configured, or the key server or the directory
 * does not answer.
 */
export async function verifyToken(
  token: string,
  settings: OperatorSettings,
  via: Operator['via'] = 'bearer',
): Promise<VerifiedToken> {
  const { directory, kind, issuer } = settings;
  if (directory) {
    const unverified = unverifiedIn(token);
    if (isFromDirectory(unverified, directory, settings))
      return await verifiedByDirectory(token, directory, settings, via);
    if (kind === 'none' || unverified.iss !== issuer) throw refusedToken('iss');
  }
  const claims = await claimsOf(token, settings);
  const { sub, name, scope } = claims;
  if (!isName(sub)) throw invalidToken();
  return {
    subject: sub,
    name: isName(name) ? name.trim() : sub,
    scopes: new Set(typeof scope === 'string' ? scope.split(' ').filter(Boolean) : []),
    expiresAtSeconds: endOf(claims, settings.maxAgeSeconds),
  };
}

/** @throws Problem 401 `invalid_token` */
function endOf({ exp, iat }: Pick<JWTPayload, 'exp' | 'iat'>, maxAgeSeconds: number): number {
  if (exp === undefined || iat === undefined || exp - iat > LONGEST_LIFE_SECONDS) throw invalidToken();
  return Math.min(exp, iat + maxAgeSeconds);
}

/** Only to choose the keys by: anybody can have written these claims. */
function unverifiedIn(token: string): JWTPayload {
  try {
    return decodeJwt(token);
  } catch {
    return {};
  }
}

function isFromDirectory(
  { iss, aud = [] }: JWTPayload,
  directory: DirectorySettings,
  { kind, issuer }: OperatorSettings,
): boolean {
  if (typeof iss !== 'string' || !URL.canParse(iss)) return false;
  if (new URL(iss).href !== new URL(directory.issuer).href) return false;
  // A key server may be the same directory's, for the tokens of another application.
  return kind === 'none' || iss !== issuer || [aud].flat().includes(directory.clientId);
}

async function verifiedByDirectory(
  token: string,
  directory: DirectorySettings,
  settings: OperatorSettings,
  via: Operator['via'],
): Promise<VerifiedToken> {
  const longest = via === 'cookie' ? SESSION_LIFE_MS / SECOND : Infinity;
  const maxAgeSeconds = Math.min(settings.maxAgeSeconds, longest);
  const claims = await verifyByDirectory(token, directory, maxAgeSeconds).catch((error: unknown) => {
    throw error instanceof Problem ? error : refusedToken(claimIn(error), error);
  });
  const person = personIn(claims, directory);
  if (person === null) throw refusedToken('sub');
  const { subject, name, scopes } = person;
  return { subject, name, scopes, isOfDirectory: true, expiresAtSeconds: endOf(claims, maxAgeSeconds) };
}

function refusedToken(claim: string | undefined, cause?: unknown): Problem {
  log('warn', 'a token was refused', { claim, reason: codeOf(cause) });
  return invalidToken(cause);
}

async function claimsOf(token: string, settings: OperatorSettings): Promise<JWTPayload> {
  try {
    return await verified(token, issuerIn(settings), settings.maxAgeSeconds);
  } catch (error) {
    if (error instanceof Problem) throw error;
    if (isKeyServerDown(error))
      throw new Problem('key_server_unavailable', { retryAfterSeconds: 30, cause: error });
    throw settings.directory ? refusedToken(claimIn(error), error) : invalidToken(error);
  }
}

/** @throws Problem 503 `operators_not_configured` */
function issuerIn(settings: OperatorSettings): Issuer {
  const { issuer, audience } = settings;
  // A token that lacks one of these claims would pass.
  const must = { issuer, audience, requiredClaims: ['exp', 'iat', 'sub', 'scope'] };
  // The algorithm depends on the key: a public key must never serve as a shared secret.
  if (settings.kind === 'secret') return { ...must, keys: settings.secret, algorithms: ['HS256'] };
  if (settings.kind === 'jwks')
    return { ...must, keys: keysAt(new URL(settings.url)), algorithms: ['RS256', 'ES256', 'EdDSA'] };
  throw new Problem('operators_not_configured', { retryAfterSeconds: 60 });
}

export function invalidToken(cause?: unknown): Problem {
  return new Problem('invalid_token', {
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    cause,
  });
}
