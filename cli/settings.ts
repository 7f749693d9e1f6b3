import { readFileSync } from 'node:fs';
import process from 'node:process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { Scope } from '../lib/platform/http/operation.ts';
import type { Given, Options } from './arguments.ts';
import { EXIT, Failure, misused } from './failure.ts';
import type { LocalServer } from './local-server.ts';
import { CRON, MINT } from './refusals.ts';
import type { Terminal } from './terminal.ts';

/** The options of a command that asks no server. */
const OFFLINE_OPTIONS = {
  json: { help: 'print JSON' },
  help: { help: 'show this help; also -h' },
} satisfies Options;

/** The options of every other command. */
export const COMMON_OPTIONS = {
  url: {
    value: '<url>',
    help: 'the server’s address (default: POSTBUD_URL, else that of the local npm start, else http://localhost:3000)',
  },
  'token-file': {
    value: '<file>',
    help: 'read the token from a file, or from standard input with - (default: POSTBUD_TOKEN)',
  },
  utc: { help: 'show times in UTC (default: the zone of TZ or of this machine)' },
  json: { help: 'print the server’s answer as JSON' },
  help: { help: 'show this help; also -h' },
} satisfies Options;

/** Lists the options that a command has in addition to its own. */
export function commonOptionsOf({ isOffline }: { readonly isOffline?: true | undefined }): Options {
  return isOffline ? OFFLINE_OPTIONS : COMMON_OPTIONS;
}

/** The server that a command talks to, and its credentials. */
export interface Settings {
  /** An origin, without a path. */
  readonly url: URL;
  /** @returns the `Authorization` header. @throws Failure without a token. */
  readonly operator: (scope: Scope) => Promise<string>;
  /** @returns the header for the cron. @throws Failure without a secret. */
  readonly cron: () => Promise<string>;
}

/** Longer than any request takes, and short if the token leaks. */
const MINTED_FOR = '5m';

/**
 * Reads the server’s address and the credentials from the options, the environment and the local server’s file.
 *
 * @throws Failure for an invalid address or an unreadable token file.
 */
export async function readSettings(given: Given, { err }: Terminal): Promise<Settings> {
  const { env } = process;
  const { dataDir, readLocalServer } = await import('./local-server.ts');
  const local = readLocalServer(resolve(root, dataDir()));
  const url = urlOf(given.text('url') ?? filled(env['POSTBUD_URL']), local);
  if (url.protocol === 'http:' && !isLocal(url)) {
    err.write(err.paint('yellow', `${url.origin} is not HTTPS: the token is sent unencrypted.`));
  }
  const own = isLocal(url) ? local : null;
  const file = given.text('token-file');
  // Copied from a curl command, it comes with its scheme.
  const token = (file === undefined ? filled(env['POSTBUD_TOKEN']) : tokenIn(file))?.replace(
    /^bearer +/i,
    '',
  );
  let hasSaid = false;
  return {
    url,
    async operator(scope) {
      if (token !== undefined) return `Bearer ${checked(token)}`;
      // A new one for each request: `events --follow` runs for longer than a token is valid.
      const minted = isLocal(url) ? await mint(scope, own) : null;
      if (minted === null) throw new Failure(EXIT.denied, 'No token given.', MINT);
      if (!hasSaid) {
        const secret = env['OPERATOR_JWT_SECRET'] ? 'OPERATOR_JWT_SECRET' : `the secret in ${dataDir()}/`;
        err.write(err.paint('dim', `No token given: minted one with ${secret}.`));
      }
      hasSaid = true;
      return `Bearer ${minted}`;
    },
    async cron() {
      const secret = filled(env['CRON_SECRET']) ?? own?.variables['CRON_SECRET'];
      if (secret) return `Bearer ${checked(secret)}`;
      throw new Failure(EXIT.denied, 'The cron’s secret is missing.', CRON);
    },
  };
}

const root = fileURLToPath(new URL('../', import.meta.url));

/** An empty variable counts as unset, as everywhere. */
const filled = (value: string | undefined) => value?.trim() || undefined;

function urlOf(written: string | undefined, local: LocalServer | null): URL {
  const address = written ?? local?.url ?? 'http://localhost:3000';
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) {
    throw misused(`'${address}' is not a server’s address.`, 'Write one like https://postbud.example.no');
  }
  const { username, password, origin } = new URL(address);
  if (username || password)
    throw misused(
      'The address contains a user or a password.',
      'Write it without, like https://postbud.example.no',
    );
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
    throw new Failure(EXIT.usage, `The token can’t be read from ${file}${why}.`, null, { cause: error });
  }
}

/** Refuses text that no header can hold: `fetch` would show it in its error. */
function checked(token: string): string {
  if (/^[\x21-\x7E]+$/.test(token)) return token;
  throw new Failure(EXIT.denied, 'The token is empty or contains spaces or special characters.', MINT);
}

/** @returns null without a secret. */
async function mint(scope: Scope, local: LocalServer | null): Promise<string | null> {
  const own = filled(process.env['OPERATOR_JWT_SECRET']);
  const generated = local?.variables['OPERATOR_JWT_SECRET'];
  if (own === undefined && generated === undefined) return null;
  const { mintToken } = await import('./operator-token.ts');
  return await mintToken(
    { sub: 'developer', scope, expires: MINTED_FOR },
    own === undefined ? generated : undefined,
  );
}
