import type { Attempt, DeadLetter } from './delivery.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, DOT_ICON, PERSON_ICON, WARNING_ICON } from '../page/icons.ts';
import { duration, until, when } from '../page/instants.ts';
import { replayedPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { failureTag, failureWords } from '../page/states.ts';

type Try = Extract<Attempt, { readonly attempt: number }>;
type Act = Exclude<Attempt, Try>;

/** All that happened to a delivery, oldest first: its attempts, and what operators did between them. */
export function attemptTimeline({
  attempts,
  createdAt,
  event,
  nextAttemptAt,
  generatedAt,
}: DeadLetter): Html {
  return html`<ol class="tl">
    ${entry('', DOT_ICON, createdAt, generatedAt, html`Recorded by ${event.producer}`)}
    ${attempts.map((attempt, index) =>
      'by' in attempt ? actEntry(attempt, generatedAt) : tryEntry(attempt, attempts[index + 1], generatedAt),
    )}
    ${
      nextAttemptAt !== null &&
      entry('', CLOCK_ICON, nextAttemptAt, generatedAt, html`Next try, ${until(nextAttemptAt, generatedAt)}`)
    }
  </ol>`;
}

/** @param next what followed it: a failure that was replayed had been the last of its round. */
function tryEntry(attempt: Try, next: Attempt | undefined, now: string): Html {
  const took = html`<span class="muted">· ${duration(attempt.durationMs)}</span>`;
  switch (attempt.outcome) {
    case 'delivered':
      return entry('ok', CHECK_ICON, attempt.at, now, html`Attempt ${attempt.attempt}: delivered ${took}`);
    case 'waited':
      return entry(
        '',
        CLOCK_ICON,
        attempt.at,
        now,
        html`Asked for time ${took}${below(waitWords(attempt.waitedMs))}`,
      );
    case 'failed': {
      const isLast = attempt.waitedMs === null || next?.outcome === 'replayed';
      return entry(
        isLast ? 'z' : 'x',
        isLast ? DEAD_ICON : WARNING_ICON,
        attempt.at,
        now,
        html`Attempt ${attempt.attempt}: ${errorWords(attempt)}
        ${took}${below(isLast ? `failure ${attempt.attempt}: dead-lettered` : waitWords(attempt.waitedMs))}`,
      );
    }
  }
}

function errorWords({ error }: Try): Child {
  return error === null ? 'failed' : html`${failureTag(error.kind)} ${failureWords(error)}`;
}

function waitWords(waitedMs: number | null): string | null {
  return waitedMs === null ? null : `waited ${duration(waitedMs)}`;
}

const ACTS = {
  replayed: 'Replayed by',
  hurried: 'Told to retry now by',
  skipped: 'Skipped, dead-lettered by',
} as const;

function actEntry({ outcome, at, by, reason, replayId }: Act, now: string): Html {
  const who =
    replayId === null
      ? html`${ACTS[outcome]} ${by}`
      : html`<a href="${replayedPath(replayId)}">${ACTS[outcome]} ${by}</a>`;
  return entry('act', PERSON_ICON, at, now, html`${who}${below(reason)}`);
}

function entry(tone: string, icon: Html, at: string, now: string, words: Child): Html {
  return html`<li class="${tone}">${icon}<b>${when(at, now)}</b> ${words}</li>`;
}

function below(words: string | null): Html | null {
  return words === null ? null : html`<span class="w">${words}</span>`;
}
