import { drawDoc } from '../cli/draw.ts';
import { withDatabase } from './database.ts';
import { EXIT } from '../cli/arguments.ts';
import { runProgram } from './program.ts';
import { examinationDoc, examinationOf } from '../lib/console/doctor/views.ts';
import { examine } from '../lib/bus/doctor/examine.ts';

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
    drawDoc(out, examinationDoc(examinationOf(examination)));
    return examination.findings.length === 0 ? EXIT.ok : EXIT.failed;
  },
});
