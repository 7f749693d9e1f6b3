import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { quantity } from '../kit/words.ts';

/** The settings of the database that a promise depends on. */
interface Settings {
  /** Of the transactions that do not say which they want. */
  readonly isolation: string;
  /** For whom commits are answered before they are on disk. */
  readonly hasty: readonly string[];
  /** Replicas that no commit waits for. */
  readonly asynchronous: number;
  /** Topics that wait for producers' transactions whose beginning is not visible. */
  readonly unseen: readonly string[];
  readonly role: string;
}

/** Finds settings of the database that weaken a promise, or that other programs here must allow for. @returns sentences. */
export async function doubtfulSettings(on: Executor): Promise<readonly string[]> {
  const [found] = await run<Settings>(on, { text: SETTINGS, values: [] });
  const { isolation, hasty, asynchronous, unseen, role } = found!;
  return [
    ...(isolation === 'read committed'
      ? []
      : [
          `Transactions are ${isolation} by default. The event bus begins its own in READ COMMITTED; other programs must be ready to repeat theirs.`,
        ]),
    ...(hasty.length === 0
      ? []
      : [
          `synchronous_commit is off for ${hasty.join(', ')}: a crash of the server loses the last commits of other programs. Those of the event bus, and those with an event in them, are on disk.`,
        ]),
    ...(asynchronous === 0
      ? []
      : [
          `${quantity(asynchronous, 'replica')} without synchronous replication: promoting one loses the events that it had not received.`,
        ]),
    ...(unseen.length === 0
      ? []
      : [
          `${unseen.join(', ')}: events wait until no producer’s transaction is open, because ${role} cannot see when those of other roles began. Grant it pg_read_all_stats.`,
        ]),
  ];
}

const SETTINGS = `
  select current_setting('default_transaction_isolation') as isolation,
    coalesce((
      select json_agg(who order by who) from (
        select coalesce('the role ' || nullif(setrole, 0)::regrole, 'the database') as who
        from pg_db_role_setting
        where 'synchronous_commit=off' = any (setconfig)
          and setdatabase in (0, (select oid from pg_database where datname = current_database()))
        union
        -- That of the session: the statement itself waits for the disk.
        select 'the role ' || current_user from pg_settings where name = 'synchronous_commit' and reset_val = 'off'
      ) as hasty
    ), '[]') as hasty,
    (select count(*)::int from pg_stat_replication where sync_state = 'async') as asynchronous,
    coalesce((
      select json_agg(topic order by topic) from catalog_topics
      where exists (
        select from pg_locks
        where locktype = 'advisory' and mode = 'ShareLock' and granted and classid = ${EMITTER_LOCKS} and objsubid = 2
          and objid = (hashtext(topic)::bigint & 4294967295)::oid and pid is not null
          and database = (select oid from pg_database where datname = current_database())
          and (select xact_start from pg_stat_get_activity(pid)) is null
      ) and exists (select from awaiting where awaiting.topic = catalog_topics.topic limit 1)
    ), '[]') as unseen, current_user::text as role`;
