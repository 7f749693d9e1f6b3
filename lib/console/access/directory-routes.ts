import * as z from 'zod';

import type { DirectorySettings, OperatorSettings } from '../../platform/config.ts';
import { mediaTypes } from '../../platform/http/body.ts';
import { HTML_TYPE, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { readContent, validated } from '../../platform/http/validated.ts';
import { SECOND } from '../../platform/time.ts';
import { withDatabase } from '../kit/database-away.ts';
import { HOME } from '../kit/links.ts';
import { nextPath } from '../kit/next-path.ts';
import type { Answer, PublicRoute, Visit } from '../kit/route.ts';
import { unsentIn } from '../kit/unsent.ts';
import { requireScope } from './authenticate.ts';
import { bouncePage } from './bounce.ts';
import {
  browserOf,
  sessionCookie,
  SIGN_IN_KEPT_MS,
  SIGN_IN_LIFE_MS,
  signInCookie,
  sessionHandle,
} from './cookies.ts';
import { personIn, requireRole, scopesOf } from './directory-claims.ts';
import { askToSignIn, takeAnswer } from './directory.ts';
import type { Asked } from './directory.ts';
import { keepOperatorName } from './operator-name.ts';
import { fetchSite, SAME_ORIGIN, signInLimits } from './own-pages.ts';
import { carryingPage } from './page.ts';
import { directoryIn, refusal } from './refusal.ts';
import { keepNote, newHandle, spendNote } from './sealed-notes.ts';
import { endSession, keepSession, SESSION_LIFE_MS } from './session.ts';
import { showingAgain, SIGN_IN_LIMIT_BYTES } from './unsent.ts';

// Operators sign in with the organisation's directory: they are led there, and it sends them back with a code. Between
// the two, the database has a note of the sign-in, which only the browser that began it can open, and once.

const BEGIN_PATH = `${HOME}/sign-in/directory`;
const ANSWER_PATH = `${BEGIN_PATH}/callback`;

const beginRequest = z.object({
  next: z.string().optional().meta({ description: 'The page of the console to open next.' }),
  unsent: z.string().optional().meta({
    description: 'A form that was sent without a session. The next page shows it again and sends nothing.',
  }),
  anew: z.literal('true').optional().meta({
    description: 'Has the directory ask who it is also where it knows: for someone else.',
  }),
});

/** As many as of tokens, but counted apart: who has tried wrong tokens can still come by the directory. */
function limitsOf(step: 'directory' | 'answer') {
  return signInLimits.map((limit) => ({ ...limit, name: `${limit.name}-${step}` }));
}

const PROBLEMS: PublicRoute['problems'] = [
  'not_acceptable',
  'rate_limited',
  'operators_not_configured',
  'directory_unavailable',
  'database_unavailable',
];

const beginSignIn: PublicRoute = {
  id: 'signInWithDirectory',
  method: 'post',
  path: BEGIN_PATH,
  tag: 'Sign-in',
  summary: 'Begin a sign-in with the organisation’s directory',
  description:
    'OpenID Connect: an authorization code with PKCE. The cookie tells this browser from any other, for an hour. The sign-in has to end within 10 minutes.',
  access: 'anyone',
  hasPages: true,
  isLimited: true,
  parameters: [fetchSite],
  body: { schema: beginRequest, forms: true, limitBytes: SIGN_IN_LIMIT_BYTES },
  answers: [
    {
      status: 200,
      description:
        'The address at the directory, where the person signs in; for a browser, a page that leads there.',
      content: {
        [JSON_TYPE]: z.object({ url: z.url().meta({ description: 'To be opened by the same browser.' }) }),
        [HTML_TYPE]: z.string(),
      },
      headers: ['Set-Cookie'],
    },
  ],
  problems: [
    ...PROBLEMS,
    'validation_failed',
    'incomplete_body',
    'cross_site_request',
    'body_too_large',
    'unsupported_media_type',
    'unsupported_encoding',
  ],
  examples: {
    'by-a-browser': {
      summary: 'By a browser',
      parameters: SAME_ORIGIN,
      json: { next: HOME },
      answer: { status: 200, type: HTML_TYPE },
    },
    'from-another-site': {
      summary: 'From a page of another site',
      parameters: { 'Sec-Fetch-Site': 'cross-site' },
      json: { next: HOME },
      answer: refused('cross_site_request'),
    },
  },
  limits: limitsOf('directory'),
  handle: begin,
};

const finishSignIn: PublicRoute = {
  id: 'finishSignIn',
  method: 'get',
  path: ANSWER_PATH,
  tag: 'Sign-in',
  summary: 'Take the answer of the directory, once',
  description:
    'The redirect URI to register at the directory. It takes an answer in the query; a posted one is refused, and `HEAD` does nothing. The session lasts an hour.',
  access: 'anyone',
  hasPages: true,
  isLimited: true,
  parameters: ['code', 'state', 'iss', 'error'].map((name) => ({
    in: 'query',
    name,
    schema: z.string(),
  })),
  answers: [
    {
      status: 200,
      description: 'Signed in; for a browser, a page that leads on.',
      content: {
        [JSON_TYPE]: z.object({ next: z.string().meta({ description: 'The page to open next.' }) }),
        [HTML_TYPE]: z.string(),
      },
      headers: ['Set-Cookie'],
    },
  ],
  problems: [
    ...PROBLEMS,
    'sign_in_unknown',
    'directory_refused',
    'directory_answer_invalid',
    'no_role',
    'insufficient_scope',
  ],
  examples: {
    'of-no-sign-in': {
      summary: 'Without a sign-in that this browser began',
      parameters: { code: 'SplxlOBeZQQYbYS6WxSbIA', state: 'af0ifjsldkj' },
      answer: refused('sign_in_unknown'),
    },
  },
  limits: limitsOf('answer'),
  handle: finish,
};

export const directoryRoutes = [beginSignIn, finishSignIn];

/** A sign-in under way. */
interface Begun extends Asked {
  /** Left out by older releases, which keep it no longer than it may take. */
  readonly at?: number | undefined;
  /** The session that the browser had then: its cookie does not come along with the answer. */
  readonly former?: string | undefined;
  readonly next: string;
  /** As its form has it. */
  readonly unsent: string | null;
}

const begun = z.object({
  at: z.number().optional(),
  former: z.string().optional(),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  next: z.string(),
  unsent: z.string().nullable(),
});

async function begin({ request, requestId, url, wantsHtml, settings, bus }: Visit): Promise<Answer<void>> {
  const content = await readContent(request, mediaTypes, SIGN_IN_LIMIT_BYTES);
  const { next, unsent = null, anew } = validated(content, beginRequest);
  const form = { next: nextPath(next), unsent: unsentIn(unsent ?? undefined) };
  try {
    const { url: there, ...asked } = await askToSignIn(requireDirectory(settings()), {
      redirectUri: answerUrl(url).href,
      anew: anew !== undefined,
    });
    const browser = browserOf(request) ?? newHandle();
    const former = sessionHandle(request);
    const kept: Begun = { ...asked, at: Date.now(), former, next: form.next, unsent: form.unsent && unsent };
    const note = { text: JSON.stringify(kept), lifeMs: SIGN_IN_KEPT_MS, handle: browser + asked.state };
    await withDatabase(bus, { requestId, isAction: false }, async (own) =>
      keepNote(await own.database(), 'sign-in-under-way', note),
    );
    const headers = { 'set-cookie': signInCookie(browser) };
    return { json: { url: there.href }, page: () => bouncePage(there), headers };
  } catch (error) {
    return refusal(error, wantsHtml, { ...form, directory: directoryIn(settings), isOfDirectory: true });
  }
}

async function finish(visit: Visit): Promise<Answer<void>> {
  const { request, url, wantsHtml, settings } = visit;
  // Whoever only looks at a link must not use it up, nor be signed in by it.
  if (request.method === 'HEAD')
    return { json: { next: HOME }, page: () => bouncePage(new URL(HOME, url.origin)) };
  let sentFrom: Pick<Begun, 'next' | 'unsent'> = { next: HOME, unsent: null };
  try {
    const directory = requireDirectory(settings());
    const asked = await takeBegun(visit);
    sentFrom = asked;
    requireInTime(asked);
    const { claims, idToken } = await takeAnswer(directory, answerUrl(url), asked);
    const handle = await startSession(visit, directory, { claims, idToken, former: asked.former });
    const headers = { 'set-cookie': sessionCookie(handle, SESSION_LIFE_MS / SECOND) };
    const { next } = asked;
    const unsent = unsentIn(asked.unsent ?? undefined);
    const page = () =>
      unsent ? carryingPage(showingAgain(next), unsent) : bouncePage(new URL(next, url.origin));
    return { json: { next }, page, headers };
  } catch (error) {
    const form = { next: sentFrom.next, unsent: unsentIn(sentFrom.unsent ?? undefined) };
    return refusal(error, wantsHtml, { ...form, directory: directoryIn(settings), isOfDirectory: true });
  }
}

/** @throws Problem 410 `sign_in_unknown`. Of two answers to one sign-in, the second finds it gone. */
async function takeBegun({ request, requestId, url, bus }: Visit): Promise<Begun> {
  const browser = browserOf(request);
  const state = url.searchParams.get('state');
  if (browser === undefined || !state) throw new Problem('sign_in_unknown');
  const kept = await withDatabase(bus, { requestId, isAction: false }, async (own) =>
    spendNote(await own.database(), 'sign-in-under-way', browser + state),
  );
  if (kept === null) throw new Problem('sign_in_unknown');
  return begun.parse(JSON.parse(kept));
}

/** @throws Problem 410 `sign_in_unknown` */
function requireInTime({ at = Date.now() }: Begun): void {
  if (Date.now() - at <= SIGN_IN_LIFE_MS) return;
  throw new Problem('sign_in_unknown', {
    detail: 'This sign-in took longer than 10 minutes. Nobody was signed in. Sign in again.',
  });
}

/**
 * Starts a session in place of the one that the browser had.
 *
 * @throws Problem 403 for a person whose roles do not open the console.
 */
async function startSession(
  { requestId, bus }: Visit,
  directory: DirectorySettings,
  { claims, idToken, former }: Awaited<ReturnType<typeof takeAnswer>> & Pick<Begun, 'former'>,
): Promise<string> {
  const person = personIn(claims);
  if (person === null) throw new Problem('directory_answer_invalid', { detail: WITHOUT_SUBJECT });
  requireRole(person, claims, directory);
  const scopes = scopesOf(person, directory);
  requireScope({ scopes, isOfDirectory: true }, 'event-bus:read');
  return await withDatabase(bus, { requestId, isAction: false }, async (own) =>
    (await own.database()).transaction(async (tx) => {
      if (former !== undefined) await endSession(tx, former);
      await keepOperatorName(tx, person, scopes);
      return await keepSession(tx, directory, person, idToken);
    }),
  );
}

const WITHOUT_SUBJECT =
  'The directory did not say who you are: neither oid nor sub is a name. Nobody was signed in.';

/** @throws Problem 503 `operators_not_configured` */
function requireDirectory({ directory }: OperatorSettings): DirectorySettings {
  if (directory) return directory;
  throw new Problem('operators_not_configured', {
    detail: 'No directory is configured: set OPERATOR_OIDC_ISSUER, or sign in with a token.',
    retryAfterSeconds: 60,
  });
}

/** Where the directory sends the answer, with what it says. The directory has a list of these, which it keeps to. */
function answerUrl({ origin, search, pathname }: URL): URL {
  const isAnswer = pathname.endsWith(ANSWER_PATH);
  return new URL(`${ANSWER_PATH}${isAnswer ? search : ''}`, origin);
}
