import { parseArgs, styleText } from 'node:util';

import { connect } from '../lib/db/connect.ts';
import { examine } from '../lib/operators/doctor.ts';

const USAGE = `npm run doctor -- [--events 50000]

Looks whether the bus in DATABASE_URL has kept its promises. Reads only. Exits with 1 when it has not.`;

/** `npm run doctor`. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      events: { type: 'string', default: '50000' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const events = Number(values.events);
  if (!Number.isInteger(events) || events < 1) throw new Error('--events: write a whole number above 0');
  if (!process.env['DATABASE_URL']) throw new Error('DATABASE_URL: write the URL of the database to look at');
  const { db, close } = await connect();
  try {
    const { checked, findings, events: seen } = await examine(db, events);
    console.log(`Looked at the newest ${seen} events and their deliveries.\n`);
    const wrong = new Set(findings.map(({ promise }) => promise));
    for (const promise of checked) {
      console.log(
        wrong.has(promise) ? styleText('red', `  ✗ ${promise}`) : `  ${styleText('green', '✓')} ${promise}`,
      );
      for (const { count, what, examples } of findings.filter((finding) => finding.promise === promise)) {
        console.log(`      ${count} ${what}: ${examples.join(', ')}${count > examples.length ? ', …' : ''}`);
      }
    }
    console.log(findings.length === 0 ? '\nAll is as it should be.' : '');
    process.exitCode = findings.length === 0 ? 0 : 1;
  } finally {
    await close();
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
