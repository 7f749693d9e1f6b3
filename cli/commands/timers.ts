import { timersByTime } from '../../lib/console/timers/lists.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT } from '../failure.ts';
import { times } from '../times.ts';

export const command: Command = {
  name: 'timers',
  summary: 'show what will happen: events that are set for later',
  usage: ['timers [--topic <topic>] [--key <timerKey>]'],
  notes: ['The next one comes first. Cancel one with cancel-timer <eventId>.'],
  options: {
    topic: { value: '<topic>', help: 'only this topic' },
    key: { value: '<timerKey>', help: 'only timers of this key' },
  },
  examples: [
    ['timers', 'what happens next'],
    ['timers --topic booking.reminder.due --key bkg_48213', 'the reminder of one booking'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(0, given);
  const { listTimers } = await import('../../lib/console/timers/routes.ts');
  const query = { topic: given.text('topic'), timerKey: given.text('key') };
  const { json, view } = await bus.ask(listTimers, { query, named: { timerKey: '--key' } });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  if (view.items.length === 0) out.write('No timers are set.');
  else {
    out.write(drawList(out, timersByTime(view)));
    const more = view.nextCursor === null ? '' : `The next ${view.items.length}: --json has the others. `;
    out.write(`\n${out.paint('dim', `${more}${times()}`)}`);
  }
  return EXIT.ok;
}
