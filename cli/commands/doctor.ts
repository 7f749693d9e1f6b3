import { alertLines } from '../../lib/console/alerts/lines.ts';
import type { AlertState } from '../../lib/console/alerts/read.ts';
import type { Examination } from '../../lib/console/doctor/read.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import { instantOf } from '../../lib/platform/time.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import type { Pane } from '../terminal.ts';
import { hang, wrapTo } from '../text.ts';

/** The server examines no more in one request. */
const MOST = 20_000;

export const command: Command = {
  name: 'doctor',
  summary: 'check that the bus kept its promises, and see where alerts go',
  usage: ['doctor [--events <5000>]'],
  notes: [
    'Exits with 1 if a promise is broken. Changes nothing. npm run doctor checks more events, directly in the database of DATABASE_URL.',
  ],
  options: {
    events: {
      value: '<number>',
      help: `how many of the newest events to check, at most ${MOST} (default: 5000)`,
    },
  },
  examples: [['doctor', 'the newest 5000 events and all counters']],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(0, given);
  const query = { events: given.wholeNumber('events', 1, MOST) };
  const { examineBus } = await import('../../lib/console/doctor/routes.ts');
  const { json, view } = await bus.ask(examineBus, { query });
  if (isJson) writeJson(call, json);
  else {
    writeExamination(view, terminal.out);
    writeAlerts(view.alerts, terminal.out);
  }
  return view.findings.length === 0 ? EXIT.ok : EXIT.failed;
}

/** Writes where alerts go, and what was not delivered. */
function writeAlerts(alerts: AlertState, { write, paint, columns }: Pane): void {
  write('\nAlerts:');
  for (const { tone, words, details } of alertLines(alerts, instantOf(Date.now()))) {
    const mark = tone === 'ok' ? paint('green', '✓') : paint('yellow', '!');
    write(hang(`  ${mark} `, details ? `${words}: ${details.text}` : words, columns));
  }
}

/** Writes each promise with its findings. */
export function writeExamination({ events, checked, findings, settings }: Examination, pane: Pane): void {
  const { write, paint, columns } = pane;
  write(wrapTo(columns, `Checked the newest ${quantity(events, 'event')} and their deliveries.`));
  write('');
  for (const promise of checked) {
    const broken = findings.filter((finding) => finding.promise === promise);
    const mark = broken.length === 0 ? paint('green', '✓') : paint('red', '✗');
    write(hang(`  ${mark} `, broken.length === 0 ? promise : paint('red', promise), columns));
    for (const { count: number, what, examples } of broken) {
      const more = number > examples.length ? ', …' : '';
      write(hang('      ', `${count(number)} ${what}: ${examples.join(', ')}${more}`, columns));
    }
  }
  if (settings.length > 0) write('');
  for (const sentence of settings) write(hang(`  ${paint('yellow', '!')} `, sentence, columns));
  const broken = new Set(findings.map(({ promise }) => promise)).size;
  write(
    broken === 0
      ? paint('green', '\nThe bus kept all its promises.')
      : paint('red', `\nThe bus broke ${quantity(broken, 'promise')}.`),
  );
}
