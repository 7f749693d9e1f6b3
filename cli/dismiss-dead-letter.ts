import { haltWords } from '../lib/console/dead-letters/halts.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { confirm } from './confirm.ts';
import { EXIT } from './failure.ts';
import { readDelivery, writeOutcome } from './held-delivery.ts';
import { failureText } from './states.ts';
import { wrapTo } from './text.ts';

/** Dismisses one dead letter, after confirmation. @param nothing says that nothing was done. @returns the exit code. */
export async function dismissDeadLetter(
  call: Call,
  deliveryId: string,
  reason: string,
  nothing: string,
): Promise<number> {
  const { terminal, isJson, bus } = call;
  const { view: found } = await readDelivery(call, deliveryId);
  const { topic, subscriber, lastError, halts, deadLetteredAt } = found;
  const error = lastError === null ? '' : `: ${failureText(lastError)}`;
  const halt = halts === null ? '' : `. It ${haltWords(halts)}`;
  terminal.err.write(wrapTo(terminal.err.columns, `${topic} to ${subscriber}${error}${halt}.`));
  if (deadLetteredAt !== null) await confirm(call, { action: 'Dismiss it', count: 1, nothing });
  const { dismissDeadLetter: dismiss } = await import('../lib/console/dead-letters/routes.ts');
  const { json, view } = await bus.ask(dismiss, { parameters: { deliveryId }, body: { reason } });
  if (isJson) writeJson(call, json);
  else {
    const goesOn = view.released ? ' Its lane goes on.' : '';
    writeOutcome(call, true, `Dismissed dead letter ${deliveryId}.${goesOn}`);
  }
  return EXIT.ok;
}
