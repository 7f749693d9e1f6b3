import { writeExamination } from '../cli/commands/doctor.ts';
import { withDatabase } from '../cli/database.ts';
import { EXIT } from '../cli/failure.ts';
import { runProgram } from '../cli/program.ts';
import { examine } from '../lib/console/doctor/read.ts';

const DEFAULT_EVENTS = 50_000;

const USAGE = `npm run doctor -- [--events ${DEFAULT_EVENTS}]

Checks that the bus in DATABASE_URL kept its promises. Changes nothing. Exits with 1 if a promise is broken.`;

/** `npm run doctor`. */
await runProgram({
  usage: USAGE,
  options: { events: { value: '<number>', help: 'how many of the newest events to check' } },
  async run(given, { out }) {
    const newest = given.wholeNumber('events', 1, 1_000_000_000) ?? DEFAULT_EVENTS;
    const examination = await withDatabase(['DATABASE_URL'], (db) => examine(db, newest));
    writeExamination(examination, out);
    return examination.findings.length === 0 ? EXIT.ok : EXIT.failed;
  },
});
