import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

import { and, eq, gt, lte, sql } from 'drizzle-orm';

import { signInCodes } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/connect.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';

// A code stands for a token in a sign-in link. It works once. The database has the token sealed with a key that only
// the code yields.

/** Long enough to go from the terminal to the browser. */
export const CODE_LIFE_MS = 10 * MINUTE;

/** Nobody guesses 128 random bits. */
const CODE_BYTES = 16;

/** Keeps a token for its first use, and deletes those whose time is over. @returns its code. */
export async function makeSignInCode(db: Database, token: string): Promise<string> {
  const code = randomBytes(CODE_BYTES).toString('base64url');
  await db.delete(signInCodes).where(lte(signInCodes.expiresAt, sql`now()`));
  await db.insert(signInCodes).values({
    hash: derived(code, 'hash', 32),
    sealed: seal(token, code),
    expiresAt: sql`now() + make_interval(secs => ${CODE_LIFE_MS / SECOND})`,
  });
  return code;
}

/** Reads a code's token. @returns null for a code that was used, is too old, or never was one. */
export async function readSignInCode(db: Database, code: string): Promise<string | null> {
  const [found] = await db.select({ sealed: signInCodes.sealed }).from(signInCodes).where(isUsable(code));
  return found ? unseal(found.sealed, code) : null;
}

/** Uses a code up. @returns whether this did: of two at the same time, one finds the row gone. */
export async function spendSignInCode(db: Database, code: string): Promise<boolean> {
  const spent = await db.delete(signInCodes).where(isUsable(code)).returning({ hash: signInCodes.hash });
  return spent.length > 0;
}

function isUsable(code: string) {
  return and(eq(signInCodes.hash, derived(code, 'hash', 32)), gt(signInCodes.expiresAt, sql`now()`));
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ALGORITHM = 'aes-256-gcm';

function seal(token: string, code: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, derived(code, 'key', 32), nonce);
  const text = Buffer.concat([cipher.update(token, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), text]);
}

function unseal(sealed: Buffer, code: string): string {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(ALGORITHM, derived(code, 'key', 32), nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const text = decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([text, decipher.final()]).toString('utf8');
}

/** @param use keeps the hash, which the database has, from saying anything of the key. */
function derived(code: string, use: 'hash' | 'key', bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', code, '', `postbud sign-in ${use}`, bytes));
}
