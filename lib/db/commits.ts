import type { Executor } from './statement.ts';

// How a relay learns that there is something to deliver. Every change that makes deliveries due calls `noteDue`: an
// emit, a webhook, an operator's replay, retry, skip or resume. The commit calls the listeners of `onDue`; the one of
// lib/postbud.ts kicks the relay.

/** A transaction of `db.transaction`, with those nested in it. */
export interface OpenTransaction {
  madeDue: boolean;
}

const openTransactions = new WeakMap<object, OpenTransaction>();
const listeners = new WeakMap<object, Set<() => void>>();

/**
 * Notes that a statement made deliveries due.
 *
 * @param on what it ran on: a transaction of `db.transaction`, whose commit is then reported; or the database, where it
 *   is committed already. Other executors have no listeners: their owner calls the kick.
 */
export function noteDue(on: Executor): void {
  const transaction = openTransactions.get(on);
  if (transaction) transaction.madeDue = true;
  else reportDue(on);
}

/** Calls `listener` after each commit on a database that made deliveries due. @returns a function that ends this. */
export function onDue(db: Executor, listener: () => void): () => void {
  const own = listeners.get(db) ?? new Set();
  listeners.set(db, own.add(listener));
  return () => own.delete(listener);
}

/** Registers a transaction for `noteDue`: one of `db.transaction`, or one nested in it. */
export function trackTransaction(tx: object, transaction: OpenTransaction): void {
  openTransactions.set(tx, transaction);
}

/** Tells the listeners of `onDue` about a commit. */
export function reportDue(db: object): void {
  for (const listener of listeners.get(db) ?? []) listener();
}
