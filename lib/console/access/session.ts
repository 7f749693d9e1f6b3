import * as z from 'zod';

import type { DirectorySettings, OperatorSettings } from '../../platform/config.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { Problem } from '../../platform/http/problem.ts';
import { HOUR } from '../../platform/time.ts';
import type { Operator } from '../kit/operator.ts';
import { scopesOf } from './directory-claims.ts';
import type { Person } from './directory-claims.ts';
import { keepNote, readNote, spendNote } from './sealed-notes.ts';

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
  return text === null ? null : session.parse(JSON.parse(text));
}

function ended(): Problem {
  return new Problem('invalid_token', {
    detail: 'Your session has ended. Sign in again.',
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  });
}
