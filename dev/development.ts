import { randomBytes } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { providers, readConfig } from '../lib/config.ts';
import type { Provider, Scheme } from '../lib/config.ts';

/** What the local server made up for itself, and where it listens: the demo, in another process, reads it. */
const file = z.object({
  url: z.url(),
  variables: z.record(z.string(), z.string()),
});
export type Development = z.output<typeof file>;

/** The schemes of the providers that do not sign by Standard Webhooks. */
const SCHEMES: Readonly<Partial<Record<Provider, Scheme>>> = {
  cardpayments: 'stripe',
  walletpayments: 'vipps',
};

/**
 * Gives each unset secret of the environment that lets in a person a made-up one, the same at every start.
 *
 * @returns the variables that it set.
 */
export function makeUpSecrets(dataDir: string): Record<string, string> {
  const wanted: Record<string, string> = { CRON_SECRET: randomBytes(18).toString('base64url') };
  if (!process.env['OPERATOR_JWKS_URL'])
    wanted['OPERATOR_JWT_SECRET'] = randomBytes(36).toString('base64url');
  return setUnset(dataDir, wanted);
}

/** Does the same for those whom the demo plays: the providers, and an accounting system at `/dev/accounting`. */
export function makeUpPlayers(dataDir: string, port: number): Record<string, string> {
  const secret = () => `whsec_${randomBytes(32).toString('base64')}`;
  const wanted: Record<string, string> = {};
  for (const provider of providers) {
    const prefix = `WEBHOOK_${provider.toUpperCase()}`;
    if (process.env[`${prefix}_SECRET`]) continue;
    wanted[`${prefix}_SECRET`] = secret();
    wanted[`${prefix}_SCHEME`] = SCHEMES[provider] ?? 'standard';
  }
  if (!process.env['SUBSCRIBER_ACCOUNTING_URL']) {
    wanted['SUBSCRIBER_ACCOUNTING_SECRET'] = secret();
    wanted['SUBSCRIBER_ACCOUNTING_URL'] = `http://localhost:${port}/dev/accounting`;
  }
  return setUnset(dataDir, wanted);
}

function setUnset(dataDir: string, wanted: Readonly<Record<string, string>>): Record<string, string> {
  const kept = read(dataDir)?.variables ?? {};
  const madeUp: Record<string, string> = {};
  for (const [name, value] of Object.entries(wanted)) {
    if (process.env[name]) continue;
    madeUp[name] = name.endsWith('_SECRET') ? (kept[name] ?? value) : value;
    process.env[name] = madeUp[name];
  }
  return madeUp;
}

/** Writes down where the server listens and the secrets it goes by, for this user only. */
export function publish(dataDir: string, url: string, madeUp: Readonly<Record<string, string>>): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, 'development.json');
  const text = `${JSON.stringify({ url, variables: madeUp } satisfies Development, null, 2)}\n`;
  writeFileSync(path, text, { mode: 0o600 });
  // One that is there keeps its mode.
  chmodSync(path, 0o600);
}

/** What a database of Postgres has in its folder; in one that is used for other things too, the rest is not ours. */
const OF_POSTGRES = /^(base|global|pg_[\w.]+|PG_VERSION|post[\w.]+)$/;

/** Keeps the embedded database to this user: it makes files that everybody may write. */
export function keepPrivate(folder: string): void {
  chmodSync(folder, 0o700);
  for (const name of readdirSync(folder).filter((entry) => OF_POSTGRES.test(entry)))
    restrict(join(folder, name));
}

function restrict(path: string): void {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return;
  chmodSync(path, stat.isDirectory() ? 0o700 : 0o600);
  if (stat.isDirectory()) for (const name of readdirSync(path)) restrict(join(path, name));
}

/** What the local server published, or null when none has run here. */
export function read(dataDir: string): Development | null {
  try {
    return file.parse(JSON.parse(readFileSync(join(dataDir, 'development.json'), 'utf8')));
  } catch {
    return null;
  }
}

/** The folder of the embedded database, where the published file lies too. */
export function dataDir(): string {
  return readConfig().dataDir;
}
