import { Gate } from '../gate.ts';
import type { Transaction } from './database.ts';
import { sendsBy } from './statement.ts';
import type { Sender } from './statement.ts';

// A transaction's handle ends with the part of its time for which it was lent, so that nobody who keeps it writes in
// another transaction.

/** @param lend gives the same transaction to somebody else, for a part of its time. */
export type Body<Result> = (tx: Transaction, lend: () => Lent) => Promise<Result>;

/** A transaction for one of those who use it. */
export interface Lent {
  readonly tx: Transaction;
  /** Ends it for them. @throws TransactionCommand if they have tried to end it themselves. */
  readonly end: () => void;
}

/** Makes Drizzle's transaction of a connection, without a statement. @param depth how many transactions it is nested in. */
export type NewTransaction<Client> = (client: Client, depth: number) => Transaction;

/** @returns what lends the transaction that was begun on a connection, or will be. */
export function lenderOf<Client extends object>(
  newTransaction: NewTransaction<Client>,
  client: Client,
  sender: Sender,
): () => Lent {
  const open = (gate: Gate, depth: number): Transaction => {
    const tx = newTransaction(gate.before(client), depth);
    sendsBy(tx, {
      ...sender,
      send: async (statement) => {
        // Those with a name are our own.
        gate.pass(statement.name === undefined ? statement.text : '');
        return await sender.send(statement);
      },
    });
    const nest = tx.transaction.bind(tx);
    tx.transaction = (body) =>
      nest(async () => {
        const inner = new Gate(gate);
        try {
          return await body(open(inner, depth + 1));
        } finally {
          inner.close();
        }
      });
    return tx;
  };
  return () => {
    const gate = new Gate();
    return { tx: open(gate, 0), end: () => gate.close() };
  };
}

/** Runs the callback of a transaction, whose handle ends with it. */
export async function runBody<Result>(body: Body<Result>, lend: () => Lent): Promise<Result> {
  const { tx, end } = lend();
  try {
    return await body(tx, lend);
  } finally {
    end();
  }
}
