import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { plainLayout } from '../kit/layout.ts';
import { HOME } from '../kit/links.ts';
import { alert } from '../kit/sections.ts';
import { unsentFacts, unsentField } from '../kit/unsent.ts';
import type { Unsent } from '../kit/unsent.ts';

/** How a person signs in. */
interface SignIn {
  /** The page to open after signing in. */
  readonly next: string;
  /** The directory's host; null: only tokens are taken. */
  readonly directory: string | null;
  /** Why nobody was signed in: by a token, or by the directory. */
  readonly problem: string | null;
  readonly isOfDirectory?: boolean;
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

function tokenForm({ next, directory, problem, isOfDirectory = false, unsent }: SignIn): Html {
  const isWrong = problem !== null && !isOfDirectory;
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
        ${(isAlone || isWrong) && AUTOFOCUS}
        ${isWrong && INVALID}
      />
    </label>
    <div class="end"><button class="btn ${isAlone && 'primary'}">Sign in</button></div>
  </form>`;
}

const AUTOFOCUS = html`autofocus`;

/** Draws the form of a sign-in link, which the script sends at once. @param path takes the form. */
export function codePage(path: string, code: string): Html {
  return plainLayout(
    'Sign in',
    html`<form class="panel narrow" method="post" action="${path}" data-send>
      <h1>Sign in to the event bus</h1>
      <p class="muted">This link works once. The session then lasts at most 8 hours.</p>
      ${hiddenField('code', code)}
      <div class="end"><button class="btn primary">Sign in</button></div>
    </form>`,
  );
}

/**
 * Draws a form that brings a form which was not carried out back to its page, which shows it again. The script sends it
 * at once.
 */
export function carryingPage(path: string, unsent: Unsent): Html {
  return plainLayout(
    'Signed in',
    html`<form class="panel narrow" method="post" action="${path}" data-send>
      <h1>You are signed in</h1>
      <p class="muted">Nothing that you sent before was done. The next page shows it again.</p>
      ${unsentField(unsent)}
      <div class="end"><button class="btn primary">Continue</button></div>
    </form>`,
  );
}

/** Says that the form was not carried out, and is not lost. */
function unsentAlert(unsent: Unsent): Html {
  return html`${alert(
    'fail',
    WARNING_ICON,
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
