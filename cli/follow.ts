import { phraseOf } from '../lib/console/kit/document.ts';
import type { Part } from '../lib/console/kit/document.ts';
import { MINUTE, SECOND, sleep } from '../lib/platform/time.ts';
import type { Given } from './arguments.ts';
import type { Answered } from './bus.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { writeOutcome, writeZone } from './draw.ts';
import { EXIT } from './arguments.ts';
import { Unavailable } from './refusals.ts';

/** Longer than the first two retries, which come after 1 and 5 more minutes. */
const DEFAULT_SECONDS = 10 * (MINUTE / SECOND);

/** The options of every command that can wait for its outcome. */
export const WAIT = {
  wait: { help: 'follow until it is settled, and say how it ended; exits with 1 if anything failed' },
  timeout: {
    value: '<seconds>',
    help: `how long --wait waits (default: ${DEFAULT_SECONDS}); what is still open then exits with 1`,
  },
} as const;

/** Reads the limit of `--wait`. @throws Failure for a wrong one. */
export function waitLimitMs(given: Given): number {
  return (given.wholeNumber('timeout', 1, 24 * 3600) ?? DEFAULT_SECONDS) * SECOND;
}

/** Each look is a query by an index; an operator reads no faster. */
export const EVERY_MS = 1 * SECOND;

/** How far something is that has begun. */
export interface Far {
  readonly words: Part;
  /** Whether nothing more comes of it. */
  readonly isOver: boolean;
  readonly isGood: boolean;
}

/**
 * Looks each second until what has begun is over or the time is up, shows how far it is, and says how it ended. A server
 * that does not answer is asked again.
 *
 * @returns the exit code. @throws Failure where the last look has failed.
 */
export async function followToItsEnd<View>(
  call: Call,
  limitMs: number,
  look: () => Promise<Answered<View>>,
  says: (view: View) => Promise<Far> | Far,
): Promise<number> {
  const { progress } = call.terminal;
  const endsAt = Date.now() + limitMs;
  try {
    for (;;) {
      let waitMs = EVERY_MS;
      try {
        const { json, view } = await look();
        const far = await says(view);
        if (far.isOver || Date.now() >= endsAt) return tellEnd(call, json, far);
        progress(phraseOf(far.words).text);
      } catch (error) {
        if (!(error instanceof Unavailable) || Date.now() >= endsAt) throw error;
        waitMs = Math.max(waitMs, error.retryAfterMs ?? 0);
        progress(error.message);
      }
      await sleep(Math.max(0, Math.min(waitMs, endsAt - Date.now())));
    }
  } finally {
    progress(null);
  }
}

function tellEnd(call: Call, json: unknown, { words, isOver, isGood }: Far): number {
  const { out, progress } = call.terminal;
  const isDone = isOver && isGood;
  progress(null);
  if (call.isJson) writeJson(call, json);
  else {
    const { text } = phraseOf(words);
    writeOutcome(call, isDone, `${text}${isOver ? '' : ' The time is up.'}`);
    writeZone(out, text);
  }
  return isDone ? EXIT.ok : EXIT.failed;
}
