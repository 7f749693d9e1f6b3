import { html } from '../../platform/markup.ts';
import { SECOND } from '../../platform/time.ts';
import { visible } from '../../platform/visible.ts';
import { inTerminal, operatorText, say } from '../kit/document.ts';
import type { Moment, OperatorNames, Part } from '../kit/document.ts';
import { duration, until } from '../kit/words.ts';
import { replayedPath } from '../kit/links.ts';
import { failureTag, failureText } from '../kit/states.ts';
import type { Attempt, AttemptError, Try } from './attempts.ts';

interface Told {
  readonly attempts: readonly Attempt[];
  readonly nextAttemptAt: string | null;
}

/** Says a delivery's history, oldest first: its attempts, the operators' actions between them, and what comes next. */
export function historyOf(
  { attempts, nextAttemptAt }: Told,
  now: string,
  names: OperatorNames,
): readonly Moment[] {
  const answers = attempts.map((attempt) => ('error' in attempt ? (attempt.error?.answer ?? null) : null));
  const moments = attempts.map((attempt, index): Moment => {
    if ('by' in attempt) return actionMoment(attempt, names);
    const answer = answers[index] ?? null;
    return {
      ...tryMoment(attempt, attempts[index + 1]),
      answer: answer === null ? null : { text: visible(answer), isRepeated: answer === answers[index - 1] },
    };
  });
  if (nextAttemptAt === null || attempts.length === 0) return moments;
  const what = `Next attempt ${until(nextAttemptAt, now)}`;
  return [...moments, { at: nextAttemptAt, state: 'pending', what, notes: [] }];
}

/** @param next the entry after it: a failure right before a replay was the last of its round. */
function tryMoment(attempt: Try, next: Attempt | undefined): Moment {
  const { at, durationMs: tookMs, error, waitedMs } = attempt;
  const nth = `Attempt ${attempt.attempt}`;
  // The time of an attempt's end and that of its record differ by milliseconds.
  const wait = waitedMs === null ? null : `next attempt after ${duration(wholeSeconds(waitedMs))}`;
  const failure = error && inTerminal(failureText(error));
  switch (attempt.outcome) {
    case 'delivered':
      return { at, state: 'delivered', what: `${nth}: delivered`, tookMs, notes: [] };
    case 'waited':
      if (attempt.isProbe) {
        const notes = [failure, 'no attempt used up', wait !== null && inTerminal(wait)];
        const what = say`Probe: ${errorOr('no answer', error)}`;
        return { at, state: 'pending', what, tookMs, notes };
      }
      return { at, state: 'pending', what: 'Handler asked to wait', tookMs, notes: [failure, wait] };
    case 'failed': {
      const what = say`${nth}: ${errorOr('failed', error)}`;
      // A skip after it gave it up.
      const isLast = next?.outcome === 'replayed' || (waitedMs === null && next?.outcome !== 'skipped');
      return isLast
        ? { at, state: 'dead_lettered', what, tookMs, notes: [failure, 'dead-lettered'] }
        : { at, state: 'failing', what, tookMs, notes: [failure, wait] };
    }
  }
}

/** Says how an attempt failed. A terminal has the error in its notes, because a longer line could not be aligned. */
function errorOr(words: string, error: AttemptError | null): Part {
  if (error === null) return words;
  return { html: html`${failureTag(error.kind)} ${error.message}`, text: words };
}

const ACTIONS = {
  replayed: 'Replayed by',
  retried_early: 'Retried now by',
  probed: 'Probed by',
  skipped: 'Skipped and dead-lettered by',
  dismissed: 'Dismissed by',
  backfilled: 'Backfilled by',
  renamed: 'Taken over from another name by',
  returned: 'Attempts given back by',
} as const;

function actionMoment(
  { outcome, at, by, reason, replayId }: Exclude<Attempt, Try>,
  names: OperatorNames,
): Moment {
  const words = `${ACTIONS[outcome]} ${operatorText(by, names)}`;
  const what =
    replayId === null ? words : { html: html`<a href="${replayedPath(replayId)}">${words}</a>`, text: words };
  return { at, state: null, what, notes: [reason] };
}

const wholeSeconds = (ms: number) => (ms < SECOND ? ms : Math.round(ms / SECOND) * SECOND);
