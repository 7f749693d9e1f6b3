import type { FoundSnapshot } from '../../bus/doctor/snapshot.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { endsOf } from '../kit/prepared.ts';
import { age, count } from '../kit/words.ts';

/** Reports are done by then, and vacuum is not late yet. */
const OLD_SECONDS = (5 * MINUTE) / SECOND;

/** Where the time is not known. Some minutes of a few hundred transactions a second. */
const MANY_TRANSACTIONS = 100_000;

/** Says who holds an old snapshot, what follows, and how to end it. @returns null for one that is not old yet. */
export function oldSnapshotWords(found: FoundSnapshot | null): string | null {
  if (found === null) return null;
  const { heldBy, name, role, pid, database, state, seconds, transactions } = found;
  if (seconds === null ? transactions < MANY_TRANSACTIONS : seconds < OLD_SECONDS) return null;
  const [holder, remedy] = {
    session: [name ?? 'A session', `If nobody needs it, end it: select pg_terminate_backend(${pid})`],
    prepared_transaction: [
      `The prepared transaction ${name}`,
      `End it: ${endsOf({ gid: name ?? '' }).join(' or ')}`,
    ],
    standby: [
      `The standby ${name ?? 'without a name'}`,
      'End the long query on the standby, or set hot_standby_feedback = off there',
    ],
    replication_slot: [
      `The replication slot ${name}`,
      `Let its reader catch up; if there is none any more, drop it: select pg_drop_replication_slot('${name}')`,
    ],
  }[heldBy];
  const about = [pid !== null && `process ${pid}`, database !== null && `in the database ${database}`, state];
  const details = about.filter(Boolean).join(', ');
  const hidden = heldBy === 'session' ? ': only members of pg_read_all_stats see it' : '';
  const long =
    seconds === null ? `${count(transactions)} transactions (its age is not known${hidden})` : age(seconds);
  return `${holder}${role === null ? '' : ` of the role ${role}`}${details && ` (${details})`} has held a snapshot for ${long}. Until it ends, Postgres keeps all dead rows: tables and indexes grow, and reading them takes longer. ${remedy}.`;
}
