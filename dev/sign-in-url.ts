import { mintToken } from './operator-token.ts';

/**
 * A link to the console with a token that is filled in for whoever follows it. What follows the `#` of a URL is not
 * sent, so that it stands in no log.
 */
export async function signInUrl(url: string): Promise<string> {
  const scope = 'event-bus:read event-bus:replay event-bus:reveal';
  const token = await mintToken({ sub: 'developer', scope, expires: '8h' });
  return `${url}/platform/event-bus${token === null ? '' : `/sign-in#token=${token}`}`;
}
