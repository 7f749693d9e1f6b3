import process from 'node:process';

import { EXIT, Failure, misused, unknownName } from '../cli/arguments.ts';
import { dataDir, readLocalServer } from '../cli/local-server.ts';
import { mintToken, operatorSettings } from '../cli/operator-token.ts';
import { runProgram } from './program.ts';
import { signInLink } from './sign-in-link.ts';
import { ago } from '../lib/console/kit/replay-request.ts';
import type { OperatorSettings } from '../lib/platform/config.ts';
import { SCOPES } from '../lib/platform/scopes.ts';
import { SECOND, msOf } from '../lib/platform/time.ts';

const USAGE = `npm run token -- [--sub kari] [--scope "event-bus:read event-bus:replay"] [--expires 8h]

Mints an operator’s token with OPERATOR_JWT_SECRET, or with the secret that npm start generated. Where the server of
POSTBUD_URL or the local one answers, a link follows that signs a browser in with it, once.`;

/** `npm run token`. */
await runProgram({
  usage: USAGE,
  options: {
    sub: { value: '<name>', help: 'the operator’s name, for the operator log' },
    scope: { value: '<scopes>', help: 'scopes, separated by spaces' },
    expires: { value: '<8h>', help: 'how long the token is valid' },
  },
  async run(given, { out, err }) {
    const sub = subjectOf(given.text('sub') ?? 'developer');
    const scope = scopeOf(given.text('scope') ?? 'event-bus:read event-bus:replay');
    const local = readLocalServer(dataDir());
    const generated = local?.variables['OPERATOR_JWT_SECRET'];
    const secret = process.env['OPERATOR_JWT_SECRET']?.trim() ? undefined : generated;
    const expires = lifetimeOf(given.text('expires'), operatorSettings(secret));
    const token = await mintToken({ sub, scope, expires }, secret);
    if (token === null) throw withoutSecret();
    out.write(token);
    const server = process.env['POSTBUD_URL']?.trim() || local?.url;
    const link = server === undefined ? null : await signInLink(server.replace(/\/$/, ''), token);
    // Beside the token, which alone is for a pipe.
    if (link !== null) err.write(`\nSigns a browser in, once, within 10 minutes:\n\n  ${link}`);
    return EXIT.ok;
  },
});

function subjectOf(sub: string): string {
  if (sub.trim() && !/\p{C}/u.test(sub)) return sub.trim();
  throw misused('--sub is blank or contains control characters.', 'Write a name, for example --sub kari');
}

function scopeOf(scope: string): string {
  const words = scope.split(/\s+/).filter(Boolean);
  const wrong = words.length === 0 ? scope : words.find((word) => !SCOPES.some((known) => known === word));
  if (wrong === undefined) return words.join(' ');
  throw unknownName('scope', wrong, SCOPES);
}

function lifetimeOf(expires: string | undefined, { maxAgeSeconds }: OperatorSettings): string {
  // A working day, or less where the server accepts less.
  if (expires === undefined) return '8h';
  const { error } = ago.safeParse(expires);
  if (error) throw misused(`--expires: ${error.issues[0]!.message}`);
  if (msOf(expires) <= maxAgeSeconds * SECOND) return expires;
  const longest = process.env['OPERATOR_TOKEN_MAX_AGE']?.trim() || '24h';
  throw misused(
    `--expires: ${expires} is longer than a server accepts, which is ${longest}.`,
    `Write ${longest} or less, or set OPERATOR_TOKEN_MAX_AGE to the server’s value.`,
  );
}

function withoutSecret(): Failure {
  return new Failure(
    EXIT.failed,
    'OPERATOR_JWT_SECRET is not set.',
    process.env['OPERATOR_JWKS_URL']?.trim()
      ? 'With OPERATOR_JWKS_URL the identity provider issues the tokens.'
      : 'Set it, or run npm start once, which generates one.',
  );
}
