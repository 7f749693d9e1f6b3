import { ago, timeText } from '../../lib/console/kit/instants.ts';
import type { SetAside } from '../../lib/console/set-aside/read.ts';
import { openWords, whatWords } from '../../lib/console/set-aside/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import type { Pane } from '../terminal.ts';
import { hang, wrapTo } from '../text.ts';
import { times } from '../times.ts';

export const command: Command = {
  name: 'set-aside',
  summary: 'show what the bus set aside: rows that should not exist, and a clock that was ahead',
  usage: ['set-aside'],
  notes: ['What is set aside stops nothing else. Repair it with repair <id>.'],
  options: {},
  examples: [['set-aside', 'what is to be repaired, then what was']],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(0, given);
  const { listSetAside } = await import('../../lib/console/set-aside/routes.ts');
  const { json, view } = await bus.ask(listSetAside);
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  const { items, generatedAt: now } = view;
  out.write(wrapTo(out.columns, items.length === 0 ? 'Nothing is set aside.' : openWords(view)));
  for (const item of items) out.write(summaryOf(item, now, out));
  if (items.length > 0) out.write(`\n${out.paint('dim', times())}`);
  return EXIT.ok;
}

function summaryOf(row: SetAside, now: string, { paint, columns }: Pane): string {
  const { id, at, eventId, eventExists, error, repaired } = row;
  const mark = repaired === null ? paint('yellow', '! ') : paint('green', '✓ ');
  const event = eventId === null ? [] : [`event ${eventId}${eventExists ? '' : ', which does not exist'}`];
  return [
    `\n${hang(mark, whatWords(row), columns)}`,
    hang('  ', [`since ${timeText(at, now)} (${ago(at, now)})`, ...event].join(' · '), columns),
    ...(error === null ? [] : [hang('  ', error, columns)]),
    ...(repaired === null
      ? [paint('dim', `  npx postbud repair ${id} --reason <text>`)]
      : [
          hang('  ', `repaired by ${repaired.by} ${timeText(repaired.at, now)}: ${repaired.reason}`, columns),
        ]),
  ].join('\n');
}
