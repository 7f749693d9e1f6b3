import { parseArgs } from 'node:util';

import { SECOND } from '../../../lib/platform/time.ts';
import { startPostgres } from '../../support/postgres.ts';
import { MISTAKES } from './orders.ts';
import { play } from './play.ts';

const USAGE = `npm run chaos:elsewhere -- [--seconds N] [--seed N] [--mistake NAME]

Kills relays and receivers (SIGKILL) at random while producers emit, then looks whether each event had its effect once and
in order, in a component that gets its events one by one and in one that gets batches.

  --seconds N      how long to kill (default: 60)
  --seed N         who is killed after how long (default: a random seed)
  --mistake NAME   break the receivers in one way, which must be found: ${MISTAKES.join(' or ')}`;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.trunc(Math.random() * 1_000_000)) },
    mistake: { type: 'string' },
    help: { type: 'boolean' },
  },
});

async function main(): Promise<number> {
  const mistake = MISTAKES.find((name) => name === values.mistake) ?? null;
  const isClear = /^\d+$/.test(values.seconds) && /^\d+$/.test(values.seed);
  if (values.help || !isClear || (values.mistake !== undefined && mistake === null)) {
    console.log(USAGE);
    return values.help ? 0 : 2;
  }
  const server = await startPostgres();
  try {
    const until = Date.now() + Number(values.seconds) * SECOND;
    const isOver = () => Date.now() >= until;
    const played = await play({ serverUrl: server.url, seed: Number(values.seed), isOver, mistake });
    const { faults, ...figures } = played;
    console.log(
      `${values.seconds} s, seed ${values.seed}${mistake === null ? '' : `, receivers with the mistake ${mistake}`}`,
    );
    for (const [name, figure] of Object.entries(figures))
      console.log(`${name.padEnd(16)}${`${figure}`.padStart(8)}`);
    console.log(`${'faults'.padEnd(16)}${`${faults.length}`.padStart(8)}`);
    for (const fault of faults.slice(0, 10)) console.log(`  ${fault}`);
    const isFound = faults.length > 0;
    if (mistake !== null) console.log(isFound ? 'The mistake was found.' : 'The mistake was NOT FOUND.');
    else console.log(isFound ? 'A promise was broken.' : 'Each event had its effect once, in order.');
    return isFound === (mistake !== null) ? 0 : 1;
  } finally {
    await server.stop();
  }
}

// Before the exit: the database server's own clean-up would otherwise end the process with 0.
const code = await main().catch((error: unknown) => {
  console.error(error);
  return 1;
});
process.exit(code);
