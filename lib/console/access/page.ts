import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { plainLayout } from '../kit/layout.ts';
import { HOME } from '../kit/links.ts';
import { alert } from '../kit/sections.ts';
import { unsentFacts, unsentField } from '../kit/unsent.ts';
import type { Unsent } from '../kit/unsent.ts';

/**
 * Draws the form that takes a token.
 *
 * @param next the page to open after signing in.
 * @param problem why the last token was refused.
 * @param unsent a form that arrived without a session, which is shown again on that page.
 */
export function signInPage({
  next,
  problem,
  unsent = null,
}: {
  readonly next: string;
  readonly problem: string | null;
  readonly unsent?: Unsent | null;
}): Html {
  return plainLayout(
    'Sign in',
    html`<form class="panel narrow" method="post" action="${HOME}/sign-in">
      <h1>Sign in to the event bus</h1>
      <p class="muted">
        Paste the bearer token that you use with the API. The browser keeps it in a cookie that scripts can’t
        read, until the token expires, at most 8 hours.
      </p>
      ${unsent && unsentAlert(unsent)} ${problem !== null && problemAlert(problem)}
      ${hiddenField('next', next)}
      <label class="f">
        Access token
        <input
          type="password"
          name="token"
          autocomplete="off"
          spellcheck="false"
          required
          autofocus
          ${problem !== null && INVALID}
        />
      </label>
      <div class="end"><button class="btn primary">Sign in</button></div>
    </form>`,
  );
}

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

/** Says that the form was not carried out, and is not lost. */
function unsentAlert(unsent: Unsent): Html {
  return html`${alert(
    'fail',
    WARNING_ICON,
    html`<b>Nothing was done.</b> Sign in: you then see again what you sent, and send it yourself.`,
  )}
  ${unsentFacts(unsent)} ${unsentField(unsent)}`;
}

const INVALID = html`aria-invalid="true" aria-describedby="problem"`;

function problemAlert(problem: string): Html {
  return html`<div class="alert dead" role="alert">
    ${DEAD_ICON}
    <p id="problem">${problem}</p>
  </div>`;
}
