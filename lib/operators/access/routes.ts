import { serialize } from 'hono/utils/cookie';
import * as z from 'zod';

import type { OperatorSettings } from '../../config.ts';
import { Problem } from '../../http/problem.ts';
import type { Limit } from '../../rate-limit/limiter.ts';
import type { VisitorLimits } from '../../rate-limit/visit.ts';
import { HOUR, MINUTE, SECOND } from '../../time.ts';
import { invalidToken, requireScope, SESSION_COOKIE, verifyToken } from './authenticate.ts';
import { HOME } from '../page/links.ts';
import { signInPage } from './page.ts';
import { readSent } from './endpoint.ts';
import type { Answer, PublicRoute, Visit } from './endpoint.ts';

/** Where the form to sign in is, and where it is sent. */
const SIGN_IN_PATH = `${HOME}/sign-in`;
const SIGN_OUT_PATH = `${HOME}/sign-out`;

/** Ten a minute are more than a person needs; sixty an hour leave nothing to try tokens with. */
export const signInLimits: readonly Limit[] = [
  { name: 'sign-in-min', limit: 10, windowMs: MINUTE },
  { name: 'sign-in-hour', limit: 60, windowMs: HOUR },
];

/**
 * Lets people sign in with a token and out again. A session is the token itself in a cookie that scripts can't read.
 *
 * @param visitorLimits how often one visitor may sign in: `signInLimits`, and where they are counted.
 */
export function sessionRoutes(options: {
  readonly settings: () => OperatorSettings;
  readonly visitorLimits: () => VisitorLimits;
}): readonly PublicRoute[] {
  const { settings, visitorLimits } = options;
  return [
    { method: 'GET', path: SIGN_IN_PATH, scope: null, handle: async ({ url }) => form(url) },
    {
      method: 'POST',
      path: SIGN_IN_PATH,
      scope: null,
      visitorLimits,
      handle: async (visit) => await signIn(visit, settings()),
    },
    { method: 'POST', path: SIGN_OUT_PATH, scope: null, handle: async () => signOut() },
  ];
}

/**
 * Takes only paths of the console for where to go after signing in, so that no link to us leads elsewhere.
 *
 * @returns the path with its query; the overview's for anything else.
 */
export function nextPath(wanted: string | null | undefined): string {
  // The URL parser reads a backslash as a slash and drops tabs and line breaks: none of it belongs in a path of ours.
  if (!wanted || wanted.length > 2000 || !/^\/[\x21-\x5b\x5d-\x7e]*$/.test(wanted)) return HOME;
  const base = 'https://console.invalid';
  if (!URL.canParse(wanted, base)) return HOME;
  const { origin, pathname, search } = new URL(wanted, base);
  return origin === base && PAGE.test(pathname) ? pathname + search : HOME;
}

/** No path of ours needs an escape, none has an empty segment, and nobody wants to sign in or out next. */
const PAGE = new RegExp(String.raw`^${HOME}(?!/sign-(in|out)/?$)(/[\w.~!$&'()*+,;=:@-]+)*/?$`);

function form(url: URL): Answer<void> {
  const next = nextPath(url.searchParams.get('next'));
  return {
    json: { detail: 'Programs need no session: send Authorization: Bearer <JWT> with every request.' },
    page: () => signInPage({ next, problem: null }),
  };
}

export const signInRequest = z.object({
  token: z
    .string('paste a token')
    .trim()
    // Whoever copies it from a command of curl has the scheme too.
    .transform((token) => token.replace(/^bearer +/i, ''))
    .pipe(z.string().min(1, 'paste a token'))
    .meta({ minLength: 1, description: 'An operator’s token, with or without `Bearer` before it.' }),
  next: z.string().optional().meta({ description: 'The page of the console to go on to.' }),
});

async function signIn({ request, wantsHtml }: Visit, settings: OperatorSettings): Promise<Answer<void>> {
  const { token, next } = await readSent(request, signInRequest);
  const path = nextPath(next);
  try {
    const headers = { 'set-cookie': await sessionCookie(token, settings) };
    return { json: { next: path }, seeOther: path, headers };
  } catch (error) {
    if (!wantsHtml || !(error instanceof Problem) || error.status >= 500) throw error;
    const { status, code, detail, headers } = error;
    return { status, json: { code }, headers, page: () => signInPage({ next: path, problem: detail }) };
  }
}

/** A day's work; whoever needs longer signs in again. */
const LONGEST_SESSION_SECONDS = (8 * HOUR) / SECOND;

/** Browsers drop a cookie of more than 4,096 bytes, and say nothing. Attributes count in some of them. */
const LONGEST_COOKIE_BYTES = 4000;

const ATTRIBUTES = { path: '/', secure: true, httpOnly: true, sameSite: 'Strict' } as const;

/** @throws Problem 400 `token_too_long`; 401, 403 or 503 for a token that may not see the console. */
async function sessionCookie(token: string, settings: OperatorSettings): Promise<string> {
  const { scopes, expiresAtSeconds } = await verifyToken(token, settings);
  requireScope({ scopes }, 'event-bus:read');
  const secondsLeft = Math.floor(expiresAtSeconds - Date.now() / SECOND);
  // The verification lets clocks differ by a little; a browser's cookie would be gone at once.
  if (secondsLeft <= 0) throw invalidToken();
  if (SESSION_COOKIE.length + token.length > LONGEST_COOKIE_BYTES) {
    throw new Problem('token_too_long', {
      detail: `The token is longer than ${LONGEST_COOKIE_BYTES} bytes, the most that a browser keeps in a cookie. Get one with fewer claims.`,
    });
  }
  const maxAge = Math.min(secondsLeft, LONGEST_SESSION_SECONDS);
  return serialize(SESSION_COOKIE, token, { ...ATTRIBUTES, maxAge });
}

/** The token stays valid until it expires: this browser forgets it. */
function signOut(): Answer<void> {
  return {
    json: { signedOut: true },
    seeOther: SIGN_IN_PATH,
    headers: { 'set-cookie': serialize(SESSION_COOKIE, '', { ...ATTRIBUTES, maxAge: 0 }) },
  };
}
