import { standingList } from '../../lib/console/subscribers/standing-list.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT } from '../failure.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

export const command: Command = {
  name: 'subscribers',
  summary: 'show where each subscriber runs, how it is, and what waits',
  usage: ['subscribers'],
  notes: [
    'Shows all components that receive events, those in trouble first: outage, failing, paused, delivering, ready (nothing has been delivered to it yet), or unattached, which means that no process or endpoint is set up for it here.',
  ],
  options: {},
  examples: [
    ['subscribers', 'all of them'],
    [
      `subscribers --json | jq '.items[] | select(.state == "paused")'`,
      'those that are paused, for a script',
    ],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(0, given);
  const { listSubscribers } = await import('../../lib/console/subscribers/routes.ts');
  const { json, view } = await bus.ask(listSubscribers);
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  out.write(drawList(out, standingList(view)));
  const next = 'npx postbud subscriber <name> shows one: whose pause it is, what it said last, what to do.';
  out.write(`\n${out.paint('dim', wrapTo(out.columns, `${next} ${times()}`))}`);
  return EXIT.ok;
}
