import { and, eq, isNull, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { erasedEvents, erasures } from '../../../drizzle/schema.ts';
import type { ErasedName } from '../../../drizzle/schema.ts';
import { PLACING_LOCK } from '../../bus/deliveries/locks.ts';
import { EMITTER_LOCKS } from '../../bus/outbox/emitter-locks.ts';
import { isAway } from '../../platform/db/away.ts';
import type { Database, Transaction } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { MINUTE, sleep } from '../../platform/time.ts';
import { eraseEvents } from './erase-events.ts';
import { FIRST_ID, searchEvents } from './erase-search.ts';
import { eraseTexts } from './erase-texts.ts';
import { askedNames, maskedName, namesOfNextPass, withMarks, withNamesOf } from './erased-names.ts';

// A person to forget. The data flow of an erasure, one transaction a step, any process, each step under its row's lock:
//
// 1. the request notes the time and the producers whose transactions are open, and waits until these have ended. From
//    then on every event of before that time can be seen;
// 2. it reads all events and timers by primary key, until no further name of the person turns up, and once more to note which events
//    have one of the names;
// 3. it overwrites those events and timers, with the attempts of deliveries. What is claimed or released from then on is
//    erased;
// 4. it waits for the relays that hold lanes which they claimed before, and may settle with an error that quotes the event;
// 5. it overwrites the attempts again, then the texts of incidents and error groups, then what it knew of the person.

/** A person's data that an operator wants overwritten. */
export interface ErasureRequest {
  /** Names of one person: ids, e-mail addresses, the identity provider's name; or the ids of single events. */
  readonly subjects: readonly string[];
  /** Whether to look for these alone, and not for the other names that events have beside them. */
  readonly isExact?: boolean;
  /** The operator. */
  readonly by: string;
  readonly reason: string;
  /** A UUID chosen by the caller. A second request with it begins nothing. */
  readonly id?: string;
  /** When to stop here, in milliseconds since the epoch; `advanceErasures` then continues. By default never. */
  readonly until?: number;
}

/**
 * Overwrites the personal data of all events that were created before now, and timers that were set, and that name a
 * person, with what was written about them. Those of later stay as they are.
 *
 * If this process dies, the cron continues.
 *
 * @returns the erasure's id.
 */
export async function erase(db: Database, request: ErasureRequest): Promise<string> {
  const { id = uuidv7(), until = Infinity } = request;
  await open(db, { ...request, id });
  while (Date.now() < until) {
    const wait = await advance(db, until, id);
    if (wait === null) break;
    if (wait > 0) await sleep(Math.min(wait, LOOK_EVERY_MS));
  }
  return id;
}

/**
 * Continues the erasures that are under way until this time. Any number of processes may do so.
 *
 * @returns in how many milliseconds the next step is due: 0 or less when time was short, null when nothing is under way.
 * @throws the driver's error; what was overwritten stays so.
 */
export async function advanceErasures(db: Database, until: number): Promise<number | null> {
  return await advance(db, until, null);
}

/** How often to look whether producers and relays have ended. */
const LOOK_EVERY_MS = 200;

async function advance(db: Database, until: number, id: string | null): Promise<number | null> {
  const { nextAt, endedAt } = erasures;
  const inMs = sql<number | null>`(extract(epoch from min(${nextAt}) - clock_timestamp()) * 1000)::float8`;
  const isAsked = and(isNull(endedAt), id === null ? undefined : eq(erasures.id, id));
  for (;;) {
    const [next] = await db.select({ inMs }).from(erasures).where(isAsked);
    const wait = next!.inMs;
    if (wait === null || wait > 0 || Date.now() >= until) return wait;
    // Another process has it: it looks again a little later.
    if (!(await step(db, id))) return LOOK_EVERY_MS;
  }
}

async function open(db: Database, request: ErasureRequest & { readonly id: string }): Promise<void> {
  const { id, subjects, isExact = false, by, reason } = request;
  await db.transaction(async (tx) => {
    // The producers are read after the clock: whoever has read an earlier one holds the lock by now. See emit.ts.
    const [clock] = await run<{ now: string }>(tx, {
      text: 'select clock_timestamp()::text as now',
      values: [],
    });
    const names = JSON.stringify(askedNames(subjects));
    await run(tx, {
      text: OPEN,
      values: [id, clock!.now, by, reason, JSON.stringify(subjects), isExact, names, uuidv7()],
    });
  });
}

/** An erasure, as its next step needs it. */
interface Erasure {
  readonly id: string;
  readonly state: 'waiting' | 'gathering' | 'finding' | 'erasing' | 'settling' | 'checking';
  readonly requested_at: string;
  readonly is_exact: boolean;
  readonly names: readonly ErasedName[];
  readonly names_before: readonly ErasedName[];
  readonly last_id: string | null;
  readonly reached_id: string;
}

/** @returns whether a step was taken. */
async function step(db: Database, id: string | null): Promise<boolean> {
  let erasure: Erasure | undefined;
  try {
    return await db.transaction(async (tx) => {
      await limitStatements(tx, 1 * MINUTE);
      [erasure] = await run<Erasure>(tx, { text: LOCK, values: [id] });
      if (!erasure) return false;
      await STEPS[erasure.state](tx, erasure);
      return true;
    });
  } catch (error) {
    if (erasure && !isAway(error)) await putOff(db, erasure);
    throw error;
  }
}

/** The one that is due first is taken: one that fails would keep all others waiting. */
async function putOff(db: Database, { id }: Erasure): Promise<void> {
  await db
    .update(erasures)
    .set({ nextAt: sql`clock_timestamp() + interval '1 minute'` })
    .where(and(eq(erasures.id, id), isNull(erasures.endedAt)));
}

const STEPS: Readonly<Record<Erasure['state'], (tx: Transaction, erasure: Erasure) => Promise<void>>> = {
  waiting,
  gathering,
  finding,
  erasing,
  settling,
  checking,
};

async function waiting(tx: Transaction, { id, is_exact: isExact }: Erasure): Promise<void> {
  await run(tx, { text: BEGIN, values: [id, isExact ? 'finding' : 'gathering', LOOK_EVERY_MS] });
}

async function gathering(tx: Transaction, erasure: Erasure): Promise<void> {
  const { hits, searched, last } = await search(tx, erasure);
  const names = withNamesOf(erasure.names, hits);
  if (last !== null)
    return await write(tx, erasure, { state: 'gathering', names, reachedId: last, searched });
  const again = namesOfNextPass(erasure.names_before, names);
  const next = again ? { names: again, namesBefore: again } : { names };
  const state = again ? 'gathering' : 'finding';
  await write(tx, erasure, { state, ...next, reachedId: FIRST_ID, searched: null });
}

async function finding(tx: Transaction, erasure: Erasure): Promise<void> {
  const { hits, searched, last } = await search(tx, erasure);
  if (hits.length > 0)
    await run(tx, {
      text: 'insert into erased_events (erasure_id, event_id) select $1::uuid, value::uuid from jsonb_array_elements_text($2::jsonb) as value on conflict do nothing',
      values: [erasure.id, JSON.stringify(hits.map(({ eventId }) => eventId))],
    });
  await write(tx, erasure, {
    state: last === null ? 'erasing' : 'finding',
    names: withMarks(erasure.names, hits),
    reachedId: last ?? FIRST_ID,
    searched,
    found: hits.length,
  });
}

async function search(tx: Transaction, { names, requested_at: until, reached_id: after, last_id }: Erasure) {
  return await searchEvents(tx, { names, until, after, lastId: last_id ?? FIRST_ID });
}

async function erasing(tx: Transaction, erasure: Erasure): Promise<void> {
  const { last, ...counts } = await eraseEvents(tx, erasure.id, personal(erasure), erasure.reached_id);
  await write(tx, erasure, {
    ...counts,
    state: last === null ? 'settling' : 'erasing',
    reachedId: last ?? FIRST_ID,
  });
}

/** Waits until no relay holds a lane that it claimed before the last event was overwritten. */
async function settling(tx: Transaction, erasure: Erasure): Promise<void> {
  if (erasure.reached_id === FIRST_ID) {
    // A turn that gives an event its place and claims its delivery has both in one transaction, under these locks.
    await run(tx, { text: LOCK_TOPICS, values: [erasure.id] });
    await run(tx, { text: LOCK_LANES, values: [erasure.id] });
    await run(tx, { text: HOLD_LEASES, values: [erasure.id, LAST_ID] });
  } else await run(tx, { text: AWAIT_LEASES, values: [erasure.id, LOOK_EVERY_MS, FIRST_ID] });
}

async function checking(tx: Transaction, erasure: Erasure): Promise<void> {
  const { id, names, reached_id: after } = erasure;
  const { last, ...counts } = await eraseEvents(tx, id, personal(erasure), after);
  if (last !== null) return await write(tx, erasure, { ...counts, reachedId: last, state: 'checking' });
  const { texts, notifications, subjects } = await eraseTexts(tx, id, names);
  const asked = names.filter(({ origin }) => origin === 'asked');
  const masked = asked.map(({ text, isPersonal }) =>
    maskedName({ text, isPersonal: isPersonal || subjects.includes(text) }),
  );
  await tx.delete(erasedEvents).where(eq(erasedEvents.erasureId, id));
  await write(tx, erasure, {
    ...counts,
    state: 'ended',
    names: null,
    namesBefore: null,
    subjects: masked,
    notifications: counts.notifications + notifications,
    texts,
  });
}

const personal = ({ names }: Erasure) => names.flatMap(({ text, isPersonal }) => (isPersonal ? [text] : []));

type Columns = typeof erasures.$inferInsert;

/** Numbers are added to those so far; `searched: null` begins anew. */
interface Progress extends Pick<Columns, 'names' | 'namesBefore' | 'reachedId' | 'keysKept' | Counted> {
  readonly state: Erasure['state'] | 'ended';
  readonly subjects?: string[];
  readonly searched?: number | null;
}

type Counted = 'found' | 'events' | 'deliveries' | 'notifications' | 'texts';

async function write(tx: Transaction, { id }: Erasure, progress: Progress): Promise<void> {
  const { state, subjects, names, namesBefore, reachedId, searched, keysKept = 0 } = progress;
  const plus = (column: Counted | 'searched') => sql`${erasures[column]} + ${progress[column] ?? 0}`;
  await tx
    .update(erasures)
    .set({
      state,
      subjects,
      names,
      namesBefore,
      reachedId,
      searched: searched === null ? 0 : plus('searched'),
      found: plus('found'),
      events: plus('events'),
      deliveries: plus('deliveries'),
      notifications: plus('notifications'),
      texts: plus('texts'),
      keysKept: sql`greatest(${erasures.keysKept}, ${keysKept})`,
      nextAt: sql`clock_timestamp()`,
      ...(state === 'ended' && { endedAt: sql`clock_timestamp()` }),
    })
    .where(eq(erasures.id, id));
}

/** Says that the leases are noted. */
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** A lease that ran out this long ago is that of a relay which died: its process is gone, and settles nothing more. */
const GONE_AFTER_MINUTES = 15;

// Who sets a timer has the table's lock before it reads the clock.
const PRODUCERS = `
  select virtualtransaction from pg_locks
  where (locktype = 'advisory' and mode = 'ShareLock' and classid = ${EMITTER_LOCKS} and objsubid = 2
      or locktype = 'relation' and mode = 'RowExclusiveLock' and relation = 'timers'::regclass)
    and database = (select oid from pg_database where datname = current_database())`;

const LOCK = `
  select id::text, state, requested_at::text, is_exact, names, names_before, last_id::text, reached_id::text
  from erasures
  where ended_at is null and next_at <= clock_timestamp() and ($1::text is null or id = $1::text::uuid)
  order by next_at limit 1 for update skip locked`;

const OPEN = `
  with opened as (
    insert into erasures (id, requested_at, requested_by, reason, subjects, is_exact, names, producers, next_at)
    select $1::uuid, $2::timestamptz, $3::text, $4::text, array(select jsonb_array_elements_text($5::jsonb)),
      $6::boolean, $7::jsonb, array(${PRODUCERS}), $2::timestamptz
    on conflict (id) do nothing returning requested_at
  )
  insert into operator_actions (id, at, operator, action, reason, erasure_id)
  select $8::uuid, requested_at, $3::text, 'erase', $4::text, $1::uuid from opened`;

const BEGIN = `
  update erasures set
    state = case when is_open then state when newest is null then 'erasing' else $2::text end,
    last_id = newest, next_at = clock_timestamp() + case when is_open then $3::int else 0 end * interval '1 millisecond',
    names_before = names
  from (
    select exists (${PRODUCERS} and virtualtransaction = any (
      select unnest(producers) from erasures where id = $1::uuid
    )) as is_open, greatest((select id from events order by id desc limit 1), (select id from timers order by id desc limit 1)) as newest
  ) as found
  where id = $1::uuid`;

const TOPICS = `
  select topic from events join erased_events on event_id = events.id where erasure_id = $1::uuid`;

const LOCK_TOPICS = `
  select pg_advisory_xact_lock(${PLACING_LOCK}, lock)
  from (select distinct hashtext(topic) as lock from (${TOPICS}) as named order by 1) as topics`;

const LOCK_LANES = `select postbud_lock_lanes_2(array(select id from lanes where topic in (${TOPICS})))`;

const HOLD_LEASES = `
  update erasures set reached_id = $2::uuid, next_at = clock_timestamp(), leases = array(
    select distinct token from lane_heads where leased_until is not null and topic in (${TOPICS})
  )
  where id = $1::uuid`;

const AWAIT_LEASES = `
  update erasures set state = case when is_held then state else 'checking' end,
    reached_id = case when is_held then reached_id else $3::uuid end,
    next_at = clock_timestamp() + case when is_held then $2::int else 0 end * interval '1 millisecond'
  from (
    select exists (
      select from lane_heads join erasures on token = any (leases)
      where erasures.id = $1::uuid and leased_until > clock_timestamp() - interval '${GONE_AFTER_MINUTES} minutes'
    ) or exists (
      -- A handler may run on while its relay claims more.
      select from lane_heads join exceptions on lane = lane_heads.id
      where lane_heads.topic in (${TOPICS}) and leased_until > clock_timestamp() - interval '${GONE_AFTER_MINUTES} minutes'
        and is_open and is_held and event_id in (select event_id from erased_events where erasure_id = $1::uuid)
    ) as is_held
  ) as found
  where id = $1::uuid`;
