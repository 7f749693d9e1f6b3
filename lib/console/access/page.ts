import { readable } from '../../platform/environment.ts';
import type { OperatorSettings } from '../../platform/operator-settings.ts';
import { Problem } from '../../platform/http/problem.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { alert, DEAD_ICON } from '../kit/sections.ts';
import { plainLayout } from '../kit/layout.ts';
import { HOME } from '../kit/links.ts';
import type { Answer, Visit } from '../kit/route.ts';
import { unsentFacts, unsentField } from './unsent.ts';
import type { Unsent } from './unsent.ts';
import { hostOf } from './directory.ts';

/** How a person signs in. */
interface SignIn {
  /** The page to open after signing in. */
  readonly next: string;
  /** The directory's host; null: only tokens are taken. */
  readonly directory: string | null;
  /** Why nobody was signed in. */
  readonly problem: string | null;
  /** Whether that is about a token, whose field is marked then. */
  readonly isTokenWrong?: boolean;
  /** Whether someone else may want to sign in, whom the directory would not ask for. */
  readonly anew?: boolean;
  /** A form that arrived without a session, which is shown again on that page. */
  readonly unsent?: Unsent | null;
}

/** Draws the ways to sign in: with the directory, where there is one, and with a token. */
export function signInPage(signIn: SignIn): Html {
  const { directory, problem, unsent = null } = signIn;
  return plainLayout(
    'Sign in',
    html`<div class="panel narrow">
      <h1>Sign in to the event bus</h1>
      ${unsent && unsentAlert(unsent)} ${problem !== null && problemAlert(problem)}
      ${directory !== null && directoryForm(signIn, directory)} ${tokenForm(signIn)}
    </div>`,
  );
}

function directoryForm({ next, anew = false, unsent }: SignIn, directory: string): Html {
  return html`<form class="directory" method="post" action="${HOME}/sign-in/directory">
    ${hiddenField('next', next)} ${unsent && unsentField(unsent)} ${anew && hiddenField('anew', 'true')}
    <button class="btn primary">Sign in with ${directory}${anew && ' as someone else'}</button>
    <p class="muted">The session lasts an hour. After that, sign in again.</p>
  </form>`;
}

function tokenForm({ next, directory, isTokenWrong = false, unsent }: SignIn): Html {
  const isAlone = directory === null;
  return html`<form method="post" action="${HOME}/sign-in">
    ${!isAlone && html`<h2>With a token</h2>`}
    <p class="muted">
      Paste the bearer token that you use with the API. The browser keeps it in a cookie that scripts can’t
      read, until the token expires, at most 8 hours.
    </p>
    ${hiddenField('next', next)} ${unsent && unsentField(unsent)}
    <label class="f">
      Access token
      <input
        type="password"
        name="token"
        autocomplete="off"
        spellcheck="false"
        required
        ${(isAlone || isTokenWrong) && AUTOFOCUS}
        ${isTokenWrong && INVALID}
      />
    </label>
    <div class="end"><button class="btn ${isAlone && 'primary'}">Sign in</button></div>
  </form>`;
}

const AUTOFOCUS = html`autofocus`;

/** Draws a form that the script sends at once. */
export function sendingPage(path: string, title: string, words: string, field: Html): Html {
  return plainLayout(
    title,
    html`<form class="panel narrow" method="post" action="${path}" data-send>
      <h1>${title}</h1>
      <p class="muted">${words}</p>
      ${field}
      <div class="end"><button class="btn primary">Continue</button></div>
    </form>`,
  );
}

/** Says that the form was not carried out, and is not lost. */
function unsentAlert(unsent: Unsent): Html {
  return html`${alert(
    'fail',
    html`<b>Nothing was done.</b> Sign in: you then see again what you sent, and send it yourself.`,
  )}
  ${unsentFacts(unsent)}`;
}

const INVALID = html`aria-invalid="true" aria-describedby="problem"`;

function problemAlert(problem: string): Html {
  return html`<div class="alert dead" role="alert">
    ${DEAD_ICON}
    <p id="problem">${problem}</p>
  </div>`;
}

/** The directory's host; null where there is none, or a variable is wrong: the page can be seen all the same. */
export function directoryIn(settings: () => OperatorSettings): string | null {
  const directory = readable(settings)?.directory;
  return directory ? hostOf(directory) : null;
}

/** The page to sign in again, with what is wrong. @throws what is not for a person, or is no problem. */
export function refusal(
  error: unknown,
  { wantsHtml, settings }: Visit,
  form: Pick<Parameters<typeof signInPage>[0], 'next' | 'unsent' | 'isTokenWrong'>,
): Answer<void> {
  if (!wantsHtml || !(error instanceof Problem)) throw error;
  const { status, code, detail, headers } = error;
  const directory = directoryIn(settings);
  const isTokenWrong = form.isTokenWrong === true && status < 500;
  // Unless it is asked not to, the directory would send the person again who may not.
  const anew = status === 403;
  const page = () => signInPage({ ...form, directory, problem: detail, isTokenWrong, anew });
  return { status, json: { code }, headers, page };
}

/**
 * Draws a page that leads on to an address at once. A browser that comes from another site, such as a chat, a mail or the
 * directory, does not send a `SameSite=Strict` cookie; from this page it does. And browsers let no form lead to another
 * site, where the content security policy names none, but a page may.
 */
export function bouncePage({ href }: URL): Html {
  return plainLayout(
    'Event bus',
    html`<h1>Event bus</h1>
      <p><a href="${href}">Continue</a></p>`,
    html`<meta http-equiv="refresh" content="0;url=${href}" />`,
  );
}
