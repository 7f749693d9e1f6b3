import * as z from 'zod';

import { shapesOf } from '../kit/fields.ts';
import { age } from '../kit/instants.ts';
import { endsOf } from '../kit/prepared.ts';
import { count } from '../kit/words.ts';
import { isOld, snapshotFields } from './snapshot.ts';
import type { FoundSnapshot } from './snapshot.ts';

export const oldSnapshot = z
  .object({
    ...shapesOf(snapshotFields),
    text: z.string().meta({ description: 'Who holds it, what follows, and how to end it.' }),
  })
  .meta({
    id: 'OldestSnapshot',
    description: 'An old snapshot of the database, for which Postgres keeps all rows that are dead since.',
  });
export type OldSnapshot = z.output<typeof oldSnapshot>;

/** @returns null for a snapshot that is not old yet. */
export function oldSnapshotOf(found: FoundSnapshot | null): OldSnapshot | null {
  if (found === null || !isOld(found)) return null;
  const { database: _, ...snapshot } = found;
  return {
    ...snapshot,
    text: `${holderWords(found)} has held a snapshot ${ageWords(found)}. Until it ends, Postgres keeps all dead rows: tables and indexes grow, and reading them takes longer. ${remedyWords(found)}.`,
  };
}

function holderWords({ heldBy, name, role, pid, database, state }: FoundSnapshot): string {
  const details = [
    pid !== null && `process ${pid}`,
    database !== null && `in the database ${database}`,
    state,
  ].filter(Boolean);
  const about = details.length === 0 ? '' : ` (${details.join(', ')})`;
  const of = role === null ? '' : ` of the role ${role}`;
  switch (heldBy) {
    case 'session':
      return `${name ?? 'A session'}${of}${about}`;
    case 'prepared_transaction':
      return `The prepared transaction ${name}${of}${about}`;
    case 'standby':
      return `The standby ${name ?? 'without a name'}${of}${about}`;
    case 'replication_slot':
      return `The replication slot ${name}${about}`;
  }
}

function ageWords({ heldBy, seconds, transactions }: FoundSnapshot): string {
  if (seconds !== null) return `for ${age(seconds)}`;
  const why = heldBy === 'session' ? ': only members of pg_read_all_stats see it' : '';
  return `for ${count(transactions)} transactions (its age is not known${why})`;
}

function remedyWords({ heldBy, name, pid }: FoundSnapshot): string {
  switch (heldBy) {
    case 'session':
      return `If nobody needs it, end it: select pg_terminate_backend(${pid})`;
    case 'prepared_transaction':
      return `End it: ${endsOf({ gid: name ?? '' }).join(' or ')}`;
    case 'standby':
      return 'End the long query on the standby, or set hot_standby_feedback = off there';
    case 'replication_slot':
      return `Let its reader catch up; if there is none any more, drop it: select pg_drop_replication_slot('${name}')`;
  }
}
