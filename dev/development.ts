import { randomBytes } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { localServerFile, readLocalServer } from '../cli/local-server.ts';
import type { LocalServer } from '../cli/local-server.ts';
import { isUsableSecret } from '../lib/edge/webhooks/verify.ts';
import { providers, schemes } from '../lib/platform/config.ts';
import type { Provider, Scheme } from '../lib/platform/config.ts';

/** The schemes of the providers that do not sign by Standard Webhooks. */
const SCHEMES: Readonly<Partial<Record<Provider, Scheme>>> = {
  cardpayments: 'stripe',
  walletpayments: 'vipps',
};

/**
 * Generates the unset secrets of operators and the cron, and keeps them from start to start.
 *
 * @returns the variables that it set.
 */
export function generateSecrets(dataDir: string): Record<string, string> {
  const wanted: Record<string, string> = { CRON_SECRET: randomBytes(18).toString('base64url') };
  if (!process.env['OPERATOR_JWKS_URL'])
    wanted['OPERATOR_JWT_SECRET'] = randomBytes(36).toString('base64url');
  return setUnset(dataDir, wanted);
}

/**
 * Does the same for the demo's partners: the providers, and an accounting system at `/dev/accounting`.
 *
 * @param url the server's.
 */
export function generatePartners(dataDir: string, url: string): Record<string, string> {
  const wanted: Record<string, string> = {};
  for (const provider of providers) {
    const prefix = `WEBHOOK_${provider.toUpperCase()}`;
    // As in a deployment: without a scheme of its own, a secret of one's own is of Standard Webhooks.
    if (process.env[`${prefix}_SECRET`]) continue;
    const own = schemes.find((scheme) => scheme === process.env[`${prefix}_SCHEME`]);
    const scheme = own ?? SCHEMES[provider] ?? 'standard';
    wanted[`${prefix}_SECRET`] = usable(scheme, keptIn(dataDir)[`${prefix}_SECRET`]) ?? secret(scheme);
    wanted[`${prefix}_SCHEME`] = scheme;
  }
  if (!process.env['SUBSCRIBER_ACCOUNTING_URL']) {
    wanted['SUBSCRIBER_ACCOUNTING_SECRET'] = secret('standard');
    wanted['SUBSCRIBER_ACCOUNTING_URL'] = `${url}/dev/accounting`;
  }
  return setUnset(dataDir, wanted);
}

/** Criipto's secrets are plain base64; the others' may be. */
function secret(scheme: Scheme): string {
  return `${scheme === 'criipto' ? '' : 'whsec_'}${randomBytes(32).toString('base64')}`;
}

/** @returns undefined for a kept secret that was made for another scheme. */
function usable(scheme: Scheme, kept: string | undefined): string | undefined {
  return kept !== undefined && isUsableSecret(scheme, kept) ? kept : undefined;
}

/** What an earlier start has generated. */
function keptIn(dataDir: string): Readonly<Record<string, string>> {
  return readLocalServer(dataDir)?.variables ?? {};
}

function setUnset(dataDir: string, wanted: Readonly<Record<string, string>>): Record<string, string> {
  const kept = keptIn(dataDir);
  const generated: Record<string, string> = {};
  for (const [name, value] of Object.entries(wanted)) {
    if (process.env[name]) continue;
    const isKept = name.endsWith('_SECRET') && !name.startsWith('WEBHOOK_');
    generated[name] = isKept ? (kept[name] ?? value) : value;
    process.env[name] = generated[name];
  }
  return generated;
}

/** Writes the server's address and secrets to a file that only this user can read. */
export function publish(dataDir: string, url: string, generated: Readonly<Record<string, string>>): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = localServerFile(dataDir);
  const text = `${JSON.stringify({ url, variables: generated } satisfies LocalServer, null, 2)}\n`;
  writeFileSync(path, text, { mode: 0o600 });
  // An existing file keeps its mode.
  chmodSync(path, 0o600);
}

/** The files of Postgres. In a folder with other files too, those are not ours. */
const OF_POSTGRES = /^(base|global|pg_[\w.]+|PG_VERSION|post[\w.]+)$/;

/** Restricts the embedded database to this user: it creates files that everybody may write. */
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
