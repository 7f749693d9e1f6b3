import type { BackfillProgress } from '../lib/console/backfills/read.ts';
import { timeText } from '../lib/console/kit/instants.ts';
import { count } from '../lib/console/kit/words.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { EXIT } from './failure.ts';
import { follow } from './follow.ts';
import { writeOutcome } from './held-delivery.ts';
import { inZone } from './times.ts';

/** Waits until a backfill has ended and its deliveries are settled, and says how. @returns the exit code. */
export async function followBackfill(call: Call, backfillId: string, limitMs: number): Promise<number> {
  const { showBackfill } = await import('../lib/console/backfills/routes.ts');
  const { json, view } = await follow(
    call,
    limitMs,
    () => call.bus.ask(showBackfill, { parameters: { backfillId } }),
    { isSettled: ({ view: now }) => isSettled(now), words: ({ view: now }) => words(now) },
  );
  const isGood = isSettled(view) && view.stopped === null && view.progress.deadLettered === 0;
  if (call.isJson) writeJson(call, json);
  else writeOutcome(call, isGood, endWords(view));
  return isGood ? EXIT.ok : EXIT.failed;
}

function isSettled({ endedAt, progress: { pending, failing } }: BackfillProgress): boolean {
  return endedAt !== null && pending + failing === 0;
}

function endWords(view: BackfillProgress): string {
  const at = inZone(timeText(view.generatedAt, view.generatedAt));
  return isSettled(view) ? `${words(view)}.` : `${words(view)} at ${at}, when the time was up.`;
}

function words({
  matched,
  written,
  stopped,
  progress,
  subscriber,
  attached,
  paused,
}: BackfillProgress): string {
  const { delivered, pending, failing, deadLettered, isMore } = progress;
  const why = paused
    ? ` because ${subscriber} is paused`
    : attached
      ? ''
      : ` because ${subscriber} is not attached`;
  const parts = [
    `${stopped === null ? '' : `stopped by ${stopped.by}, `}${count(written)} of ${count(matched)} written`,
    `${count(delivered)} delivered`,
    pending > 0 && `${isMore ? 'about ' : ''}${count(pending)} waiting${why}`,
    failing > 0 && `${count(failing)} failed and will be retried`,
    deadLettered > 0 && `${count(deadLettered)} dead-lettered`,
  ];
  return parts.filter((part) => part !== false).join(', ');
}
