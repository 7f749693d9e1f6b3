import type * as OpenIdClient from 'openid-client';

import type { DirectorySettings } from '../../platform/operator-settings.ts';
import { Problem } from '../../platform/http/problem.ts';
import { codeOf, log, logError } from '../../platform/log.ts';
import { isKeyServerDown } from './issuer.ts';

// Why a directory signs nobody in, in words for the person, and for the log with the claim or the number of the error.
// Neither has a token, nor what anybody could have written into an address.

/** The claim that an error of jose or openid-client names, or an error that caused it. */
export function claimIn(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const named = /"(iss|aud|azp|sub|exp|iat|nbf|nonce|state)"/.exec(error.message)?.[1];
  return named ?? claimIn(error.cause);
}

/** @returns Problem 503 `directory_unavailable`, or the problem that the error is. */
export function unavailable(issuer: string, error: unknown): Problem {
  if (error instanceof Problem) return error;
  const { host } = new URL(issuer);
  logError('the directory cannot be used', error, { host, reason: codeOf(error) });
  // Without the words of the directory, which anybody could have written into them.
  return new Problem('directory_unavailable', {
    detail: `No usable answer from the directory ${host}. Try again in a minute, or use a token.`,
    retryAfterSeconds: 30,
    cause: error,
  });
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
  const words = (claim !== undefined && FAULTS[claim]) || 'its signature or its form is wrong';
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
  exp: 'it has expired, or does not say when (exp)',
  iat: 'it was issued at a time that cannot be, or does not say when (iat)',
  nbf: 'it is not valid yet (nbf)',
  sub: 'it does not say who you are (sub)',
};

/** What a person can act on; what else an address says is not repeated. */
const REFUSALS: Readonly<Record<string, string>> = {
  access_denied: 'you declined, or may not use this application',
  login_required: 'you have to sign in there',
  interaction_required: 'it wants something of you first',
  consent_required: 'somebody has to agree first that this application may read your name and roles',
  server_error: 'it has failed',
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
