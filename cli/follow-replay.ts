import { timeText } from '../lib/console/kit/instants.ts';
import { count } from '../lib/console/kit/words.ts';
import type { ReplayProgress } from '../lib/console/replays/read.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { EXIT } from './failure.ts';
import { follow } from './follow.ts';
import { writeOutcome } from './held-delivery.ts';
import { inZone } from './times.ts';

/** Waits until a replay's deliveries are settled, and says how it ended. @returns the exit code. */
export async function followReplay(call: Call, replayId: string, limitMs: number): Promise<number> {
  const { showReplay } = await import('../lib/console/replays/routes.ts');
  const { json, view } = await follow(
    call,
    limitMs,
    () => call.bus.ask(showReplay, { parameters: { replayId } }),
    { isSettled: ({ view: now }) => openOf(now) === 0, words: ({ view: now }) => words(now) },
  );
  const isGood = openOf(view) + view.progress.deadLettered === 0 && view.pace?.stopped == null;
  if (call.isJson) writeJson(call, json);
  else writeOutcome(call, isGood, endWords(view));
  return isGood ? EXIT.ok : EXIT.failed;
}

/** Deliveries that are not settled, or not put back yet. */
function openOf({ progress: { pending, failing }, pace }: ReplayProgress): number {
  return pending + failing + leftOf(pace);
}

const leftOf = (pace: ReplayProgress['pace']) => (pace?.endedAt === null ? pace.left : 0);

/** `7 of 7 delivered at 00:41:10 Europe/Oslo.` */
function endWords(view: ReplayProgress): string {
  const { lastDeliveredAt, generatedAt: now } = view;
  if (openOf(view) > 0) return `${words(view)} at ${inZone(timeText(now, now))}, when the time was up.`;
  return `${words(view)} at ${inZone(timeText(lastDeliveredAt ?? now, now))}.`;
}

function words({ replayed, progress, pace }: ReplayProgress): string {
  const { delivered, pending, failing, deadLettered, replayedAgain } = progress;
  const others = [
    [pending, 'pending'],
    [failing, 'failed and will be retried'],
    [deadLettered, 'dead-lettered again'],
    [replayedAgain, 'replayed again'],
    [leftOf(pace), 'left to put back'],
    [pace?.stopped ? pace.left : 0, 'not put back, because the replay was stopped'],
  ] as const;
  const rest = others.flatMap(([number, word]) => (number === 0 ? [] : [`${count(number)} ${word}`]));
  return [`${count(delivered)} of ${count(replayed)} delivered`, ...rest].join(', ');
}
