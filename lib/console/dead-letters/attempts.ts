import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { visible } from '../../platform/visible.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, DOT_ICON, PERSON_ICON, WARNING_ICON } from '../kit/icons.ts';
import { duration, time, timeText, until } from '../kit/instants.ts';
import { replayedPath } from '../kit/links.ts';
import { failureTag, failureWords } from '../kit/states.ts';
import { isProbe } from './delivery.ts';
import type { Attempt, DeadLetter, Try } from './delivery.ts';

type OperatorAction = Exclude<Attempt, Try>;

/** A delivery's history. */
interface History extends Pick<DeadLetter, 'attempts' | 'nextAttemptAt' | 'generatedAt'> {
  /** When and by whom its event was recorded, where the page does not say so elsewhere. */
  readonly recorded?: { readonly at: string; readonly by: string };
}

/** Draws a delivery's history, oldest first: its attempts, and the operators' actions between them. */
export function attemptTimeline({ attempts, nextAttemptAt, generatedAt: now, recorded }: History): Html {
  return html`<ol class="tl">
    ${recorded && entry('', DOT_ICON, recorded.at, now, html`Recorded by ${recorded.by}`)}
    ${attempts.map((attempt, index) =>
      'by' in attempt ? actionEntry(attempt, now) : tryEntry(attempt, attempts, index, now),
    )}
    ${
      nextAttemptAt !== null &&
      entry('', CLOCK_ICON, nextAttemptAt, now, html`Next attempt ${until(nextAttemptAt, now)}`)
    }
  </ol>`;
}

/** @param attempts all entries: a failure right before a replay was the last of its round. */
function tryEntry(attempt: Try, attempts: readonly Attempt[], index: number, now: string): Html {
  const took = html`<span class="muted">· ${duration(attempt.durationMs)}</span>`;
  const nth = `Attempt ${attempt.attempt}`;
  const { at, waitedMs } = attempt;
  switch (attempt.outcome) {
    case 'delivered':
      return entry('ok', CHECK_ICON, at, now, html`${nth}: delivered ${took}`);
    case 'waited':
      if (isProbe(attempt)) {
        const words = html`Probe: ${errorWords(attempt)} ${took}`;
        return entry('', CLOCK_ICON, at, now, words, 'no attempt used up');
      }
      return entry(
        '',
        CLOCK_ICON,
        at,
        now,
        html`Handler asked to wait ${took}`,
        waitWords(waitedMs),
        answerBox(attempts, index, now),
      );
    case 'failed': {
      const words = html`${nth}: ${errorWords(attempt)} ${took}`;
      const answer = answerBox(attempts, index, now);
      return waitedMs === null || attempts[index + 1]?.outcome === 'replayed'
        ? entry('dead', DEAD_ICON, at, now, words, 'dead-lettered', answer)
        : entry('fail', WARNING_ICON, at, now, words, waitWords(waitedMs), answer);
    }
  }
}

function errorWords({ error }: Try): Child {
  return error === null ? 'failed' : html`${failureTag(error.kind)} ${failureWords(error)}`;
}

/** Draws what the subscriber answered. An answer that repeats the one before it is not shown again. */
function answerBox(attempts: readonly Attempt[], index: number, now: string): Html | null {
  const attempt = attempts[index];
  const answer = answerOf(attempt);
  if (!attempt || answer === null) return null;
  if (answer === answerOf(attempts[index - 1])) return html`<span class="w">the same answer as before</span>`;
  return html`<pre
    class="code answer"
    tabindex="0"
    role="region"
    aria-label="Answer at ${timeText(attempt.at, now)}"
  >
${visible(answer)}</pre>`;
}

const answerOf = (attempt: Attempt | undefined) =>
  attempt && 'error' in attempt ? (attempt.error?.answer ?? null) : null;

function waitWords(waitedMs: number | null): string | null {
  return waitedMs === null ? null : `next attempt after ${duration(waitedMs)}`;
}

const ACTIONS = {
  replayed: 'Replayed by',
  retried_early: 'Retried now by',
  skipped: 'Skipped and dead-lettered by',
  dismissed: 'Dismissed by',
  backfilled: 'Backfilled by',
  renamed: 'Taken over from another name by',
  returned: 'Attempts given back by',
} as const;

function actionEntry({ outcome, at, by, reason, replayId }: OperatorAction, now: string): Html {
  const words = html`${ACTIONS[outcome]} ${by}`;
  const who = replayId === null ? words : html`<a href="${replayedPath(replayId)}">${words}</a>`;
  return entry('act', PERSON_ICON, at, now, who, reason);
}

function entry(
  tone: string,
  icon: Html,
  at: string,
  now: string,
  words: Child,
  below: string | null = null,
  answer: Html | null = null,
): Html {
  return html`<li class="${tone}">
    ${icon}<b>${time(at, now)}</b> ${words}${below !== null && html`<span class="w">${below}</span>`}${answer}
  </li>`;
}
