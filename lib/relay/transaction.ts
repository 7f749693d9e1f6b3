import { transact } from '../db/connect.ts';
import type { Transaction } from '../db/connect.ts';
import { TransactionNotBegun } from '../db/late-begin.ts';
import type { LaneWork } from './lane-work.ts';
import { HandlerTimeout, Limit } from './limit.ts';

/** A transaction in which handlers run, one after the other. */
export interface HandlersTransaction {
  readonly tx: Transaction;
  /** Gives the next handler its time, from now on. The last one's is that of the settlement and the commit as well. */
  readonly limited: () => Limit;
}

/** There was no transaction to call a handler in: the claim that follows finds out what is wrong. Or it came too late. */
export class NotBegun extends Error {
  constructor(options?: ErrorOptions) {
    super('the handler could not be begun', options);
    this.name = 'NotBegun';
  }
}

/** The commit failed or was not answered; in the latter case it may have been made. */
export class CommitUnknown extends Error {
  constructor(cause: unknown) {
    super('the commit was not answered', { cause });
    this.name = 'CommitUnknown';
  }
}

/**
 * Runs handlers in a transaction, which is cut off when one of them overruns its time, or the relay is told to stop.
 *
 * @throws NotBegun, CommitUnknown, or what the body threw.
 */
export async function inTransaction(
  { lane, options }: LaneWork,
  body: (transaction: HandlersTransaction) => Promise<void>,
): Promise<void> {
  const { db, signal, fits, transactions } = options;
  const { timeoutMs } = lane.subscription.subscriber;
  const whole = new AbortController();
  let limit: Limit | null = null;
  let timer: NodeJS.Timeout | undefined;
  let isCommitting = false;
  const cut = (reason: unknown) => {
    limit?.abort(reason);
    whole.abort(reason);
  };
  const stop = () => cut(signal?.reason);
  // The limit is the handler's: waiting for a connection is not its doing.
  const limited = () => {
    clearTimeout(timer);
    timer = setTimeout(() => cut(new HandlerTimeout(timeoutMs)), timeoutMs);
    return (limit = new Limit());
  };
  const run = () =>
    transact(
      db,
      async (tx) => {
        // That took as long as the transactions before it did.
        if (!fits(timeoutMs)) throw new NotBegun();
        await body({ tx, limited });
        isCommitting = true;
      },
      whole.signal,
    );
  signal?.addEventListener('abort', stop, { once: true });
  try {
    await transactions.within(run);
  } catch (error) {
    if (limit === null || error instanceof TransactionNotBegun) throw new NotBegun({ cause: error });
    throw isCommitting ? new CommitUnknown(error) : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}
