import { html } from '../../platform/markup.ts';
import { visible } from '../../platform/visible.ts';
import { inTerminal, say } from '../kit/document.ts';
import type { Part } from '../kit/document.ts';
import { duration } from '../kit/instants.ts';
import { replayedPath } from '../kit/links.ts';
import { NO_NAMES, operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import type { State } from '../kit/shapes.ts';
import { failureTag, failureText } from '../kit/states.ts';
import type { Attempt, AttemptError, Try } from './delivery.ts';

/** A moment of a delivery's history. */
export interface Moment {
  readonly at: string;
  /** The state that it left the delivery in; null for an operator's action. */
  readonly state: State | null;
  readonly what: Part;
  readonly tookMs?: number;
  /** An error, what followed, an operator's reason. */
  readonly notes: readonly Part[];
  readonly answer?: Answer | null;
  /** Whether it was a probe, whose answer only a terminal shows. */
  readonly isProbe?: boolean;
}

/** What a component elsewhere answered, safe to show with its line breaks. */
export interface Answer {
  readonly text: string;
  /** Whether the moment before has the same answer, which is not shown again. */
  readonly isRepeated: boolean;
}

export const SAME_ANSWER = 'the same answer as before';

/** @returns an answer, or null, for each entry. */
export function answersOf(attempts: readonly Attempt[]): (string | null)[] {
  return attempts.map((attempt) => ('error' in attempt ? (attempt.error?.answer ?? null) : null));
}

interface Told {
  /** Those of the attempts, as they were received. */
  readonly answers?: readonly (string | null)[];
  /** Of operators. */
  readonly names?: OperatorNames;
}

/** Says a delivery's history, oldest first: its attempts, and the operators' actions between them. */
export function historyOf(
  attempts: readonly Attempt[],
  { answers = answersOf(attempts), names = NO_NAMES }: Told = {},
): Moment[] {
  return attempts.map((attempt, index) => {
    if ('by' in attempt) return actionMoment(attempt, names);
    const answer = answers[index] ?? null;
    return {
      ...tryMoment(attempt, attempts[index + 1]),
      answer: answer === null ? null : { text: visible(answer), isRepeated: answer === answers[index - 1] },
    };
  });
}

/** @param next the entry after it: a failure right before a replay was the last of its round. */
function tryMoment(attempt: Try, next: Attempt | undefined): Moment {
  const { at, durationMs: tookMs, error, waitedMs } = attempt;
  const nth = `Attempt ${attempt.attempt}`;
  const wait = waitedMs === null ? null : `next attempt after ${duration(waitedMs)}`;
  const failure = error && inTerminal(failureText(error));
  switch (attempt.outcome) {
    case 'delivered':
      return { at, state: 'delivered', what: `${nth}: delivered`, tookMs, notes: [] };
    case 'waited':
      if (attempt.isProbe) {
        const notes = [failure, 'no attempt used up', wait !== null && inTerminal(wait)];
        const what = say`Probe: ${errorOr('no answer', error)}`;
        return { at, state: 'pending', what, tookMs, notes, isProbe: true };
      }
      return { at, state: 'pending', what: 'Handler asked to wait', tookMs, notes: [failure, wait] };
    case 'failed': {
      const what = say`${nth}: ${errorOr('failed', error)}`;
      return waitedMs === null || next?.outcome === 'replayed'
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
