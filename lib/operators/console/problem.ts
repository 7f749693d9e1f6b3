import { HOME } from './links.ts';
import { html } from './markup.ts';
import type { Child, Html } from './markup.ts';
import { layout, plainLayout } from './page.ts';
import type { PageContext } from './page.ts';

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
  const content = html`<div class="panel">
    <p class="muted small">${status}</p>
    <h1>${title}</h1>
    <p>${detail}</p>
    ${
      issues.length > 0 &&
      html`<ul class="issues">
        ${issues.map(issueItem)}
      </ul>`
    }
    <dl class="kv">${fact('Code', code)} ${fact('Request id', requestId)}</dl>
    <div class="end"><a class="btn" href="${HOME}">Overview</a></div>
  </div>`;
  return context === null ? plainLayout(title, content) : layout({ title, section: null, content }, context);
}

function issueItem({ path, message }: { readonly path: string; readonly message: string }): Html {
  return html`<li>${path !== '' && html`<code>${path}</code>: `}${message}</li>`;
}

function fact(name: string, value: Child): Html {
  return html`<dt>${name}</dt>
    <dd class="mono">${value}</dd>`;
}
