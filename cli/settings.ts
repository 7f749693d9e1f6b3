import { readFileSync } from 'node:fs';
import process from 'node:process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { Scope } from '../lib/http/openapi/operation.ts';
// oxlint-disable-next-line no-restricted-imports -- until it has moved
import { dataDir, read } from '../dev/development.ts';
// oxlint-disable-next-line no-restricted-imports -- until it has moved
import type { Development } from '../dev/development.ts';
import type { Given, Options } from './arguments.ts';
import { EXIT, Failure, misused } from './failure.ts';
import type { Terminal } from './terminal.ts';

/** Of every command. */
export const COMMON_OPTIONS = {
  url: {
    value: '<url>',
    help: 'the server; else POSTBUD_URL, else the one that npm start runs here, else http://localhost:3000',
  },
  'token-file': {
    value: '<file>',
    help: 'a file with an operator’s token, - for standard input; else POSTBUD_TOKEN',
  },
  json: { help: 'what the server answered, as JSON, and nothing else on standard output' },
  help: { help: 'this help; so does -h' },
} satisfies Options;

/** Whom a command talks to, and as whom. */
export interface Settings {
  /** The origin: Postbud’s paths begin there. */
  readonly url: URL;
  /** @returns what to send as `Authorization`. @throws Failure without a token. */
  readonly operator: (scope: Scope) => Promise<string>;
  /** The same for the cron. */
  readonly cron: () => string;
}

/** Long enough for any one request, and little to lose. */
const MINTED_FOR = '5m';

/**
 * Finds out where the server is and how to be let in.
 *
 * @throws Failure for an address or a file of a token that is of no use.
 */
export function readSettings(given: Given, { err }: Terminal): Settings {
  const { env } = process;
  const development = read(resolve(root, dataDir()));
  const url = urlOf(given.text('url') ?? filled(env['POSTBUD_URL']), development);
  if (url.protocol === 'http:' && !isLocal(url)) {
    err.write(err.paint('yellow', `${url.origin} has no HTTPS: others on the way can read the token.`));
  }
  const own = isLocal(url) ? development : null;
  const file = given.text('token-file');
  // Whoever copies it from a command of curl has the scheme too.
  const token = (file === undefined ? filled(env['POSTBUD_TOKEN']) : tokenIn(file))?.replace(
    /^bearer +/i,
    '',
  );
  let hasSaid = false;
  return {
    url,
    async operator(scope) {
      if (token !== undefined) return `Bearer ${checked(token)}`;
      // Each time anew: whoever follows the bus outlives a token.
      const minted = isLocal(url) ? await mint(scope, own) : null;
      if (minted === null) throw withoutToken();
      if (!hasSaid) {
        const secret = env['OPERATOR_JWT_SECRET'] ? 'OPERATOR_JWT_SECRET' : `the secret in ${dataDir()}/`;
        err.write(err.paint('dim', `No token given: made one with ${secret}.`));
      }
      hasSaid = true;
      return `Bearer ${minted}`;
    },
    cron() {
      const secret = filled(env['CRON_SECRET']) ?? own?.variables['CRON_SECRET'];
      if (secret) return `Bearer ${checked(secret)}`;
      throw new Failure(
        EXIT.denied,
        'There is no secret to call the cron with.',
        'Set CRON_SECRET to the one that the server has.',
      );
    },
  };
}

const root = fileURLToPath(new URL('../', import.meta.url));

/** An empty variable is an unset one, as everywhere. */
const filled = (value: string | undefined) => value?.trim() || undefined;

function urlOf(written: string | undefined, development: Development | null): URL {
  const address = written ?? development?.url ?? 'http://localhost:3000';
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) {
    throw misused(`“${address}” is no address of a server.`, 'Write one like https://postbud.example.no');
  }
  const { username, password, origin } = new URL(address);
  if (username || password) throw misused('Leave the user and the password out of the address.');
  return new URL(origin);
}

function isLocal({ hostname }: URL): boolean {
  return /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

function tokenIn(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').trim();
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
    throw new Failure(EXIT.usage, `The token can't be read from ${file}${why}.`, null, { cause: error });
  }
}

/** What can't stand in a header is no token, and must not be shown in an error. */
function checked(token: string): string {
  if (/^[\x21-\x7E]+$/.test(token)) return token;
  throw new Failure(
    EXIT.denied,
    'What was given as a token is none: it is empty or holds spaces.',
    HOW_TO_MINT,
  );
}

/** @returns null where no secret is at hand. */
async function mint(scope: Scope, development: Development | null): Promise<string | null> {
  const own = filled(process.env['OPERATOR_JWT_SECRET']);
  const madeUp = development?.variables['OPERATOR_JWT_SECRET'];
  if (own === undefined && madeUp === undefined) return null;
  // oxlint-disable-next-line no-restricted-imports -- until it has moved
  const { mintToken } = await import('../dev/operator-token.ts');
  return await mintToken(
    { sub: 'developer', scope, expires: MINTED_FOR },
    own === undefined ? madeUp : undefined,
  );
}

const HOW_TO_MINT = 'Make one with npm run -s token, or take one of your identity provider’s.';

function withoutToken(): Failure {
  return new Failure(
    EXIT.denied,
    'There is no token to be let in with.',
    `${HOW_TO_MINT} Give it as POSTBUD_TOKEN or in a file: --token-file <file>.`,
  );
}
