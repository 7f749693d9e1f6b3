import type { JWTPayload } from 'jose';
import type * as OpenIdClient from 'openid-client';

import type { DirectorySettings, OperatorSettings } from '../../platform/operator-settings.ts';
import { Problem } from '../../platform/http/problem.ts';
import { HOUR, SECOND } from '../../platform/time.ts';
import { refusedAnswer, unavailable } from './directory-refusals.ts';
import { CLOCK_TOLERANCE_SECONDS, isKeyServerDown, keysAt, PATIENCE_SECONDS, verified } from './issuer.ts';
import type { Issuer } from './issuer.ts';

// The organisation's directory: an OpenID provider. What it is and where is read once by a process, from its discovery
// document. openid-client is loaded only then.

interface Directory extends Issuer {
  readonly client: typeof OpenIdClient;
  readonly configuration: OpenIdClient.Configuration;
}

/** As pages name a directory. */
export function hostOf({ issuer }: DirectorySettings): string {
  return new URL(issuer).host;
}

/** The secrets of a sign-in under way, which its answer must fit. */
export interface Asked {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/**
 * Makes the address at the directory where a person signs in, and the secrets that the answer is checked with.
 *
 * @param anew asks also those whom the directory knows already: someone else may sign in then.
 * @throws Problem 503 `directory_unavailable`
 */
export async function askToSignIn(
  settings: DirectorySettings,
  { redirectUri, anew }: { readonly redirectUri: string; readonly anew: boolean },
): Promise<Asked & { readonly url: URL }> {
  const { client, configuration } = await directoryOf(settings);
  const [state, nonce, verifier] = [
    client.randomState(),
    client.randomNonce(),
    client.randomPKCECodeVerifier(),
  ];
  const parameters = {
    redirect_uri: redirectUri,
    response_mode: 'query',
    scope: 'openid profile',
    state,
    nonce,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(anew && { prompt: 'login' }),
  };
  try {
    return { state, nonce, verifier, url: client.buildAuthorizationUrl(configuration, parameters) };
  } catch (error) {
    throw unavailable(settings.issuer, error);
  }
}

/** A token of a sign-in is issued during it. Entra ID dates its tokens five minutes back. */
const OLDEST_ANSWER_SECONDS = HOUR / SECOND;

/**
 * Exchanges the code of an answer for the token that says who signed in.
 *
 * @param answer the address that the directory sent the browser to.
 * @throws Problem 403 `directory_refused`; 502 `directory_answer_invalid`; 503 `directory_unavailable`.
 */
export async function takeAnswer(
  settings: DirectorySettings,
  answer: URL,
  { state, nonce, verifier }: Asked,
): Promise<{ readonly claims: JWTPayload; readonly idToken: string }> {
  const { client, configuration } = await directoryOf(settings);
  try {
    const tokens = await client.authorizationCodeGrant(configuration, answer, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    });
    const idToken = tokens.id_token ?? '';
    return { claims: await verifyByDirectory(idToken, settings, OLDEST_ANSWER_SECONDS), idToken };
  } catch (error) {
    throw refusedAnswer(error, client, settings);
  }
}

/**
 * Verifies a token that the directory issued for this application, and is not older than that.
 *
 * @throws an error of jose; Problem 503 `directory_unavailable`.
 */
export async function verifyByDirectory(
  token: string,
  settings: DirectorySettings,
  maxAgeSeconds: number,
): Promise<JWTPayload> {
  const { client: _, configuration: __, ...issuer } = await directoryOf(settings);
  try {
    return await verified(token, issuer, maxAgeSeconds);
  } catch (error) {
    if (isKeyServerDown(error)) throw unavailable(settings.issuer, error);
    throw error;
  }
}

/** Keycloak reads addresses of up to 4,096 bytes. The token of someone in a hundred groups is longer. */
const LONGEST_HINT = 3000;

/** Where the directory ends its own session, and comes back from; null where it does not do that. */
export async function signOutUrl(
  settings: DirectorySettings,
  { idToken, backTo }: { readonly idToken: string; readonly backTo: string },
): Promise<URL | null> {
  try {
    const { client, configuration } = await directoryOf(settings);
    if (configuration.serverMetadata().end_session_endpoint === undefined) return null;
    return client.buildEndSessionUrl(configuration, {
      // Without it the directory asks the person whether to sign out.
      ...(idToken.length <= LONGEST_HINT && { id_token_hint: idToken }),
      post_logout_redirect_uri: backTo,
    });
  } catch (error) {
    // The session here has ended; the directory's own is nothing that anybody has to wait for.
    unavailable(settings.issuer, error);
    return null;
  }
}

/** Finds out whether people can sign in with the directory. @returns a sentence where they cannot. */
export async function doubtfulDirectory({ directory }: OperatorSettings): Promise<readonly string[]> {
  if (!directory) return [];
  try {
    await directoryOf(directory);
    return [];
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return [
      `The directory ${hostOf(directory)} gives no usable answer: nobody can sign in with it. The log says what is wrong.`,
    ];
  }
}

/** Of public keys only, which must never serve as a shared secret. */
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'];

const known = new Map<string, Promise<Directory>>();

/** @throws Problem 503 `directory_unavailable`, and asks again the next time. */
async function directoryOf(settings: DirectorySettings): Promise<Directory> {
  const { issuer, clientId, clientSecret } = settings;
  const key = JSON.stringify([issuer, clientId, clientSecret]);
  const found = known.get(key) ?? discover(settings);
  known.set(key, found);
  try {
    return await found;
  } catch (error) {
    known.delete(key);
    throw unavailable(issuer, error);
  }
}

async function discover({
  issuer: configured,
  clientId,
  clientSecret,
}: DirectorySettings): Promise<Directory> {
  const client = await import('./openid-client.ts');
  const server = new URL(configured);
  const isLocal = server.protocol === 'http:';
  const [byPost, byHeader] = [client.ClientSecretPost(clientSecret), client.ClientSecretBasic(clientSecret)];
  const configuration = await client.discovery(
    server,
    clientId,
    { [client.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
    (as, ...request) => {
      const takesPost = as.token_endpoint_auth_methods_supported?.includes('client_secret_post') ?? false;
      return (takesPost ? byPost : byHeader)(as, ...request);
    },
    { timeout: PATIENCE_SECONDS, ...(isLocal && { execute: [client.allowInsecureRequests] }) },
  );
  const { issuer, jwks_uri: keys = '' } = configuration.serverMetadata();
  const keyServer = new URL(keys);
  if (keyServer.protocol !== 'https:' && !isLocal) throw new TypeError('the keys are served without HTTPS');
  return {
    client,
    configuration,
    issuer,
    keys: keysAt(keyServer),
    audience: clientId,
    algorithms: ALGORITHMS,
    requiredClaims: ['exp', 'iat', 'sub'],
  };
}
