import { readFileSync } from 'node:fs';
import process from 'node:process';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { Scope } from '../lib/platform/http/operation.ts';
import type { Given, Options } from './arguments.ts';
import { EXIT, Failure, misused } from './arguments.ts';
import type { LocalServer } from './local-server.ts';
import { MINT } from './refusals.ts';
import type { Terminal } from './terminal.ts';

/** The options of a command that asks no server. */
const OFFLINE_OPTIONS = {
  json: { help: 'print JSON: of a server, its answer' },
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
  ...OFFLINE_OPTIONS,
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
  readonly authorization: (scope: Scope) => Promise<string>;
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
  const isHere = /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === 'http:' && !isHere)
    err.write(err.paint('yellow', `${url.origin} is not HTTPS: the token is sent unencrypted.`));
  const file = given.text('token-file');
  const token = file === undefined ? filled(env['POSTBUD_TOKEN']) : tokenIn(file);
  let hasSaid = false;
  return {
    url,
    async authorization(scope) {
      if (token !== undefined) return bearer(token);
      const own = filled(env['OPERATOR_JWT_SECRET']);
      const secret = own === undefined ? local?.variables['OPERATOR_JWT_SECRET'] : undefined;
      // A new one for each request: `events --follow` runs for longer than a token is valid.
      const minted = isHere && (own ?? secret) !== undefined ? await mint(scope, secret) : null;
      if (minted === null) throw new Failure(EXIT.denied, 'No token given.', MINT);
      const source = own === undefined ? `the secret in ${dataDir()}/` : 'OPERATOR_JWT_SECRET';
      if (!hasSaid) err.write(err.paint('dim', `No token given: minted one with ${source}.`));
      hasSaid = true;
      return `Bearer ${minted}`;
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
  return new URL(new URL(address).origin);
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
function bearer(token: string): string {
  // Copied from a curl command, it comes with its scheme.
  const alone = token.replace(/^bearer +/i, '');
  if (/^[\x21-\x7E]+$/.test(alone)) return `Bearer ${alone}`;
  throw new Failure(EXIT.denied, 'The token is empty or contains spaces or special characters.', MINT);
}

async function mint(scope: Scope, secret: string | undefined): Promise<string | null> {
  const { mintToken } = await import('./operator-token.ts');
  return await mintToken({ sub: 'developer', scope, expires: MINTED_FOR }, secret);
}
