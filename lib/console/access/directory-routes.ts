import { sql } from 'drizzle-orm';
import * as z from 'zod';

import { operatorNames } from '../../../drizzle/schema.ts';
import type { DirectorySettings, OperatorSettings } from '../../platform/operator-settings.ts';
import type { Transaction } from '../../platform/db/database.ts';
import { Problem } from '../../platform/http/problem.ts';
import { SECOND } from '../../platform/time.ts';
import { isInvisible } from '../../platform/visible.ts';
import { HOME, nextPath } from '../kit/links.ts';
import type { PublicRoute, Visit } from '../kit/route.ts';
import { showingAgain, SIGN_IN_LIMIT_BYTES, unsentField, unsentForm, unsentIn } from './unsent.ts';
import { truncate } from '../kit/words.ts';
import { requireScope } from './authenticate.ts';
import { personIn } from './directory-claims.ts';
import type { Person } from './directory-claims.ts';
import { askToSignIn, takeAnswer } from './directory.ts';
import { bouncePage, refusal, sendingPage } from './page.ts';
import {
  keepNote,
  newHandle,
  spendNote,
  browserOf,
  sessionCookie,
  SIGN_IN_LIFE_MS,
  signInCookie,
  sessionHandle,
  endSession,
  keepSession,
  SESSION_LIFE_MS,
} from './session.ts';
import { inDatabase, leadsOn, nextAnswer, signInRoute } from './sign-in-route.ts';

// Operators sign in with the organisation's directory: they are led there, and it sends them back with a code. Between
// the two, the database has a note of the sign-in, which only the browser that began it can open, and once.

const BEGIN_PATH = `${HOME}/sign-in/directory`;
const ANSWER_PATH = `${BEGIN_PATH}/callback`;

const PROBLEMS: PublicRoute['problems'] = [
  'operators_not_configured',
  'directory_unavailable',
  'database_unavailable',
];

/** A sign-in under way. */
const begun = z.object({
  /** The session that the browser had then: its cookie does not come along with the answer. */
  former: z.string().optional(),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  next: z.string(),
  unsent: unsentForm.nullable(),
});
type Begun = z.output<typeof begun>;

// Tries are as many as of tokens, but counted apart: who has tried wrong tokens can still come by the directory.

const beginSignIn = signInRoute({
  id: 'signInWithDirectory',
  method: 'post',
  path: BEGIN_PATH,
  summary: 'Begin a sign-in with the organisation’s directory',
  description:
    'OpenID Connect: an authorization code with PKCE. The cookie tells this browser from any other, for an hour, within which the sign-in has to end.',
  body: {
    schema: z.object({
      ...leadsOn,
      anew: z
        .literal('true')
        .optional()
        .describe('Has the directory ask who it is also where it knows: for someone else.'),
    }),
    limitBytes: SIGN_IN_LIMIT_BYTES,
  },
  limited: '-directory',
  answer: z.object({ url: z.url().describe('To be opened by the same browser.') }),
  says: 'The address at the directory, where the person signs in; for a browser, a page that leads there.',
  isPage: true,
  problems: PROBLEMS,
  handle: async (visit, read) => {
    const { request, url, settings } = visit;
    const { unsent, anew, ...sent } = await read();
    const form = { next: nextPath(sent.next), unsent: unsentIn(unsent) };
    try {
      const { url: there, ...asked } = await askToSignIn(requireDirectory(settings()), {
        redirectUri: answerUrl(url).href,
        anew: anew !== undefined,
      });
      const browser = browserOf(request) ?? newHandle();
      const kept: Begun = { ...asked, ...form, former: sessionHandle(request) };
      const note = { text: JSON.stringify(kept), lifeMs: SIGN_IN_LIFE_MS, handle: browser + asked.state };
      await inDatabase(visit, (db) => keepNote(db, 'sign-in-under-way', note));
      const headers = { 'set-cookie': signInCookie(browser) };
      return { json: { url: there.href }, page: () => bouncePage(there), headers };
    } catch (error) {
      return refusal(error, visit, form);
    }
  },
});

const finishSignIn = signInRoute({
  id: 'finishSignIn',
  method: 'get',
  path: ANSWER_PATH,
  summary: 'Take the answer of the directory, once',
  description:
    'The redirect URI to register at the directory. It takes an answer in the query; a posted one is refused, and `HEAD` does nothing. The session lasts an hour.',
  parameters: ['code', 'state', 'iss', 'error'].map((name) => ({ in: 'query', name, schema: z.string() })),
  limited: '-answer',
  answer: nextAnswer,
  says: 'Signed in; for a browser, a page that leads on.',
  isPage: true,
  problems: [
    ...PROBLEMS,
    'sign_in_unknown',
    'directory_refused',
    'directory_answer_invalid',
    'no_role',
    'insufficient_scope',
  ],
  handle: async (visit) => {
    const { request, url, settings } = visit;
    // Whoever only looks at a link must not use it up, nor be signed in by it.
    if (request.method === 'HEAD')
      return { json: { next: HOME }, page: () => bouncePage(new URL(HOME, url.origin)) };
    let sentFrom: Pick<Begun, 'next' | 'unsent'> = { next: HOME, unsent: null };
    try {
      const directory = requireDirectory(settings());
      const asked = await takeBegun(visit);
      sentFrom = asked;
      const answer = await takeAnswer(directory, answerUrl(url), asked);
      const handle = await startSession(visit, directory, { ...answer, former: asked.former });
      const headers = { 'set-cookie': sessionCookie(handle, SESSION_LIFE_MS / SECOND) };
      const { next, unsent } = asked;
      const page = () =>
        unsent
          ? sendingPage(showingAgain(next), 'You are signed in', CARRIED, unsentField(unsent))
          : bouncePage(new URL(next, url.origin));
      return { json: { next }, page, headers };
    } catch (error) {
      return refusal(error, visit, sentFrom);
    }
  },
});

export const directoryRoutes = [beginSignIn, finishSignIn];

const CARRIED = 'Nothing that you sent before was done. The next page shows it again.';

/** @throws Problem 410 `sign_in_unknown`. Of two answers to one sign-in, the second finds it gone. */
async function takeBegun(visit: Visit): Promise<Begun> {
  const browser = browserOf(visit.request);
  const state = visit.url.searchParams.get('state');
  if (browser === undefined || !state) throw new Problem('sign_in_unknown');
  const kept = await inDatabase(visit, (db) => spendNote(db, 'sign-in-under-way', browser + state));
  const { data } = begun.safeParse(JSON.parse(kept ?? 'null'));
  if (!data) throw new Problem('sign_in_unknown');
  return data;
}

/**
 * Starts a session in place of the one that the browser had.
 *
 * @throws Problem 403 for a person whose roles do not open the console.
 */
async function startSession(
  visit: Visit,
  directory: DirectorySettings,
  { claims, idToken, former }: Awaited<ReturnType<typeof takeAnswer>> & Pick<Begun, 'former'>,
): Promise<string> {
  const person = personIn(claims, directory);
  if (person === null) throw new Problem('directory_answer_invalid', { detail: WITHOUT_SUBJECT });
  requireScope({ ...person, isOfDirectory: true }, 'event-bus:read');
  return await inDatabase(visit, (db) =>
    db.transaction(async (tx) => {
      if (former !== undefined) await endSession(tx, former);
      await keepOperatorName(tx, person);
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

/** As many characters as a column of the log has room for, and as the table takes. */
const LONGEST_NAME = 60;

/** The longest `sub` that OpenID Connect allows. */
const LONGEST_SUBJECT = 255;

/** Ids that people chose are shorter, or are addresses; those that directories make up are not: a UUID has 36 characters. */
const SHORTEST_MADE_UP = 20;

/**
 * Keeps what the directory calls a person who may act, for the pages that say who did. Those who may only read are in no
 * log, and whose id says who they are needs no name.
 */
async function keepOperatorName(tx: Transaction, { subject, name, scopes }: Person): Promise<void> {
  const mayAct = [...scopes].some((scope) => scope !== 'event-bus:read');
  const isReadable = subject.length < SHORTEST_MADE_UP || subject.includes('@');
  if (!mayAct || isReadable || subject.length > LONGEST_SUBJECT) return;
  // Without a usable claim, the subject stands for the name.
  if (name === subject || isInvisible(name)) return;
  const kept = { name: truncate(LONGEST_NAME - 1, name.toWellFormed()), seenAt: sql`now()` };
  await tx
    .insert(operatorNames)
    .values({ subject, ...kept })
    .onConflictDoUpdate({ target: operatorNames.subject, set: kept });
}
