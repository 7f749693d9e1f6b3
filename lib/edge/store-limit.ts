import pTimeout from 'p-timeout';

import { InvalidConfiguration } from '../platform/config.ts';
import { Problem } from '../platform/http/problem.ts';
import { codeOf, logError } from '../platform/log.ts';
import { SECOND } from '../platform/time.ts';

/** Providers give up on a request after five to thirty seconds. */
const DATABASE_LIMIT_MS = 5 * SECOND;

/** The usual time of a failover or a restart. */
const DATABASE_RETRY_SECONDS = 5;

/** Waits five seconds for what stores a request. It may be stored later all the same. */
export async function inTime<Stored>(storing: Promise<Stored>): Promise<Stored> {
  return await pTimeout(storing, {
    milliseconds: DATABASE_LIMIT_MS,
    fallback: () => {
      throw new DatabaseTimeout();
    },
  });
}

class DatabaseTimeout extends Error {
  readonly code = 'database_timeout';

  constructor() {
    super(`the database had not answered after ${DATABASE_LIMIT_MS} ms`);
    this.name = 'DatabaseTimeout';
  }
}

/**
 * Gives what to throw where a request could not be stored: Problem 503 `database_unavailable`, which is logged, or the
 * error itself where sending the request again cannot help.
 *
 * @param said the log's message and fields, and the answer's detail.
 */
export function unstored(
  error: unknown,
  said: {
    readonly message: string;
    readonly fields: NonNullable<Parameters<typeof logError>[2]>;
    readonly detail: string;
  },
): unknown {
  if (error instanceof InvalidConfiguration || isOurMistake(error)) return error;
  logError(said.message, error, said.fields);
  return new Problem('database_unavailable', {
    detail: said.detail,
    retryAfterSeconds: DATABASE_RETRY_SECONDS,
    cause: error,
  });
}

/**
 * Whether the data, a constraint, the SQL or a trigger is at fault: then a retry cannot help, and nothing was stored.
 */
function isOurMistake(error: unknown): boolean {
  return /^(22|23|42|P0)...$/.test(codeOf(error) ?? '');
}
