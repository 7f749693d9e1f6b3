import { say, strong, when } from '../kit/document.ts';
import type { Phrase } from '../kit/document.ts';
import type { Following } from '../kit/following.ts';
import { count, quantity } from '../kit/words.ts';
import type { BackfillProgress } from './read.ts';

/** Says how a backfill goes on. It is settled when it has ended and nothing of it waits for its first attempt. */
export function backfillFollowing(view: BackfillProgress): Following {
  const { endedAt, requestedAt, generatedAt, progress, stopped } = view;
  const { pending, failing, deadLettered } = progress;
  const isOpen = endedAt === null || pending > 0;
  return {
    tone: deadLettered > 0 ? 'dead' : failing > 0 || stopped !== null ? 'fail' : isOpen ? 'wait' : 'ok',
    words: backfillWords(view).html,
    isSettled: !isOpen,
    // A paced backfill takes its time, and is followed for as long as it does.
    since: endedAt === null ? generatedAt : requestedAt,
    now: generatedAt,
    isLong: endedAt === null,
  };
}

/** Says how far it is, and what became of what is written. */
export function backfillWords(view: BackfillProgress): Phrase {
  return say`${writtenWords(view)}${view.written > 0 && ` ${statesOf(view)}.`}`;
}

function writtenWords({
  begunAt,
  matched,
  written,
  endedAt,
  nextAt,
  stopped,
  generatedAt: now,
}: BackfillProgress): Phrase {
  if (matched === 0) return strong('Nothing was missing.');
  const done = `${count(written)} of ${count(matched)} written`;
  if (stopped !== null) return say`${strong(`Stopped: ${done}.`)} The rest stays unwritten.`;
  if (endedAt === null && begunAt === null)
    return say`${strong('Under way.')} Relays finish the deliveries that they claimed before.`;
  if (endedAt === null) {
    const next = nextAt !== null && nextAt > now && say`, the next at ${when(nextAt, now)}`;
    return say`${strong(`Under way: ${done}`)}${next}.`;
  }
  return say`${strong(`Backfilled: ${done}`)}, the last at ${when(endedAt, now)}.`;
}

/** Says what became of what is written. */
function statesOf({ progress, subscriber, attached, paused }: BackfillProgress): string {
  const { delivered, failing, deadLettered, pending, isMore } = progress;
  const why = paused
    ? ` because ${subscriber} is paused`
    : attached
      ? ''
      : ` because ${subscriber} is not attached`;
  const parts = [
    `${count(delivered)} delivered`,
    pending > 0 && `${isMore ? 'about ' : ''}${count(pending)} waiting${why}`,
    failing > 0 && `${count(failing)} failed and will be retried`,
    deadLettered > 0 && quantity(deadLettered, 'dead letter'),
  ];
  return parts.filter((part) => part !== false).join(', ');
}
