import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { readConfig } from '../lib/config.ts';
import type { Scheme } from '../lib/webhooks/verify.ts';

/** What the local server made up for itself, and where it listens: the demo, in another process, reads it. */
const file = z.object({
  url: z.url(),
  variables: z.record(z.string(), z.string()),
});
export type Development = z.output<typeof file>;

/** Each provider signs as the real one of its kind does. */
const SCHEMES: Readonly<Record<string, Scheme>> = {
  CARDPAYMENTS: 'stripe',
  WALLETPAYMENTS: 'vipps',
  IDENTITYPROVIDER: 'standard',
};

/**
 * Gives each unset secret of the environment a made-up one, the same at every start.
 *
 * @returns the variables that it set.
 */
export function makeUpSecrets(dataDir: string, port: number): Record<string, string> {
  const kept = read(dataDir)?.variables ?? {};
  const secret = () => `whsec_${randomBytes(32).toString('base64')}`;
  const wanted: Record<string, string> = { CRON_SECRET: randomBytes(18).toString('base64url') };
  if (!process.env['OPERATOR_JWKS_URL'])
    wanted['OPERATOR_JWT_SECRET'] = randomBytes(36).toString('base64url');
  for (const [provider, scheme] of Object.entries(SCHEMES)) {
    if (process.env[`WEBHOOK_${provider}_SECRET`]) continue;
    wanted[`WEBHOOK_${provider}_SECRET`] = secret();
    wanted[`WEBHOOK_${provider}_SCHEME`] = scheme;
  }
  if (!process.env['SUBSCRIBER_ACCOUNTING_URL']) {
    wanted['SUBSCRIBER_ACCOUNTING_SECRET'] = secret();
    wanted['SUBSCRIBER_ACCOUNTING_URL'] = `http://localhost:${port}/dev/accounting`;
  }
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
  mkdirSync(dataDir, { recursive: true });
  const path = join(dataDir, 'development.json');
  writeFileSync(path, `${JSON.stringify({ url, variables: madeUp } satisfies Development, null, 2)}\n`);
  chmodSync(path, 0o600);
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
