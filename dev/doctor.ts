import { examine } from '../lib/operators/doctor/read.ts';
import { withDatabase } from '../cli/database.ts';
import { EXIT } from '../cli/failure.ts';
import { runProgram } from '../cli/program.ts';

const DEFAULT_EVENTS = 50_000;

const USAGE = `npm run doctor -- [--events ${DEFAULT_EVENTS}]

Looks whether the bus in DATABASE_URL has kept its promises. Reads only. Exits with 1 when it has not.`;

/** `npm run doctor`. */
await runProgram({
  usage: USAGE,
  options: { events: { value: '<number>', help: 'how many of the newest to look at' } },
  async run(given, { out }) {
    const newest = given.wholeNumber('events', 1, 1_000_000_000) ?? DEFAULT_EVENTS;
    const { checked, findings, events } = await withDatabase(['DATABASE_URL'], (db) => examine(db, newest));
    out.write(`Looked at the newest ${events} events and their deliveries.\n`);
    const wrong = new Set(findings.map(({ promise }) => promise));
    for (const promise of checked) {
      out.write(
        wrong.has(promise) ? out.paint('red', `  ✗ ${promise}`) : `  ${out.paint('green', '✓')} ${promise}`,
      );
      for (const { count, what, examples } of findings.filter((finding) => finding.promise === promise)) {
        out.write(`      ${count} ${what}: ${examples.join(', ')}${count > examples.length ? ', …' : ''}`);
      }
    }
    if (findings.length > 0) return EXIT.failed;
    out.write('\nAll is as it should be.');
    return EXIT.ok;
  },
});
