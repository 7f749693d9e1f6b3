import * as z from 'zod';

import type { OperatorSettings } from '../../platform/operator-settings.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { HOUR, MINUTE, SECOND } from '../../platform/time.ts';
import { hiddenField } from '../kit/actions.ts';
import { HOME, nextPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import type { Answer, Visit } from '../kit/route.ts';
import { showingAgain, SIGN_IN_LIMIT_BYTES, unsentIn } from './unsent.ts';
import { invalidToken, requireScope, tokenOf, verifyToken } from './authenticate.ts';
import { directoryRoutes } from './directory-routes.ts';
import { signOutUrl } from './directory.ts';
import { bouncePage, sendingPage, signInPage, directoryIn, refusal } from './page.ts';
import {
  HANDLE,
  keepNote,
  readNote,
  spendNote,
  noSessionCookie,
  SESSION_COOKIE,
  sessionCookie,
  sessionHandle,
  endSession,
} from './session.ts';
import { inDatabase, leadsOn, nextAnswer, signInRoute } from './sign-in-route.ts';

// Operators sign in with a token and out again. Such a session is the token itself, in a cookie that scripts cannot read.

const SIGN_IN_PATH = `${HOME}/sign-in`;

/** How long a sign-in link works: enough to go from the terminal to the browser. */
const LINK_LIFE_MS = 10 * MINUTE;

const code = z
  .string('open the whole link')
  .regex(/^[\w-]{22}$/, 'expected 22 letters, digits, _ or -, as in the link')
  .describe('The code of a sign-in link.');

export const signInRequest = z
  .object({
    token: z
      .string()
      .trim()
      // A token copied from a curl command comes with the scheme.
      .transform((token) => token.replace(/^bearer +/i, ''))
      .pipe(z.string().min(1, 'paste a token'))
      .meta({ minLength: 1, description: 'An operator’s token, with or without `Bearer` before it.' })
      .optional(),
    code: code.optional(),
    ...leadsOn,
  })
  .refine(({ token, code: linked }) => token !== undefined || linked !== undefined, {
    path: ['token'],
    message: 'paste a token',
  });

const PROGRAMS = 'Programs need no session: send Authorization: Bearer <JWT> with every request.';

export const showSignIn = signInRoute({
  id: 'showSignIn',
  method: 'get',
  path: SIGN_IN_PATH,
  summary: 'Get the form that takes a token',
  description: 'For people. Programs need no session: they send the token with each request.',
  parameters: [
    {
      in: 'query',
      name: 'code',
      description: 'Of a sign-in link; to look at it uses nothing up.',
      schema: code,
    },
  ],
  answer: z.object({ detail: z.string() }),
  says: 'The form; for a program, a hint to send the token instead.',
  isPage: true,
  handle: async ({ url, settings }) => {
    const next = nextPath(url.searchParams.get('next'));
    const linked = url.searchParams.get('code');
    // Previews of links open them too, so the form that this shows uses the code up.
    if (linked !== null) return { json: { detail: PROGRAMS }, page: () => codePage(linked) };
    const directory = directoryIn(settings);
    return { json: { detail: PROGRAMS }, page: () => signInPage({ next, directory, problem: null }) };
  },
});

export const signIn = signInRoute({
  id: 'signIn',
  method: 'post',
  path: SIGN_IN_PATH,
  summary: 'Store a token, or that of a sign-in link, in the session’s cookie',
  description:
    'The session lasts as long as the token is valid, at most 8 hours. The code of a link works once, within 10 minutes.',
  body: { schema: signInRequest, limitBytes: SIGN_IN_LIMIT_BYTES },
  limited: '',
  answer: nextAnswer,
  says: 'Signed in.',
  redirects: [303, 307],
  problems: [
    'token_too_long',
    'invalid_token',
    'insufficient_scope',
    'no_role',
    'operators_not_configured',
    'key_server_unavailable',
    'directory_unavailable',
    'sign_in_code_spent',
    'database_unavailable',
  ],
  handle: async (visit, read) => {
    const { token: pasted, code: linked = '', ...sent } = await read();
    const next = nextPath(sent.next);
    const unsent = unsentIn(sent.unsent);
    try {
      const token = pasted ?? (await inDatabase(visit, (db) => readNote(db, 'sign-in', linked)));
      if (token === null) throw new Problem('sign_in_code_spent');
      // Before the code is spent: while the key server is down, the link stays good.
      const headers = { 'set-cookie': await tokenCookie(token, visit.settings(), unsent?.scope) };
      if (pasted === undefined) await spend(visit, linked);
      await endFormer(visit);
      if (unsent === null) return { json: { next }, seeOther: next, headers };
      return { json: { next }, seeOther: showingAgain(next), withForm: true, headers };
    } catch (error) {
      return refusal(error, visit, { next, unsent, isTokenWrong: true });
    }
  },
});

const signInLink = z.object({
  url: z.url().describe('Opens the console, once.'),
  expiresInSeconds: z.int().describe('How long the link works.'),
});

export const makeSignInLink = operatorRoute({
  id: 'makeSignInLink',
  path: `${SIGN_IN_PATH}/links`,
  scope: 'event-bus:read',
  summary: 'Make a short link that signs a browser in with the token of this request, once',
  body: z.object({}),
  answer: signInLink,
  handle: async ({ request, url, bus }) => {
    const { token: text } = tokenOf(request);
    // Only a token can be given to another browser: a session ends where it began.
    if (HANDLE.test(text)) throw new Problem('unauthorized', { headers: { 'www-authenticate': 'Bearer' } });
    const made = await keepNote(await bus.database(), 'sign-in', { text, lifeMs: LINK_LIFE_MS });
    return { url: `${url.origin}${SIGN_IN_PATH}?code=${made}`, expiresInSeconds: LINK_LIFE_MS / SECOND };
  },
});

export const signOut = signInRoute({
  id: 'signOut',
  method: 'post',
  path: `${HOME}/sign-out`,
  summary: 'End the session',
  description:
    'One that began at the directory ends at once, here and there. A token stays valid until it expires; the browser forgets it.',
  answer: z.object({ signedOut: z.literal(true) }),
  says: 'Signed out.',
  redirects: [303],
  isPage: true,
  problems: ['database_unavailable'],
  // A session of the directory ends for whoever has its cookie. A token stays valid until it expires.
  handle: async (visit): Promise<Answer<void>> => {
    const given = { json: { signedOut: true }, headers: { 'set-cookie': noSessionCookie() } };
    const idToken = await endOwn(visit);
    const { directory } = visit.settings();
    const backTo = `${visit.url.origin}${SIGN_IN_PATH}`;
    const there = directory && idToken !== null ? await signOutUrl(directory, { idToken, backTo }) : null;
    return there ? { ...given, page: () => bouncePage(there) } : { ...given, seeOther: SIGN_IN_PATH };
  },
});

export const accessRoutes = [showSignIn, signIn, makeSignInLink, ...directoryRoutes, signOut];

function codePage(linked: string) {
  const words = 'This link works once. The session then lasts at most 8 hours.';
  return sendingPage(SIGN_IN_PATH, 'Sign in to the event bus', words, hiddenField('code', linked));
}

/** @throws Problem 410 `sign_in_code_spent`, also to one of two who use a link at the same time. */
async function spend(visit: Visit, linked: string): Promise<void> {
  const spent = await inDatabase(visit, (db) => spendNote(db, 'sign-in', linked), true);
  if (spent === null) throw new Problem('sign_in_code_spent');
}

/** Ends the session of the directory that a token's takes the place of. Without the database it lasts its hour. */
async function endFormer(visit: Visit): Promise<void> {
  try {
    await endOwn(visit);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}

/** Ends the browser's session, if it is of the directory. @returns the directory's token. */
async function endOwn(visit: Visit): Promise<string | null> {
  const handle = sessionHandle(visit.request);
  return handle === undefined ? null : await inDatabase(visit, (db) => endSession(db, handle), true);
}

/** A working day; after that the operator signs in again. */
const LONGEST_SESSION_SECONDS = (8 * HOUR) / SECOND;

/** Browsers silently drop cookies of more than 4,096 bytes. Some of them count the attributes. */
const LONGEST_COOKIE_BYTES = 4000;

/** @throws Problem 400 `token_too_long`; 401, 403 or 503 for a token without access to the console. */
async function tokenCookie(
  token: string,
  settings: OperatorSettings,
  needed: Scope = 'event-bus:read',
): Promise<string> {
  const { expiresAtSeconds, ...operator } = await verifyToken(token, settings, 'cookie');
  requireScope(operator, 'event-bus:read');
  requireScope(operator, needed);
  const secondsLeft = Math.floor(expiresAtSeconds - Date.now() / SECOND);
  // The verification tolerates a small clock difference, but the cookie would expire at once.
  if (secondsLeft <= 0) throw invalidToken();
  if (SESSION_COOKIE.length + token.length > LONGEST_COOKIE_BYTES) {
    throw new Problem('token_too_long', {
      detail: `The token is longer than ${LONGEST_COOKIE_BYTES} bytes, the most that a browser keeps in a cookie. Get one with fewer claims.`,
    });
  }
  return sessionCookie(token, Math.min(secondsLeft, LONGEST_SESSION_SECONDS));
}
