import { STATUS_CODES } from 'node:http';

import type { Problem } from '../../platform/http/problem.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { layout, plainLayout } from './layout.ts';
import type { PageContext } from './layout.ts';
import { eventsPath, HOME, replaysPath } from './links.ts';
import { factList, withLinks } from './sections.ts';
import { capitalize, truncate } from './words.ts';

/** The request that failed. */
interface Failed {
  readonly requestId: string;
  /** Whether asking again does no harm. */
  readonly isRead: boolean;
  /** Null for a visitor who is not signed in. */
  readonly context: PageContext | null;
}

const AWAY_REFRESH_SECONDS = 5;

/** Draws what is wrong and what to do next. While the database is away, the page of what is read asks for it again. */
export function problemPage(
  { status, code, detail, issues = [] }: Problem,
  { requestId, isRead, context }: Failed,
): Html {
  const isAway = code === 'database_unavailable';
  // HTTP writes `Not Found`; headings here are in sentence case.
  const title = isAway
    ? 'No answer from the database'
    : capitalize((STATUS_CODES[status] ?? '').toLowerCase());
  const content = html`<div class="panel">
    <p class="muted small">${status}</p>
    <h1>${title}</h1>
    <p ${isAway && AWAY}>${issues.length === 0 ? withLinks(detail) : 'Please check:'}</p>
    ${
      issues.length > 0 &&
      html`<ul class="issues">
        ${issues.map(({ path, message }) => html`<li>${path !== '' && html`<code>${path}</code>: `}${message}</li>`)}
      </ul>`
    }
    ${isAway ? AWAY_WORDS : status === 404 && context !== null ? searchInstead(context.url) : !context?.unsent && nextStep(status)}
    ${factList([
      ['Code', html`<span class="mono">${code}</span>`],
      ['Request id', html`<span class="mono">${requestId}</span>`],
    ])}
    <div class="end"><a class="btn" href="${HOME}">Overview</a></div>
  </div>`;
  if (context === null) return plainLayout(title, content);
  const isReloaded = isAway && isRead;
  const refreshSeconds = isReloaded ? AWAY_REFRESH_SECONDS : null;
  return layout({ title, section: null, content, isReloaded, refreshSeconds }, context);
}

const AWAY = html`data-away`;
const AWAY_WORDS = html`<p class="muted">
  Events wait in the outbox of a database that comes back. Check that it runs and that
  <code>DATABASE_URL</code> is right; the log has the driver’s error under the request id.
</p>`;

/** Says what to do next, which neither the problem itself nor a form that is shown again does. */
function nextStep(status: number): Html | false {
  const words = status >= 500 ? NEXT_STEPS[500] : NEXT_STEPS[status];
  return words !== undefined && html`<p class="muted">${withLinks(words)}</p>`;
}

const NEXT_STEPS: Readonly<Record<number, string>> = {
  400: 'Nothing was changed. Go back, correct it and try again.',
  403: 'Sign out, then sign in as someone who may do this.',
  405: `Forms are sent here. What operators did, and is under way, is listed at ${replaysPath()}.`,
  500: 'Try again in a minute. If it fails again, search the log for the request id.',
};

/** What has no page under its id may be found by it: a search takes ids of all kinds. */
function searchInstead({ pathname }: URL): Html {
  const [segment] = pathname
    .slice(HOME.length + 1)
    .split('/')
    .slice(1);
  // Unlike `decodeURIComponent`, a query leaves a malformed escape as it is.
  const sought = new URLSearchParams(`q=${segment?.replaceAll(/[&+]/g, encodeURIComponent)}`).get('q')!;
  return html`<p class="muted">
    The address may be wrong, or what it names was pruned.
    ${segment !== undefined && html`<a href="${eventsPath({ q: sought })}">Search all events for “${truncate(60, sought)}”</a>`}
  </p>`;
}
