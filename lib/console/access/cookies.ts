import { parse, serialize } from 'hono/utils/cookie';

import { HOUR, MINUTE, SECOND } from '../../platform/time.ts';
import { HANDLE } from './sealed-notes.ts';

/**
 * Holds the token of a signed-in operator or, of one who came from the directory, the handle of a session. The prefix
 * guarantees that this host set it, over HTTPS.
 */
export const SESSION_COOKIE = '__Host-event-bus';

/**
 * Tells the browser that began a sign-in with the directory from any other. All its tabs have the same. It comes along
 * when the directory sends the browser back, which a `Strict` cookie does not.
 */
const SIGN_IN_COOKIE = '__Host-event-bus-sign-in';

/** Long enough to sign in at the directory, with a telephone in the other hand. */
export const SIGN_IN_LIFE_MS = 10 * MINUTE;

/** How long a sign-in is known, so that who comes too late still gets back to the page that was asked for. */
export const SIGN_IN_KEPT_MS = HOUR;

const ATTRIBUTES = { path: '/', secure: true, httpOnly: true } as const;

export function sessionCookie(value: string, maxAge: number): string {
  return serialize(SESSION_COOKIE, value, { ...ATTRIBUTES, sameSite: 'Strict', maxAge });
}

/** Removes the session's cookie from the browser. */
export const noSessionCookie = () => sessionCookie('', 0);

export function signInCookie(browser: string): string {
  return serialize(SIGN_IN_COOKIE, browser, {
    ...ATTRIBUTES,
    sameSite: 'Lax',
    maxAge: SIGN_IN_KEPT_MS / SECOND,
  });
}

/** Reads the token or the handle of a session without verifying it. @returns undefined without a session. */
export function sessionToken(request: Request): string | undefined {
  return cookieOf(request, SESSION_COOKIE);
}

/** Reads the handle of a session of the directory. @returns undefined without a session, or with one of a token. */
export function sessionHandle(request: Request): string | undefined {
  return handleOf(request, SESSION_COOKIE);
}

/** Reads which browser began a sign-in. @returns undefined where none did within the last hour. */
export function browserOf(request: Request): string | undefined {
  return handleOf(request, SIGN_IN_COOKIE);
}

function handleOf(request: Request, cookie: string): string | undefined {
  const value = cookieOf(request, cookie);
  return value !== undefined && HANDLE.test(value) ? value : undefined;
}

function cookieOf({ headers }: Request, name: string): string | undefined {
  return parse(headers.get('cookie') ?? '', name)[name] || undefined;
}
