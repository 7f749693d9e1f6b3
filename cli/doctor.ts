import { count, counted } from '../lib/operators/page/words.ts';
import { examination } from './answers.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, Command } from './command.ts';
import { EXIT } from './failure.ts';
import { wrapTo } from './text.ts';

/** As many as the server looks at in one request. */
const MOST = 20_000;

export const doctor: Command = {
  name: 'doctor',
  summary: 'checks that the bus kept its promises',
  usage: ['doctor [--events <5000>]'],
  notes: ['Ends with 1 when it has not. Reads only. npm run doctor looks at more, directly in DATABASE_URL.'],
  options: {
    events: {
      value: '<number>',
      help: `how many of the newest events to look at, ${MOST} at most; else 5000`,
    },
  },
  examples: [['doctor', 'the newest 5000 events, and all that is counted']],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(0, given);
  const events = given.wholeNumber('events', 1, MOST);
  const { json, view } = await bus.ask({
    path: '/platform/event-bus/doctor',
    answer: examination,
    query: { events },
  });
  const exitCode = view.findings.length === 0 ? EXIT.ok : EXIT.failed;
  if (isJson) {
    writeJson(call, json);
    return exitCode;
  }
  const { out } = terminal;
  const looked = `Looked at the newest ${counted(view.events, 'event')} and what was delivered of them.`;
  out.write(`${wrapTo(out.columns, looked)}\n`);
  for (const promise of view.checked) {
    const findings = view.findings.filter((finding) => finding.promise === promise);
    const mark = findings.length === 0 ? out.paint('green', '✓') : out.paint('red', '✗');
    const words = wrapTo(out.columns, promise, '    ').slice(4);
    out.write(`  ${mark} ${findings.length === 0 ? words : out.paint('red', words)}`);
    for (const { count: number, what, examples } of findings) {
      const more = number > examples.length ? ', …' : '';
      out.write(wrapTo(out.columns, `${count(number)} ${what}: ${examples.join(', ')}${more}`, '      '));
    }
  }
  const broken = new Set(view.findings.map(({ promise }) => promise)).size;
  const verdict = broken === 0 ? 'All is as it should be.' : `${counted(broken, 'promise')} not kept.`;
  out.write(`\n${out.paint(broken === 0 ? 'green' : 'red', verdict)}`);
  return exitCode;
}
