import { sql } from 'drizzle-orm';

import { operatorNames } from '../../../drizzle/schema.ts';
import type { Transaction } from '../../platform/db/connect.ts';
import { isInvisible } from '../../platform/visible.ts';
import { truncate } from '../kit/words.ts';
import type { Person } from './directory-claims.ts';

/** As many characters as a column of the log has room for, and as the table takes. */
const LONGEST_NAME = 60;

/** The longest `sub` that OpenID Connect allows. */
const LONGEST_SUBJECT = 255;

/** Ids that people chose are shorter, or are addresses; those that directories make up are not: a UUID has 36 characters. */
const SHORTEST_MADE_UP = 20;

/**
 * Keeps what the directory calls a person who may act, for the pages that say who did. Those who may only read are in no
 * log, and whose id says who they are needs no name.
 *
 * @param scopes those of the person's roles.
 */
export async function keepOperatorName(
  tx: Transaction,
  { subject, name }: Person,
  scopes: ReadonlySet<string>,
): Promise<void> {
  const mayAct = [...scopes].some((scope) => scope !== 'event-bus:read');
  const isReadable = subject.length < SHORTEST_MADE_UP || subject.includes('@');
  if (!mayAct || isReadable || subject.length > LONGEST_SUBJECT) return;
  // Without a usable claim, the subject stands for the name.
  if (name === subject || isInvisible(name)) return;
  const kept = { name: truncate(LONGEST_NAME - 1, name.toWellFormed()), seenAt: sql`now()` };
  await tx
    .insert(operatorNames)
    .values({ subject, ...kept })
    .onConflictDoUpdate({ target: operatorNames.subject, set: kept });
}
