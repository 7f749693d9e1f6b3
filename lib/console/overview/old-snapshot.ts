import * as z from 'zod';

import { SECOND, instantOrNull } from '../../platform/time.ts';
import { age } from '../kit/instants.ts';
import { endsOf } from '../kit/prepared.ts';
import * as shape from '../kit/shapes.ts';
import { count } from '../kit/words.ts';
import { isOld } from './snapshot.ts';
import type { FoundSnapshot } from './snapshot.ts';

export const oldSnapshot = z
  .object({
    heldBy: z.enum(['session', 'prepared_transaction', 'standby', 'replication_slot']),
    name: z.string().nullable().meta({
      description:
        'The session’s application, the prepared transaction’s name, the standby or the slot. Null: not known to this role.',
    }),
    role: z.string().nullable(),
    pid: z.int().nullable().meta({ description: 'The process of a session or of a standby’s connection.' }),
    state: z.string().nullable().meta({ description: 'The session’s state, or `active` or `inactive`.' }),
    since: shape.instant.nullable().meta({
      description:
        'When its transaction began. Null if Postgres does not say: of a standby, of a slot, and of another role’s session to a role without `pg_read_all_stats`.',
    }),
    seconds: z.number().nonnegative().nullable().meta({ description: 'Its age; null as `since` is.' }),
    transactions: shape.count.meta({ description: 'How many transactions have begun since.' }),
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
  const { held_by: heldBy, name, role, pid, state, since, ms, transactions } = found;
  return {
    heldBy,
    name: name || null,
    role,
    pid,
    state,
    since: instantOrNull(since),
    seconds: ms === null ? null : Math.max(0, ms / SECOND),
    transactions,
    text: `${holderWords(found)} has held a snapshot ${ageWords(found)}. Until it ends, Postgres keeps all dead rows: tables and indexes grow, and reading them takes longer. ${remedyWords(found)}.`,
  };
}

function holderWords({ held_by: heldBy, name, role, pid, database, state }: FoundSnapshot): string {
  const details = [
    pid !== null && `process ${pid}`,
    database !== null && `in the database ${database}`,
    state,
  ].filter(Boolean);
  const about = details.length === 0 ? '' : ` (${details.join(', ')})`;
  const of = role === null ? '' : ` of the role ${role}`;
  switch (heldBy) {
    case 'session':
      return `${name || 'A session'}${of}${about}`;
    case 'prepared_transaction':
      return `The prepared transaction ${name}${of}${about}`;
    case 'standby':
      return `The standby ${name || 'without a name'}${of}${about}`;
    case 'replication_slot':
      return `The replication slot ${name}${about}`;
  }
}

function ageWords({ held_by: heldBy, ms, transactions }: FoundSnapshot): string {
  if (ms !== null) return `for ${age(ms / SECOND)}`;
  const why = heldBy === 'session' ? ': only members of pg_read_all_stats see it' : '';
  return `for ${count(transactions)} transactions (its age is not known${why})`;
}

function remedyWords({ held_by: heldBy, name, pid }: FoundSnapshot): string {
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
