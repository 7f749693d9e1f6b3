import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import type { Following } from '../kit/following.ts';
import { time } from '../kit/instants.ts';
import { count, quantity } from '../kit/words.ts';
import type { BackfillProgress } from './read.ts';

/** Says how a backfill goes on. It is settled when it has ended and nothing of it waits for its first attempt. */
export function backfillFollowing(view: BackfillProgress): Following {
  const { endedAt, requestedAt, generatedAt, progress, stopped } = view;
  const { pending, failing, deadLettered } = progress;
  const isOpen = endedAt === null || pending > 0;
  return {
    tone: deadLettered > 0 ? 'dead' : failing > 0 || stopped !== null ? 'fail' : isOpen ? 'wait' : 'ok',
    words: html`${writtenWords(view)} ${view.written > 0 && `${statesOf(view)}.`}`,
    isSettled: !isOpen,
    // A paced backfill takes its time, and is followed for as long as it does.
    since: endedAt === null ? generatedAt : requestedAt,
    now: generatedAt,
    isLong: endedAt === null,
  };
}

function writtenWords({
  begunAt,
  matched,
  written,
  endedAt,
  nextAt,
  stopped,
  generatedAt: now,
}: BackfillProgress): Html {
  if (matched === 0) return html`<b>Nothing was missing.</b>`;
  const done = `${count(written)} of ${count(matched)} written`;
  if (stopped !== null) return html`<b>Stopped: ${done}.</b>`;
  if (endedAt === null && begunAt === null)
    return html`<b>Under way.</b> Relays finish the deliveries that they claimed before.`;
  if (endedAt === null) {
    const next = nextAt !== null && nextAt > now && html`, the next at ${time(nextAt, now)}`;
    return html`<b>Under way: ${done}</b>${next}.`;
  }
  return html`<b>Backfilled: ${done}</b>, the last at ${time(endedAt, now)}.`;
}

/** Says what became of what is written. */
export function statesOf({ progress, subscriber, attached, paused }: BackfillProgress): string {
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
