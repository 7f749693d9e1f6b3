import type * as OpenIdClient from 'openid-client';

import type { DirectorySettings } from '../../platform/config.ts';
import { Problem } from '../../platform/http/problem.ts';
import { codeOf, log, logError } from '../../platform/log.ts';
import { isKeyServerDown } from './key-set.ts';

// Why a directory signs nobody in, in words for the person, and for the log with the claim or the number of the error.
// Neither has a token, nor what anybody could have written into an address.

/** The claim that an error of jose or openid-client is about. */
export function claimIn(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { cause } = error;
  for (const told of [error, cause]) {
    if (typeof told === 'object' && told !== null && 'claim' in told && typeof told.claim === 'string')
      return told.claim;
  }
  return claimIn(cause) ?? /"(iss|aud|azp|sub|exp|iat|nbf|nonce|state|auth_time)"/.exec(error.message)?.[1];
}

/** @returns Problem 503 `directory_unavailable`, or the problem that the error is. */
export function unavailable(issuer: string, error: unknown): Problem {
  if (error instanceof Problem) return error;
  const { host } = new URL(issuer);
  logError('the directory cannot be used', error, { host, reason: codeOf(error), ...causeFields(error) });
  // Without the words of the directory, which anybody could have written into them.
  return new Problem('directory_unavailable', {
    detail: `No usable answer from the directory ${host}. Try again in a minute, or use a token.`,
    retryAfterSeconds: 30,
    cause: error,
  });
}

/** The issuer that a discovery document names in place of the configured one. */
function causeFields(error: unknown): { readonly issuer?: string } {
  const cause = error instanceof Error ? error.cause : null;
  if (typeof cause !== 'object' || cause === null || !('body' in cause)) return {};
  const { body } = cause;
  const isNamed = typeof body === 'object' && body !== null && 'issuer' in body;
  return isNamed && typeof body.issuer === 'string' ? { issuer: body.issuer.slice(0, 200) } : {};
}

/** Says why nobody is signed in by the answer of a directory. */
export function refusedAnswer(
  error: unknown,
  client: typeof OpenIdClient,
  { issuer }: DirectorySettings,
): Problem {
  if (error instanceof Problem) return error;
  const { host } = new URL(issuer);
  const { AuthorizationResponseError, ResponseBodyError, WWWAuthenticateChallengeError } = client;
  if (error instanceof AuthorizationResponseError) return refusedByDirectory(error, host);
  if (error instanceof ResponseBodyError || error instanceof WWWAuthenticateChallengeError) {
    const said = 'error' in error ? error.error : (error.cause[0]?.parameters.error ?? '');
    const description = 'error_description' in error ? error.error_description : undefined;
    return codeRefused(said, description, host, error);
  }
  if (isNoAnswer(error)) return unavailable(issuer, error);
  const claim = claimIn(error);
  log('warn', 'the answer of the directory was refused', { host, claim, reason: codeOf(error) });
  const faults = isMissing(error) ? { ...FAULTS, ...MISSING } : FAULTS;
  const words = (claim !== undefined && faults[claim]) || 'its signature or its form is wrong';
  return new Problem('directory_answer_invalid', {
    detail: `The answer of ${host} is not valid: ${words}. Nobody was signed in. Sign in again; if that fails too, whoever runs Postbud finds the claim in the log.`,
    cause: error,
  });
}

/** What is wrong with a token, by the claim. */
const FAULTS: Readonly<Record<string, string>> = {
  nonce: 'it belongs to another sign-in (nonce)',
  state: 'it belongs to another sign-in (state)',
  aud: 'it is for another application (aud)',
  azp: 'it is for another application (azp)',
  iss: 'it is from another issuer (iss)',
  exp: 'it has expired (exp)',
  iat: 'it was issued at a time that cannot be (iat)',
  nbf: 'it is not valid yet (nbf)',
  sub: 'it does not say who you are (sub)',
};

const MISSING: Readonly<Record<string, string>> = {
  exp: 'it does not say when it expires (exp)',
  iat: 'it does not say when it was issued (iat)',
};

/** Whether an error of jose or openid-client is about a claim that is not there. */
function isMissing(error: unknown): boolean {
  return error instanceof Error && (/\bclaim missing$/.test(error.message) || isMissing(error.cause));
}

/** RFC 6749 and OpenID Connect list these; what else an address says is not repeated. */
const REFUSALS: Readonly<Record<string, string>> = {
  access_denied: 'you declined, or may not use this application',
  login_required: 'you have to sign in there',
  interaction_required: 'it wants something of you first',
  consent_required: 'somebody has to agree first that this application may read your name and roles',
  unauthorized_client: 'this application may not ask for a sign-in',
  invalid_request: 'it did not accept the request',
  invalid_scope: 'it did not accept the scopes openid and profile',
  unsupported_response_type: 'it gives this application no codes',
  server_error: 'it has failed',
  temporarily_unavailable: 'it is busy',
};

function refusedByDirectory(
  { error: said, error_description: description, cause }: OpenIdClient.AuthorizationResponseError,
  host: string,
): Problem {
  const words = REFUSALS[said];
  const error = words === undefined ? 'unknown' : said;
  log('warn', 'the directory refused a sign-in', { host, error, ...numberIn(description) });
  return new Problem('directory_refused', {
    detail: `${host} did not sign you in: ${words ?? 'it gives a reason that is not known here'} (${error}). Sign in again, or ask those who run the directory.`,
    cause,
  });
}

/** The directory takes a code once, from this application only. */
function codeRefused(said: string, description: string | undefined, host: string, cause: unknown): Problem {
  const isCode = said === 'invalid_grant';
  const error = /^[a-z_]{1,40}$/.test(said) ? said : 'unknown';
  log('error', 'the directory did not take a code', { host, error, ...numberIn(description) });
  return new Problem('directory_answer_invalid', {
    detail: isCode
      ? `${host} did not take its own code: it was used already, or has expired. Nobody was signed in. Sign in again.`
      : `${host} did not accept this application: its client id or secret is wrong, or has expired. Whoever runs Postbud finds more in the log.`,
    cause,
  });
}

/** Entra ID's number of an error, by which its documentation and its administrators know it. */
function numberIn(description: string | undefined): { readonly number?: string } {
  const number = /AADSTS\d{4,9}/.exec(description ?? '')?.[0];
  return number === undefined ? {} : { number };
}

function isNoAnswer(error: unknown): boolean {
  if (error instanceof TypeError || isKeyServerDown(error) || codeOf(error) === 'OAUTH_TIMEOUT') return true;
  const cause = error instanceof Error ? error.cause : null;
  return cause instanceof Response && cause.status >= 500;
}
