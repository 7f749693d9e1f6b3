import * as z from 'zod';

import { mintToken } from '../cli/operator-token.ts';
import { SCOPES } from '../lib/platform/scopes.ts';
import { SECOND } from '../lib/platform/time.ts';

/** Makes a link to the console that signs a developer in, once. @returns the console without a link where none can be made. */
export async function signInUrl(url: string): Promise<string> {
  const token = await mintToken({ sub: 'developer', scope: SCOPES.join(' '), expires: '8h' });
  return (token !== null && (await signInLink(url, token))) || `${url}/platform/event-bus`;
}

/** Asks a server for a link that signs in with a token, once. @returns null if it does not answer or refuses. */
export async function signInLink(url: string, token: string): Promise<string | null> {
  const answer = await fetch(`${url}/platform/event-bus/sign-in/links`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      accept: 'application/json',
      'content-type': 'application/json',
    },
    body: '{}',
    signal: AbortSignal.timeout(10 * SECOND),
  }).catch(() => null);
  const { data } = made.safeParse(answer?.ok ? await answer.json() : null);
  return data?.url ?? null;
}

const made = z.object({ url: z.url() });
