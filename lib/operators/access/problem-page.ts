import { HOME } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { layout, plainLayout } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';

/** A problem as RFC 9457 has it, for someone who reads it in a browser. */
interface Problem {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly detail: string;
  readonly requestId: string;
  readonly issues?: readonly { readonly path: string; readonly message: string }[];
}

/** What went wrong, and the way back. @param context null where nobody is known to be signed in. */
export function problemPage(problem: Problem, context: PageContext | null): Html {
  const { status, title, code, detail, requestId, issues = [] } = problem;
  // `Not Found`, as the protocol has it, is no sentence of ours.
  const heading = title.slice(0, 1) + title.slice(1).toLowerCase();
  const content = html`<div class="panel">
    <p class="muted small">${status}</p>
    <h1>${heading}</h1>
    <p>${issues.length === 0 ? detail : 'This can’t be done as it was asked for:'}</p>
    ${
      issues.length > 0 &&
      html`<ul class="issues">
        ${issues.map(issueItem)}
      </ul>`
    }
    ${wayOn(status)}
    <dl class="kv">${fact('Code', code)} ${fact('Request id', requestId)}</dl>
    <div class="end"><a class="btn" href="${HOME}">Overview</a></div>
  </div>`;
  return context === null
    ? plainLayout(heading, content)
    : layout({ title: heading, section: null, content }, context);
}

/** What to do now, where the detail can't know it. */
function wayOn(status: number): Html | null {
  if (status === 400) {
    return html`<p class="muted">Nothing was changed. Go back with your browser, and correct it.</p>`;
  }
  if (status === 409) {
    return html`<p class="muted">Nothing was changed. Go back with your browser, and load the page anew.</p>`;
  }
  if (status === 403) {
    return html`<p class="muted">Sign out, and sign in with a token that may do this.</p>`;
  }
  if (status >= 500) {
    return html`<p class="muted">
      Try again in a minute. If it stays like this, the request id finds it in the log.
    </p>`;
  }
  return null;
}

function issueItem({ path, message }: { readonly path: string; readonly message: string }): Html {
  return html`<li>${path !== '' && html`<code>${path}</code>: `}${message}</li>`;
}

function fact(name: string, value: Child): Html {
  return html`<dt>${name}</dt>
    <dd class="mono">${value}</dd>`;
}
