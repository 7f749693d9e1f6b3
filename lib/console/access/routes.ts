import * as z from 'zod';

import type { OperatorSettings } from '../../platform/config.ts';
import { mediaTypes } from '../../platform/http/body.ts';
import { answered, HTML_TYPE, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import type { Answer as DescribedAnswer, Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { readContent, validated } from '../../platform/http/validated.ts';
import { HOUR, MINUTE, SECOND } from '../../platform/time.ts';
import { HOME } from '../kit/links.ts';
import { nextPath } from '../kit/next-path.ts';
import { withDatabase } from '../kit/database-away.ts';
import { operatorRoute } from '../kit/route.ts';
import type { Answer, PublicRoute, Visit } from '../kit/route.ts';
import { unsentIn } from '../kit/unsent.ts';
import { invalidToken, requireScope, tokenOf, verifyToken } from './authenticate.ts';
import { bouncePage } from './bounce.ts';
import { noSessionCookie, SESSION_COOKIE, sessionCookie, sessionHandle } from './cookies.ts';
import { directoryRoutes } from './directory-routes.ts';
import { signOutUrl } from './directory.ts';
import { fetchSite, SAME_ORIGIN, signInLimits } from './own-pages.ts';
import { codePage, signInPage } from './page.ts';
import { directoryIn, refusal } from './refusal.ts';
import { HANDLE, keepNote, readNote, spendNote } from './sealed-notes.ts';
import { endSession } from './session.ts';
import { showingAgain, SIGN_IN_LIMIT_BYTES } from './unsent.ts';

// Operators sign in with a token and out again. Such a session is the token itself, in a cookie that scripts cannot read.

const SIGN_IN_PATH = `${HOME}/sign-in`;
const CODE_PATH = `${SIGN_IN_PATH}/code`;
const SIGN_OUT_PATH = `${HOME}/sign-out`;

/** How long a sign-in link works: enough to go from the terminal to the browser. */
const LINK_LIFE_MS = 10 * MINUTE;

export const signInRequest = z.object({
  token: z
    .string('paste a token')
    .trim()
    // A token copied from a curl command comes with the scheme.
    .transform((token) => token.replace(/^bearer +/i, ''))
    .pipe(z.string().min(1, 'paste a token'))
    .meta({ minLength: 1, description: 'An operator’s token, with or without `Bearer` before it.' }),
  next: z.string().optional().meta({ description: 'The page of the console to open next.' }),
  unsent: z.string().optional().meta({
    description: 'A form that was sent without a session. The next page shows it again and sends nothing.',
  }),
});

const code = z
  .string('open the whole link')
  .regex(/^[\w-]{22}$/, 'expected 22 letters, digits, _ or -, as in the link')
  .meta({ description: 'The code of a sign-in link.' });

const SEE_OTHER: DescribedAnswer = {
  status: 303,
  description: 'The same for a browser: redirects to the next page.',
  headers: ['Location', 'Set-Cookie'],
};

const SIGN_IN_PROBLEMS: PublicRoute['problems'] = [
  'validation_failed',
  'token_too_long',
  'incomplete_body',
  'invalid_token',
  'cross_site_request',
  'insufficient_scope',
  'no_role',
  'not_acceptable',
  'body_too_large',
  'unsupported_media_type',
  'unsupported_encoding',
  'rate_limited',
  'operators_not_configured',
  'key_server_unavailable',
  'directory_unavailable',
];

/** A code, its name, and room. */
const CODE_LIMIT_BYTES = 1024;

export const showSignIn: PublicRoute = {
  id: 'showSignIn',
  method: 'get',
  path: SIGN_IN_PATH,
  tag: 'Sign-in',
  summary: 'Get the form that takes a token',
  description: 'For people. Programs need no session: they send the token with each request.',
  access: 'anyone',
  hasPages: true,
  parameters: [
    {
      in: 'query',
      name: 'code',
      description: 'Of a sign-in link; to look at it uses nothing up.',
      schema: code,
    },
  ],
  answers: [
    {
      status: 200,
      description: 'The form; for a program, a hint to send the token instead.',
      content: { [JSON_TYPE]: z.object({ detail: z.string() }), [HTML_TYPE]: z.string() },
    },
  ],
  problems: ['not_acceptable'],
  examples: {
    'by-a-program': {
      summary: 'By a program',
      answer: answered({
        detail: 'Programs need no session: send Authorization: Bearer <JWT> with every request.',
      }),
    },
    'by-a-browser': { summary: 'By a browser', answer: { status: 200, type: HTML_TYPE } },
  },
  handle: showForm,
};

export const signIn: PublicRoute = {
  id: 'signIn',
  method: 'post',
  path: SIGN_IN_PATH,
  tag: 'Sign-in',
  summary: 'Store a token in the session’s cookie',
  description: 'The session lasts as long as the token is valid, at most 8 hours.',
  access: 'anyone',
  hasPages: true,
  isLimited: true,
  parameters: [fetchSite],
  body: { schema: signInRequest, forms: true, limitBytes: SIGN_IN_LIMIT_BYTES },
  answers: [
    {
      status: 200,
      description: 'Signed in.',
      content: {
        [JSON_TYPE]: z.object({ next: z.string().meta({ description: 'The page to open next.' }) }),
      },
      headers: ['Set-Cookie'],
    },
    SEE_OTHER,
    {
      status: 307,
      description: 'The same for a browser with `unsent`: sends that on to the next page, which shows it.',
      headers: ['Location', 'Set-Cookie'],
    },
  ],
  problems: SIGN_IN_PROBLEMS,
  examples: {
    'a-token-that-is-none': {
      summary: 'With a token that is not signed by a known key',
      parameters: SAME_ORIGIN,
      json: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk' },
      answer: refused('invalid_token'),
    },
    'from-another-site': {
      summary: 'From a page of another site',
      parameters: { 'Sec-Fetch-Site': 'cross-site' },
      json: { token: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmVk' },
      answer: refused('cross_site_request'),
    },
  },
  limits: signInLimits,
  handle: startSession,
};

export const signInByCode: PublicRoute = {
  id: 'signInByCode',
  method: 'post',
  path: CODE_PATH,
  tag: 'Sign-in',
  summary: 'Use a sign-in link up, and store its token in the session’s cookie',
  description: 'A code works once, within 10 minutes.',
  access: 'anyone',
  hasPages: true,
  isLimited: true,
  parameters: [fetchSite],
  body: { schema: z.object({ code }), forms: true, limitBytes: CODE_LIMIT_BYTES },
  answers: [
    {
      status: 200,
      description: 'Signed in.',
      content: {
        [JSON_TYPE]: z.object({ next: z.string().meta({ description: 'The page to open next.' }) }),
      },
      headers: ['Set-Cookie'],
    },
    SEE_OTHER,
  ],
  problems: [...SIGN_IN_PROBLEMS, 'sign_in_code_spent', 'database_unavailable'],
  examples: {
    'a-code-that-was-used': {
      summary: 'With a code that was used already',
      parameters: SAME_ORIGIN,
      json: { code: 'q5Zb0mJxR2uYk7v1tPw3Ng' },
      answer: refused('sign_in_code_spent'),
    },
  },
  limits: signInLimits,
  handle: startSessionByCode,
};

const signInLink = z.object({
  url: z.url().meta({ description: 'Opens the console, once.' }),
  expiresInSeconds: z.int().meta({ description: 'How long the link works.' }),
});

export const makeSignInLink = operatorRoute({
  id: 'makeSignInLink',
  path: `${SIGN_IN_PATH}/links`,
  scope: 'event-bus:read',
  summary: 'Make a short link that signs a browser in with the token of this request, once',
  body: z.object({}),
  answer: signInLink,
  examples: {
    'a-link': {
      summary: 'A link for the token that was sent',
      json: {},
      answer: answered({
        url: `https://postbud.example${SIGN_IN_PATH}?code=q5Zb0mJxR2uYk7v1tPw3Ng`,
        expiresInSeconds: LINK_LIFE_MS / SECOND,
      }),
    },
  },
  handle: async ({ request, url, bus }) => {
    const { token: text } = tokenOf(request);
    // Only a token can be given to another browser: a session ends where it began.
    if (HANDLE.test(text)) throw new Problem('unauthorized', { headers: { 'www-authenticate': 'Bearer' } });
    const made = await keepNote(await bus.database(), 'sign-in', { text, lifeMs: LINK_LIFE_MS });
    return { url: `${url.origin}${SIGN_IN_PATH}?code=${made}`, expiresInSeconds: LINK_LIFE_MS / SECOND };
  },
});

export const signOut: PublicRoute = {
  id: 'signOut',
  method: 'post',
  path: SIGN_OUT_PATH,
  tag: 'Sign-in',
  summary: 'End the session',
  description:
    'One that began at the directory ends at once, here and there. A token stays valid until it expires; the browser forgets it.',
  access: 'anyone',
  hasPages: true,
  parameters: [fetchSite],
  answers: [
    {
      status: 200,
      description: 'Signed out.',
      content: { [JSON_TYPE]: z.object({ signedOut: z.literal(true) }), [HTML_TYPE]: z.string() },
      headers: ['Set-Cookie'],
    },
    SEE_OTHER,
  ],
  problems: ['cross_site_request', 'not_acceptable', 'database_unavailable'],
  examples: {
    'by-a-program': {
      summary: 'By a program',
      parameters: SAME_ORIGIN,
      answer: answered({ signedOut: true }),
    },
    'by-a-browser': { summary: 'By a browser', parameters: SAME_ORIGIN, answer: { status: 303 } },
  },
  handle: leave,
};

export const accessRoutes = [showSignIn, signIn, signInByCode, makeSignInLink, ...directoryRoutes, signOut];

const PROGRAMS = 'Programs need no session: send Authorization: Bearer <JWT> with every request.';

async function showForm({ url, settings }: Visit): Promise<Answer<void>> {
  const next = nextPath(url.searchParams.get('next'));
  const linked = url.searchParams.get('code');
  // Previews of links open them too, so the form that this shows uses the code up.
  if (linked !== null) return { json: { detail: PROGRAMS }, page: () => codePage(CODE_PATH, linked) };
  const directory = directoryIn(settings);
  return { json: { detail: PROGRAMS }, page: () => signInPage({ next, directory, problem: null }) };
}

async function startSession(visit: Visit): Promise<Answer<void>> {
  const { request, wantsHtml, settings } = visit;
  const content = await readContent(request, mediaTypes, SIGN_IN_LIMIT_BYTES);
  const { token, next, ...sent } = validated(content, signInRequest);
  const path = nextPath(next);
  const unsent = unsentIn(sent.unsent);
  try {
    const headers = { 'set-cookie': await tokenCookie(token, settings(), unsent?.scope) };
    await endFormer(visit);
    if (unsent === null) return { json: { next: path }, seeOther: path, headers };
    return { json: { next: path }, seeOther: showingAgain(path), withForm: true, headers };
  } catch (error) {
    const directory = directoryIn(settings);
    return refusal(error, wantsHtml, { next: path, unsent, directory });
  }
}

async function startSessionByCode(visit: Visit): Promise<Answer<void>> {
  const { request, requestId, wantsHtml, settings, bus } = visit;
  try {
    const sent = validated(await readContent(request, mediaTypes, CODE_LIMIT_BYTES), z.object({ code }));
    const token = await withDatabase(
      bus,
      { requestId, isAction: false },
      async (own) => await readNote(await own.database(), 'sign-in', sent.code),
    );
    if (token === null) throw new Problem('sign_in_code_spent');
    // Before the code is spent: while the key server is down, the link stays good.
    const headers = { 'set-cookie': await tokenCookie(token, settings()) };
    const spent = await withDatabase(
      bus,
      { requestId, isAction: true },
      async (own) => await spendNote(await own.database(), 'sign-in', sent.code),
    );
    if (spent === null) throw new Problem('sign_in_code_spent');
    await endFormer(visit);
    return { json: { next: HOME }, seeOther: HOME, headers };
  } catch (error) {
    return refusal(error, wantsHtml, { next: HOME, directory: directoryIn(settings) });
  }
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
async function endOwn({ request, requestId, bus }: Visit): Promise<string | null> {
  const handle = sessionHandle(request);
  if (handle === undefined) return null;
  return await withDatabase(
    bus,
    { requestId, isAction: true },
    async (own) => await endSession(await own.database(), handle),
  );
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

/** Ends a session of the directory at once, for whoever has its cookie. A token stays valid until it expires. */
async function leave(visit: Visit): Promise<Answer<void>> {
  const { url, settings } = visit;
  const headers = { 'set-cookie': noSessionCookie() };
  const given = { json: { signedOut: true }, headers };
  const idToken = await endOwn(visit);
  const { directory } = settings();
  const backTo = `${url.origin}${SIGN_IN_PATH}`;
  const there = directory && idToken !== null ? await signOutUrl(directory, { idToken, backTo }) : null;
  return there ? { ...given, page: () => bouncePage(there) } : { ...given, seeOther: SIGN_IN_PATH };
}
