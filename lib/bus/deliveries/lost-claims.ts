import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';

/** A turn that was given up may still wait for a lock in the database, and lease lanes when it gets it. */
const KNOWN_FOR_MS = 2 * MINUTE;

/** How often to look for such lanes. */
const LOOK_EVERY_MS = 5 * SECOND;

/** The claims of this process whose answer was lost, by database. */
interface LostClaims {
  /** Until when the token of each is kept, by `performance.now()`. */
  readonly tokens: Map<string, number>;
  /** When to look for their lanes. */
  lookAt: number;
}

const lost = new WeakMap<Database, LostClaims>();

/** Notes that the answer of a turn was lost: it may have leased lanes, under a token that no run knows. */
export function noteLostClaim(db: Database, token: string): void {
  const known = lost.get(db) ?? { tokens: new Map(), lookAt: 0 };
  known.tokens.set(token, performance.now() + KNOWN_FOR_MS);
  known.lookAt = 0;
  lost.set(db, known);
}

/** Whether lanes may be leased that no run knows of, and nobody has looked for them yet. */
export function hasLostClaims(db: Database): boolean {
  const known = lost.get(db);
  return known?.lookAt === 0 && [...known.tokens.values()].some((until) => performance.now() < until);
}

/**
 * Releases the lanes whose claims were lost, as soon as the database answers again. No handler has begun, so nobody is
 * charged, which their leases would do when they run out.
 *
 * @param now overrides the database's clock in tests; ISO 8601.
 */
export async function releaseLostClaims(db: Database, now: string | null): Promise<void> {
  const known = lost.get(db);
  if (!known || performance.now() < known.lookAt) return;
  for (const [token, until] of known.tokens) if (until < performance.now()) known.tokens.delete(token);
  const tokens = [...known.tokens.keys()];
  if (tokens.length === 0) {
    lost.delete(db);
    return;
  }
  const values = [`{${tokens.join(',')}}`, now];
  await run(driverOf(db), { text: RELEASE, values, limitMs: TURN_LIMIT_MS });
  // Unless another claim was lost meanwhile.
  if (known.tokens.size === tokens.length) known.lookAt = performance.now() + LOOK_EVERY_MS;
}

const RELEASE = 'select postbud_release_lost_1($1::uuid[], coalesce($2::timestamptz, clock_timestamp()))';
