import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { IN_DOUBT } from './database-away.ts';
import { DEAD_ICON } from './icons.ts';
import { time } from './instants.ts';
import { heading as pageHeading, layout, liveness, plainLayout } from './layout.ts';
import type { PageContext } from './layout.ts';
import { eventsPath, HOME } from './links.ts';
import { alert, card, factList, withLinks } from './sections.ts';
import { truncate } from './words.ts';

/** A problem of RFC 9457, for a browser. */
interface Problem {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly detail: string;
  readonly requestId: string;
  readonly issues?: readonly { readonly path: string; readonly message: string }[];
}

/** Draws what is wrong and what to do next. @param context null for a visitor who is not signed in. */
export function problemPage(problem: Problem, context: PageContext | null): Html {
  const { status, title, code, detail, requestId, issues = [] } = problem;
  // HTTP writes `Not Found`; headings here are in sentence case.
  const heading = title.slice(0, 1) + title.slice(1).toLowerCase();
  const content = html`<div class="panel">
    <p class="muted small">${status}</p>
    <h1>${heading}</h1>
    <p>${issues.length === 0 ? withLinks(detail) : 'Please check:'}</p>
    ${
      issues.length > 0 &&
      html`<ul class="issues">
        ${issues.map(issueItem)}
      </ul>`
    }
    ${status === 404 && context !== null ? searchInstead(context.url) : nextStep(status)}
    ${factList([
      ['Code', html`<span class="mono">${code}</span>`],
      ['Request id', html`<span class="mono">${requestId}</span>`],
    ])}
    <div class="end"><a class="btn" href="${HOME}">Overview</a></div>
  </div>`;
  return context === null
    ? plainLayout(heading, content)
    : layout({ title: heading, section: null, content }, context);
}

const AWAY_REFRESH_SECONDS = 5;

/**
 * Says since when there is no answer from the database, in the place of figures that may no longer be true.
 *
 * @param isRead whether asking again does no harm: the page does so by itself, and is what it was once there is an answer.
 */
export function databaseAwayPage(
  since: string,
  isRead: boolean,
  requestId: string,
  context: PageContext,
): Html {
  const now = new Date().toISOString();
  const title = 'No answer from the database';
  const content = html`${pageHeading({
      title,
      lead: 'What this page usually shows is not known at the moment.',
      live: isRead && liveness(now, AWAY_REFRESH_SECONDS, context.url),
    })}
    ${alert(
      'dead',
      DEAD_ICON,
      html`<b data-away>No answer from the database since ${time(since, now)}.</b>
        ${isRead ? 'The page asks every 5 seconds, and shows its figures again as soon as there is an answer.' : IN_DOUBT}`,
      html`<a class="btn" href="${HOME}">Overview</a>`,
    )}
    <p class="muted">
      Events wait in the outbox of a database that comes back. Check that it runs and that
      <code>DATABASE_URL</code> is right; the log has the driver’s error under the request id.
    </p>
    ${card(factList([['Request id', html`<span class="mono">${requestId}</span>`]], 'roomy'))}`;
  return layout(
    {
      title,
      section: null,
      refreshSeconds: isRead ? AWAY_REFRESH_SECONDS : null,
      isReloaded: isRead,
      content,
    },
    context,
  );
}

/** Says what to do next, which the problem itself does not. */
function nextStep(status: number): Html | null {
  if (status === 400) {
    return html`<p class="muted">Nothing was changed. Go back, correct it and try again.</p>`;
  }
  if (status === 409) {
    return html`<p class="muted">Nothing was changed. Go back and reload the page.</p>`;
  }
  if (status === 403) {
    return html`<p class="muted">Sign out, then sign in as someone who may do this.</p>`;
  }
  if (status >= 500) {
    return html`<p class="muted">
      Try again in a minute. If it fails again, search the log for the request id.
    </p>`;
  }
  return null;
}

/** What has no page under its id may be found by it: a search takes ids of all kinds. */
function searchInstead({ pathname }: URL): Html {
  const segment = pathname.split('/').at(-1) ?? '';
  // Unlike `decodeURIComponent`, a query leaves a malformed escape as it is.
  const sought = new URLSearchParams(`q=${segment.replaceAll(/[&+]/g, encodeURIComponent)}`).get('q') ?? '';
  return html`<p class="muted">
    The address may be wrong, or what it names was pruned.
    <a href="${eventsPath({ q: sought })}">Search all events for “${truncate(60, sought)}”</a>
  </p>`;
}

function issueItem({ path, message }: { readonly path: string; readonly message: string }): Html {
  return html`<li>${path !== '' && html`<code>${path}</code>: `}${message}</li>`;
}
