import { timersByTime } from '../../lib/console/timers/lists.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT } from '../failure.ts';
import { gather, moreWords, MOST } from '../gather.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

/** A screenful. */
const LISTED = 20;

export const command: Command = {
  name: 'timers',
  summary: 'show what will happen: events that are set for later',
  usage: ['timers [--topic <topic>] [--key <timerKey>] [--limit <number>]'],
  notes: ['The next one comes first. Cancel one with cancel-timer <eventId>.'],
  options: {
    topic: { value: '<topic>', help: 'only this topic' },
    key: { value: '<timerKey>', help: 'only timers of this key' },
    limit: { value: '<number>', help: `how many to list (default: ${LISTED})` },
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
  const limit = given.wholeNumber('limit', 1, MOST) ?? LISTED;
  const query = { topic: given.text('topic'), timerKey: given.text('key') };
  const named = { timerKey: '--key' };
  const { json, view } = await gather(bus, listTimers, { limit, lists: ['items'], query, named });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  const { items, nextCursor, filters } = view;
  if (items.length === 0) {
    const isFiltered = filters.topic !== null || filters.timerKey !== null;
    out.write(isFiltered ? 'No timers match.' : 'No timers are set.');
  } else {
    out.write(drawList(out, timersByTime(view)));
    const more = nextCursor === null ? '' : moreWords('There are later ones', items.length);
    out.write(`\n${out.paint('dim', wrapTo(out.columns, `${more}${times()}`))}`);
  }
  return EXIT.ok;
}
