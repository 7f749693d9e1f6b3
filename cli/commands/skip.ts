import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { requireDeliveryId } from '../dead-letter.ts';
import { EXIT, misused } from '../failure.ts';
import { writeOutcome } from '../held-delivery.ts';
import { REASON, requireReason } from '../reason.ts';
import { wrapTo } from '../text.ts';

const EXAMPLE = 'skip 12-345 --reason "answered by phone"';

export const command: Command = {
  name: 'skip',
  summary: 'dead-letter the delivery that holds a lane, so that the lane continues',
  usage: ['skip <deliveryId> --reason <text>'],
  notes: [
    'The delivery becomes a dead letter, which can be replayed like any other. Those behind it are delivered before it.',
  ],
  options: REASON,
  examples: [[EXAMPLE, 'the lane goes on with the next delivery']],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(1, given);
  const [deliveryId] = given.positionals;
  if (deliveryId === undefined)
    throw misused('The delivery id is missing.', `For example: npx postbud ${EXAMPLE}`);
  requireDeliveryId(deliveryId);
  const reason = requireReason(given, EXAMPLE.replace('12-345', deliveryId));
  const { skipFirst } = await import('../../lib/console/lanes/routes.ts');
  const { json, view } = await bus.ask(skipFirst, { parameters: { deliveryId }, body: { reason } });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  writeOutcome(
    call,
    true,
    `Skipped ${deliveryId} (${view.topic} to ${view.subscriber}). Its lane continues.`,
  );
  out.write(
    out.paint('dim', wrapTo(out.columns, `To deliver it later: npx postbud replay --delivery ${deliveryId}`)),
  );
  return EXIT.ok;
}
