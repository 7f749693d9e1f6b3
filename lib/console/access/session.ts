import { hkdfSync, randomBytes } from 'node:crypto';

import { and, eq, gt, lte, sql } from 'drizzle-orm';
import { parse, serialize } from 'hono/utils/cookie';
import { compactDecrypt, CompactEncrypt } from 'jose';
import * as z from 'zod';

import type { DirectorySettings, OperatorSettings } from '../../platform/operator-settings.ts';
import type { Database, Transaction } from '../../platform/db/database.ts';
import { Problem } from '../../platform/http/problem.ts';
import { HOUR, SECOND } from '../../platform/time.ts';
import type { Operator } from '../kit/operator.ts';
import { signInCodes } from '../../../drizzle/schema.ts';
import { scopesOf } from './directory-claims.ts';
import type { Person } from './directory-claims.ts';

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
    sealed: await seal(text, derived(kind, handle, 'key')),
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
  return found ? await unseal(found.sealed, derived(kind, handle, 'key')) : null;
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
  return spent ? await unseal(spent.sealed, derived(kind, handle, 'key')) : null;
}

function isUsable(kind: NoteKind, handle: string) {
  return and(eq(signInCodes.hash, derived(kind, handle, 'hash')), gt(signInCodes.expiresAt, sql`now()`));
}

/** @see https://www.rfc-editor.org/rfc/rfc7518#section-4.5 */
async function seal(text: string, key: Buffer): Promise<Buffer> {
  const jwe = new CompactEncrypt(Buffer.from(text)).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' });
  return Buffer.from(await jwe.encrypt(key));
}

async function unseal(sealed: Buffer, key: Buffer): Promise<string> {
  const { plaintext } = await compactDecrypt(sealed, key);
  return Buffer.from(plaintext).toString();
}

/**
 * @param use keeps the hash, which the database has, from saying anything of the key. A release that seals otherwise has
 * another word here: to each of two that run at once, the notes of the other have ended.
 */
function derived(kind: NoteKind, handle: string, use: 'hash' | 'key'): Buffer {
  return Buffer.from(hkdfSync('sha256', handle, '', `postbud ${kind} jwe ${use}`, 32));
}

/**
 * Holds the token of a signed-in operator or, of one who came from the directory, the handle of a session. The prefix
 * guarantees that this host set it, over HTTPS.
 */
export const SESSION_COOKIE = '__Host-event-bus';

/**
 * Tells the browser that began a sign-in with the directory from any other. All its tabs have the same. It comes along
 * when the directory sends the browser back, which a `Strict` cookie does not.
 */
const SIGN_IN_COOKIE = '__Host-event-bus-sign-in';

/** Long enough to sign in at the directory, with a telephone in the other hand. */
export const SIGN_IN_LIFE_MS = HOUR;

const ATTRIBUTES = { path: '/', secure: true, httpOnly: true } as const;

export function sessionCookie(value: string, maxAge: number): string {
  return serialize(SESSION_COOKIE, value, { ...ATTRIBUTES, sameSite: 'Strict', maxAge });
}

/** Removes the session's cookie from the browser. */
export const noSessionCookie = () => sessionCookie('', 0);

export function signInCookie(browser: string): string {
  return serialize(SIGN_IN_COOKIE, browser, {
    ...ATTRIBUTES,
    sameSite: 'Lax',
    maxAge: SIGN_IN_LIFE_MS / SECOND,
  });
}

/** Reads the token or the handle of a session without verifying it. @returns undefined without a session. */
export function sessionToken(request: Request): string | undefined {
  return cookieOf(request, SESSION_COOKIE);
}

/** Reads the handle of a session of the directory. @returns undefined without a session, or with one of a token. */
export function sessionHandle(request: Request): string | undefined {
  return handleOf(request, SESSION_COOKIE);
}

/** Reads which browser began a sign-in. @returns undefined where none did within the last hour. */
export function browserOf(request: Request): string | undefined {
  return handleOf(request, SIGN_IN_COOKIE);
}

function handleOf(request: Request, cookie: string): string | undefined {
  const value = cookieOf(request, cookie);
  return value !== undefined && HANDLE.test(value) ? value : undefined;
}

function cookieOf({ headers }: Request, name: string): string | undefined {
  return parse(headers.get('cookie') ?? '', name)[name] || undefined;
}

// The session of a person whom the directory has signed in. The cookie has its handle; the database has, sealed, who it
// is, until they sign out.

/** Who has lost a role in the directory is out after that, without anybody being asked. */
export const SESSION_LIFE_MS = HOUR;

const session = z.object({
  issuer: z.string(),
  clientId: z.string(),
  subject: z.string(),
  name: z.string(),
  /** The roles and not what they give, so that another mapping holds at once. */
  roles: z.array(z.string()),
  /** For the directory, to end its own session. */
  idToken: z.string(),
});

/** @returns the session's handle. */
export async function keepSession(
  db: Database | Transaction,
  { issuer, clientId }: DirectorySettings,
  { subject, name, roles }: Person,
  idToken: string,
): Promise<string> {
  const kept = { issuer, clientId, subject, name, roles: [...roles], idToken } satisfies z.output<
    typeof session
  >;
  return await keepNote(db, 'session', { text: JSON.stringify(kept), lifeMs: SESSION_LIFE_MS });
}

/** @throws Problem 401 `invalid_token` for a session that has ended, or is of another directory. */
export async function readSession(
  db: Database,
  handle: string,
  { directory }: OperatorSettings,
): Promise<Operator> {
  const kept = sessionIn(await readNote(db, 'session', handle));
  if (!kept || kept.issuer !== directory?.issuer || kept.clientId !== directory.clientId) throw ended();
  const { subject, name } = kept;
  const scopes = scopesOf(kept, directory);
  if (scopes.size === 0) throw ended();
  return { subject, name, scopes, isOfDirectory: true, via: 'cookie' };
}

/** Ends a session at once, for whoever has its cookie. @returns the directory's token; null for one that had ended. */
export async function endSession(db: Database | Transaction, handle: string): Promise<string | null> {
  return sessionIn(await spendNote(db, 'session', handle))?.idToken ?? null;
}

function sessionIn(text: string | null): z.output<typeof session> | null {
  // What another release has kept otherwise has ended.
  return text === null ? null : (session.safeParse(JSON.parse(text)).data ?? null);
}

function ended(): Problem {
  return new Problem('invalid_token', {
    detail: 'Your session has ended. Sign in again.',
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  });
}
