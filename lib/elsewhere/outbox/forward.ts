import { run } from '../../platform/db/statement.ts';
import type { Executor } from '../../platform/db/statement.ts';
import { MINUTE, SECOND, sleep } from '../../platform/time.ts';
import { outliveLostConnections } from '../clients/lost-connections.ts';
import { busOf, ForwardFailed, MOST_BYTES, post } from './post.ts';
import type { Bus, Recorded } from './post.ts';
import { nextUpTo, putAside } from './set-aside.ts';
import { RECORDING } from './table.ts';

export interface ForwardOptions {
  /** The bus's address, `https://bus.example.no`. One with a path is called as it is. */
  readonly url: string;
  /** One of the bus's secrets for this producer, `PRODUCER_<NAME>_SECRET`: `whsec_` and base64. */
  readonly secret: string;
  /** Ends the pass between two requests. */
  readonly signal?: AbortSignal;
  /**
   * Called with a `ForwardFailed` before an event is set aside that the bus refuses for good: `refused` names it, and says
   * why. By default `console.error` writes it.
   */
  readonly onError?: (error: unknown) => void;
}

export interface Forwarded {
  /** Events that the bus has now; some may have been there before. */
  readonly forwarded: number;
  /** Whether events wait for a transaction that may still commit an earlier one. */
  readonly isHeldBack: boolean;
}

/** How long a pass waits for transactions that may commit an earlier event; a later pass goes on. */
const HELD_BACK_MS = 5 * SECOND;

/**
 * Carries what was committed to the bus, in the order of creation, and removes it from the outbox: one pass, for a cron.
 *
 * Order holds also where transactions overlap: events wait while a transaction is open that may have an earlier one. The
 * bus knows an event that comes twice by its id, so passes may be cut short anywhere, and run side by side. An event that
 * the bus refuses for good is set aside; those of its topic and ordering key wait behind it, all others go on.
 *
 * @param db a pool or a client, not in a transaction.
 * @throws ForwardFailed where the bus takes no events now; what came before is forwarded. TypeError for a URL or a secret
 *   that cannot be one.
 */
export async function forward(db: Executor, options: ForwardOptions): Promise<Forwarded> {
  const { url, secret, signal, onError = writeError } = options;
  return await pass(looking(db), { db, bus: busOf(url, secret), signal, onError });
}

interface Forwarding {
  readonly db: Executor;
  readonly bus: Bus;
  readonly signal: AbortSignal | undefined;
  readonly onError: (error: unknown) => void;
}

function writeError(error: unknown): void {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  const because = cause instanceof Error ? `: ${cause.message}` : '';
  // oxlint-disable-next-line no-console -- the log of the service, of which we know nothing
  console.error(`postbud: ${message}${because}`);
}

export interface KeepForwardingOptions extends ForwardOptions {
  /** Ends it; the promise then resolves. */
  readonly signal: AbortSignal;
  /** The pause between two passes, in milliseconds; by default a second. */
  readonly everyMs?: number;
  /** Called also for each pass that failed, with a `ForwardFailed` or the database's error. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Forwards until the signal: a pass every second, and after a failure when the bus asks for it, or after 1 to 60 seconds.
 *
 * @throws TypeError for a URL or a secret that cannot be one.
 */
export async function keepForwarding(db: Executor, options: KeepForwardingOptions): Promise<void> {
  const { url, secret, signal, everyMs = SECOND, onError = writeError } = options;
  const forwarding = { db, bus: busOf(url, secret), signal, onError };
  outliveLostConnections(db);
  const look = looking(db);
  let failures = 0;
  while (!signal.aborted) {
    let pauseMs = everyMs;
    try {
      await pass(look, forwarding);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      report(onError, error);
      failures += 1;
      pauseMs = pauseAfter(error, failures);
    }
    await sleep(pauseMs, signal);
  }
}

/** A proxy in the bus's place may ask for no pause at all. */
const SHORTEST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = MINUTE;

function pauseAfter(error: unknown, failures: number): number {
  const asked = error instanceof ForwardFailed ? error.retryAfterMs : null;
  const pauseMs = asked ?? SECOND * 2 ** Math.min(failures - 1, 6);
  return Math.min(Math.max(pauseMs, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS);
}

function report(onError: Forwarding['onError'], error: unknown): void {
  try {
    onError(error);
  } catch {
    // A mistake in the service's logging must not keep its events back.
  }
}

async function pass(look: () => Promise<Reach>, forwarding: Forwarding): Promise<Forwarded> {
  const { signal } = forwarding;
  const until = Date.now() + HELD_BACK_MS;
  let forwarded = 0;
  for (let pauseMs = 5; ; pauseMs = Math.min(2 * pauseMs, 200)) {
    const { place, isHeldBack, hasRefusals } = await look();
    if (place !== null) forwarded += await forwardTo(place, hasRefusals, forwarding);
    if (!isHeldBack || Date.now() > until) return { forwarded, isHeldBack };
    await sleep(pauseMs, signal);
    signal?.throwIfAborted();
  }
}

interface Reach {
  /** No transaction that is still open has this place or an earlier one; null where that is known of none. */
  readonly place: string | null;
  /** Whether there are events behind it. */
  readonly isHeldBack: boolean;
  /** Whether the service has the table of what is set aside, which earlier releases had not, and may write to it. */
  readonly hasRefusals: boolean;
}

/**
 * Makes the looks of a forwarder, each of which finds how far it may send.
 *
 * A transaction of floor 0 may have any place, so nothing is sent up to a place before those have ended that were open when
 * it was the newest. Those that began since have later places: else nothing would be sent while they overlap.
 */
function looking(db: Executor): () => Promise<Reach> {
  let awaited: Look = { last: null, place: null, unplaced: [], hasRefusals: false };
  let place: string | null = null;
  return async () => {
    const [look] = await run<Look>(db, { text: LOOK, values: [] });
    const { last, unplaced, hasRefusals } = look!;
    const isAwaited = (transaction: string) => awaited.unplaced.includes(transaction);
    const haveEnded = !unplaced.some((one) => isAwaited(one) || one.startsWith(PREPARED));
    if (unplaced.length === 0) place = look!.place;
    else if (haveEnded) place = awaited.place;
    if (haveEnded || unplaced.every(isAwaited)) awaited = look!;
    return { place, isHeldBack: place !== last, hasRefusals };
  };
}

interface Look {
  /** The newest event's place; null for an empty outbox. */
  readonly last: string | null;
  /** No open transaction whose floor is known has this place or an earlier one. */
  readonly place: string | null;
  /** The open transactions of floor 0. */
  readonly unplaced: readonly string[];
  readonly hasRefusals: boolean;
}

/** Begins the name that a transaction may have got when it was prepared, or by a restart after that, whatever it was before. */
const PREPARED = '-1/';

// A transaction with an earlier place than the newest took its lock before that place, hence before this snapshot. The
// locks are read after it: such a transaction is among them, prepared ones too, or has ended, and the next statement sees
// what it left. The floor's upper bits are those that bring it next to the newest place.
const LOOK = `
  with newest as materialized (
    select max(place) as last from postbud_outbox
  ),
  recording as materialized (
    select virtualtransaction as name, objid::bigint as floor
    from pg_locks
    where locktype = 'advisory' and classid = ${RECORDING} and objsubid = 2 and granted
      and database = (select oid from pg_database where datname = current_database())
      and (select last from newest) is not null
  )
  select last::text, least(last, (
      select min(last + (floor - (last & 2147483647) + 3221225472) % 2147483648 - 1073741824)
      from recording where floor <> 0
    ))::text as place, (
      select coalesce(json_agg(name) filter (where floor = 0), '[]') from recording
    ) as unplaced, coalesce(has_table_privilege(to_regclass('postbud_outbox_refused'), 'insert'), false) as "hasRefusals"
  from newest`;

/**
 * Forwards the events up to a place, in order, and sets aside those that the bus refuses for good.
 *
 * @returns how many the bus has taken.
 */
async function forwardTo(
  place: string,
  hasRefusals: boolean,
  { db, bus, signal, onError }: Forwarding,
): Promise<number> {
  for (let forwarded = 0; ;) {
    signal?.throwIfAborted();
    const [first, ...others] = fitting((await nextUpTo(db, place, hasRefusals)).map(asWritten));
    if (first === undefined) return forwarded;
    const { taken, refused } = await post(bus, [first, ...others], signal);
    if (refused === null) {
      await run(db, { text: REMOVE, values: [JSON.stringify(taken.map((event) => event.place))] });
      forwarded += taken.length;
      continue;
    }
    const { topic, id, status, code, reason } = refused;
    const error = new ForwardFailed(
      `the bus refused ${topic} ${id} with ${status} ${code}: ${reason}. ${hasRefusals ? SET_ASIDE : NO_TABLE}`,
      { status, refused: { topic, id, code, reason } },
    );
    if (!hasRefusals) throw error;
    // In this order, so that nothing is set aside that was not reported. After a crash in between it is reported again.
    report(onError, error);
    await putAside(db, refused);
  }
}

const SET_ASIDE =
  'It is set aside, and later events of its topic and ordering key wait behind it: call retry or discard';
const NO_TABLE =
  'All events behind it wait: run OUTBOX_TABLE of this release in a migration, so that only those of its order do';

const REMOVE = `
  delete from postbud_outbox
  where place in (select place::bigint from jsonb_array_elements_text($1::text::jsonb) as taken(place))`;

/** Takes out the spaces that jsonb writes: `record` measured the event without them. */
function asWritten({ event, ...recorded }: Recorded): Recorded {
  return { ...recorded, event: JSON.stringify(JSON.parse(event)) };
}

/** Cuts a batch to the bytes that the bus takes; what an earlier release recorded may be larger, and is then refused. */
function fitting(events: readonly Recorded[]): readonly Recorded[] {
  let bytes = 2;
  const tooMany = events.findIndex(({ event }) => (bytes += Buffer.byteLength(event) + 1) > MOST_BYTES);
  return tooMany === -1 ? events : events.slice(0, Math.max(1, tooMany));
}
