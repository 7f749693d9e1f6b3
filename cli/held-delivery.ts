import { isProbe } from '../lib/console/dead-letters/delivery.ts';
import type { DeadLetter, Try } from '../lib/console/dead-letters/delivery.ts';
import { timeText, until } from '../lib/console/kit/instants.ts';
import type { Call } from './command.ts';
import { EXIT } from './failure.ts';
import { follow, waitLimitMs } from './follow.ts';
import { failureText } from './states.ts';
import { wrapTo } from './text.ts';
import { inZone } from './times.ts';

/** Reads a delivery in any state. */
export async function readDelivery({ bus }: Call, deliveryId: string) {
  const { showDeadLetter } = await import('../lib/console/dead-letters/routes.ts');
  return await bus.ask(showDeadLetter, { parameters: { deliveryId } });
}

const triesOf = ({ attempts }: DeadLetter) =>
  attempts.filter((attempt): attempt is Try => 'attempt' in attempt);

/**
 * Waits for the next attempt of a delivery, and says how it ended.
 *
 * @param before the delivery before it was made due.
 * @returns the exit code, and the delivery as it is now.
 */
export async function followAttempt(call: Call, before: DeadLetter) {
  const known = triesOf(before).length;
  const { json, view } = await follow(
    call,
    waitLimitMs(call.given),
    () => readDelivery(call, before.deliveryId),
    { isSettled: ({ view: now }) => triesOf(now).length > known, words: () => 'Waiting for the attempt…' },
  );
  const last = triesOf(view).length > known ? triesOf(view).at(-1)! : null;
  return {
    json,
    words: outcomeWords(view, last),
    code: last?.outcome === 'delivered' ? EXIT.ok : EXIT.failed,
  };
}

function outcomeWords(view: DeadLetter, last: Try | null): string {
  const { generatedAt: now, nextAttemptAt } = view;
  if (last === null) return 'No relay has attempted it yet.';
  const next = nextAttemptAt === null ? '' : `, next attempt ${until(nextAttemptAt, now)}`;
  switch (last.outcome) {
    case 'delivered':
      return `Delivered at ${inZone(timeText(view.deliveredAt ?? last.at, now))}.`;
    case 'waited':
      if (isProbe(last)) return `The subscriber does not answer${next}: ${failureText(last.error!)}`;
      return `The subscriber asked to wait${next}.`;
    case 'failed': {
      const error = last.error ? `: ${failureText(last.error)}` : '';
      const dead = view.state === 'dead_lettered' ? ' and was dead-lettered' : next;
      return `Attempt ${last.attempt} failed${dead}${error}`;
    }
  }
}

/** Says how an action ended, with a mark that needs no colour. */
export function writeOutcome({ terminal: { out } }: Call, isGood: boolean, words: string): void {
  const mark = isGood ? out.paint('green', '✓') : out.paint('red', '✗');
  out.write(wrapTo(out.columns, `${mark} ${words}`));
}
