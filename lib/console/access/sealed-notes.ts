import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

import { and, eq, gt, lte, sql } from 'drizzle-orm';

import { signInCodes } from '../../../drizzle/schema.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { SECOND } from '../../platform/time.ts';

// A note is a text that the database keeps for a while, sealed with a key that only its handle yields. The browser has
// the handle. Sign-in links, sign-ins under way and sessions are notes.

/** What a note is for: the handle of one kind does not open another. */
export type NoteKind = 'sign-in' | 'sign-in-under-way' | 'session';

/** Nobody guesses 128 random bits. */
const HANDLE_BYTES = 16;

/** A handle, and nothing that a token could be: tokens have dots. */
export const HANDLE = /^[\w-]{22}$/;

export function newHandle(): string {
  return randomBytes(HANDLE_BYTES).toString('base64url');
}

interface Note {
  readonly text: string;
  readonly lifeMs: number;
  /** Where something else makes it unguessable; a new one if left out. */
  readonly handle?: string;
}

/** Keeps a note, and deletes those whose time is over. @returns its handle. */
export async function keepNote(
  db: Database | Transaction,
  kind: NoteKind,
  { text, lifeMs, handle = newHandle() }: Note,
): Promise<string> {
  await db.delete(signInCodes).where(lte(signInCodes.expiresAt, sql`now()`));
  await db.insert(signInCodes).values({
    hash: derived(kind, handle, 'hash'),
    sealed: seal(text, derived(kind, handle, 'key')),
    expiresAt: sql`now() + make_interval(secs => ${lifeMs / SECOND})`,
  });
  return handle;
}

/** @returns null for a handle whose note was spent, is too old, or never was kept. */
export async function readNote(db: Database, kind: NoteKind, handle: string): Promise<string | null> {
  const [found] = await db
    .select({ sealed: signInCodes.sealed })
    .from(signInCodes)
    .where(isUsable(kind, handle));
  return found ? unseal(found.sealed, derived(kind, handle, 'key')) : null;
}

/** Reads a note and deletes it. @returns null as `readNote`, and to one of two that spend it at the same time. */
export async function spendNote(
  db: Database | Transaction,
  kind: NoteKind,
  handle: string,
): Promise<string | null> {
  const [spent] = await db
    .delete(signInCodes)
    .where(isUsable(kind, handle))
    .returning({ sealed: signInCodes.sealed });
  return spent ? unseal(spent.sealed, derived(kind, handle, 'key')) : null;
}

function isUsable(kind: NoteKind, handle: string) {
  return and(eq(signInCodes.hash, derived(kind, handle, 'hash')), gt(signInCodes.expiresAt, sql`now()`));
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ALGORITHM = 'aes-256-gcm';

function seal(text: string, key: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce);
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

function unseal(sealed: Buffer, key: Buffer): string {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const text = decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([text, decipher.final()]).toString('utf8');
}

/** @param use keeps the hash, which the database has, from saying anything of the key. */
function derived(kind: NoteKind, handle: string, use: 'hash' | 'key'): Buffer {
  return Buffer.from(hkdfSync('sha256', handle, '', `postbud ${kind} ${use}`, 32));
}
