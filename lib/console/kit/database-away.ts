import { isAway } from '../../platform/db/away.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { Problem } from '../../platform/http/problem.ts';
import { codeOf, logError } from '../../platform/log.ts';
import { instantOf, MINUTE, SECOND, sleep } from '../../platform/time.ts';
import { timeText } from './words.ts';
import type { Bus } from './route.ts';

/** The first and the last request to this process that got no answer from the database, since one did. */
let away: { readonly since: string; readonly lastAt: string } | null = null;

/** Between two requests that are further apart it may have been there. */
const TOGETHER_MS = MINUTE;

function noteAway(now: string): string {
  const isSame = away !== null && Date.parse(now) - Date.parse(away.lastAt) < TOGETHER_MS;
  away = { since: isSame ? away!.since : now, lastAt: now };
  return away.since;
}

/** A page that takes longer may have a database that is gone without a word: it is asked whether it is there. */
const PATIENCE_MS = 4 * SECOND;
const PING = { text: 'select 1', values: [], limitMs: 3 * SECOND };

/** SQLSTATE of what changes something on a replica. */
const READ_ONLY = '25006';

/** The usual time of a failover or a restart. */
const RETRY_SECONDS = 5;

/**
 * Answers a request with the database.
 *
 * @param isAction whether the request changes something, so that a lost answer leaves open whether it did.
 * @throws Problem 503 `database_unavailable`, which says since when there is no answer; 409 `read_only`.
 */
export async function withDatabase<Given>(
  bus: Bus,
  { requestId, isAction }: { readonly requestId: string; readonly isAction: boolean },
  answer: (bus: Bus) => Promise<Given>,
): Promise<Given> {
  let opened: Database | null = null;
  const database = async () => (opened = await bus.database());
  const answered = new AbortController();
  const answering = answer({ ...bus, database });
  const asking = sleep(PATIENCE_MS, answered.signal).then(async () => {
    if (opened !== null && !answered.signal.aborted) await run(driverOf(opened), PING);
    return await answering;
  });
  try {
    const given = await Promise.race([answering, asking]);
    if (opened !== null) away = null;
    return given;
  } catch (error) {
    if (codeOf(error) === READ_ONLY) throw new Problem('read_only', { cause: error });
    if (!isAway(error)) throw error;
    const now = instantOf(Date.now());
    const since = noteAway(now);
    logError('the database does not answer', error, { requestId, since });
    throw new Problem('database_unavailable', {
      detail: `No answer from the database since ${timeText(since, now)}.${isAction ? ` ${IN_DOUBT}` : ''}`,
      retryAfterSeconds: RETRY_SECONDS,
      cause: error,
    });
  } finally {
    answered.abort();
  }
}

const IN_DOUBT = 'What you sent may have been carried out: check before you send it again.';
