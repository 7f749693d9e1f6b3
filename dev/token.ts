import { parseArgs } from 'node:util';

import { InvalidConfiguration } from '../lib/config.ts';
import { dataDir, read } from './development.ts';
import { mintToken } from './operator-token.ts';

const USAGE = `npm run token -- [--sub kari] [--scope "event-bus:read event-bus:replay"] [--expires 8h]

Mints an operator's token for OPERATOR_JWT_SECRET, or for the secret that npm start made up.`;

/** `npm run token`. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      sub: { type: 'string', default: 'developer' },
      scope: { type: 'string', default: 'event-bus:read event-bus:replay' },
      expires: { type: 'string', default: '8h' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const madeUp = read(dataDir())?.variables['OPERATOR_JWT_SECRET'];
  const secret = process.env['OPERATOR_JWT_SECRET'] ? undefined : madeUp;
  const token = await mintToken(values, secret);
  if (token === null) {
    throw new InvalidConfiguration(
      'OPERATOR_JWT_SECRET',
      'set it, or run npm start once, which makes one up',
    );
  }
  console.log(token);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 1;
}
