import { describe, expect, test } from 'vitest';

import type { FoundSnapshot } from '../../lib/bus/doctor/snapshot.ts';
import { oldSnapshotWords } from '../../lib/console/overview/snapshot.ts';

const dump = (fields: Partial<FoundSnapshot> = {}): FoundSnapshot => ({
  heldBy: 'session',
  name: 'pg_dump',
  role: 'backup',
  pid: 4711,
  database: null,
  state: 'active',
  seconds: 14 * 60,
  transactions: 120_000,
  ...fields,
});
const hidden = { seconds: null, state: null };
const standby = {
  ...hidden,
  heldBy: 'standby',
  name: 'standby1',
  role: 'replicator',
  state: 'active',
} as const;
const slot = {
  ...hidden,
  heldBy: 'replication_slot',
  name: 'standby1',
  role: null,
  pid: null,
  state: 'inactive',
} as const;

describe('an old snapshot', () => {
  test.for<[string, Partial<FoundSnapshot>, string, string]>([
    [
      'a session',
      {},
      'pg_dump of the role backup (process 4711, active) has held a snapshot for 14 min.',
      'If nobody needs it, end it: select pg_terminate_backend(4711).',
    ],
    [
      'a session of another database without a name',
      { name: null, database: 'reports', state: 'idle in transaction' },
      'A session of the role backup (process 4711, in the database reports, idle in transaction) has held a snapshot for 14 min.',
      'If nobody needs it, end it: select pg_terminate_backend(4711).',
    ],
    [
      'a session of a role that this one may not look at',
      hidden,
      'pg_dump of the role backup (process 4711) has held a snapshot for 120,000 transactions (its age is not known: only members of pg_read_all_stats see it).',
      'If nobody needs it, end it: select pg_terminate_backend(4711).',
    ],
    [
      'a prepared transaction',
      { heldBy: 'prepared_transaction', name: "it's", pid: null, state: null },
      "The prepared transaction it's of the role backup has held a snapshot for 14 min.",
      "End it: rollback prepared 'it''s' or commit prepared 'it''s'.",
    ],
    [
      'a standby that feeds back',
      standby,
      'The standby standby1 of the role replicator (process 4711, active) has held a snapshot for 120,000 transactions (its age is not known).',
      'End the long query on the standby, or set hot_standby_feedback = off there.',
    ],
    [
      'a replication slot',
      slot,
      'The replication slot standby1 (inactive) has held a snapshot for 120,000 transactions (its age is not known).',
      "Let its reader catch up; if there is none any more, drop it: select pg_drop_replication_slot('standby1').",
    ],
  ])('of %s is told of with who holds it and how to end it', ([, fields, who, remedy]) => {
    expect(oldSnapshotWords(dump(fields))).toBe(
      `${who} Until it ends, Postgres keeps all dead rows: tables and indexes grow, and reading them takes longer. ${remedy}`,
    );
  });

  test.for<[Partial<FoundSnapshot>, boolean]>([
    [{ seconds: 300 }, true],
    [{ seconds: 299 }, false],
    [{ ...slot, transactions: 100_000 }, true],
    [{ ...slot, transactions: 99_999 }, false],
  ])('is one of %j: %s', ([fields, isOld]) => {
    expect(oldSnapshotWords(dump(fields)) !== null).toBe(isOld);
  });

  test('is none where nobody holds a snapshot', () => {
    expect(oldSnapshotWords(null)).toBeNull();
  });
});
