import type { Executor } from './statement.ts';

// How a relay learns that there is something to deliver. Every change that makes deliveries due calls `noteDue`: an
// emit, a webhook, an operator's replay, retry, skip or resume. The commit calls the listeners of `onDue`; the one of
// lib/components/database.ts kicks the relay.

/** A transaction of `db.transaction`, with those nested in it. */
export class OpenTransaction {
  /** Whether it made deliveries due. */
  isDue = false;
  /** Whether it did so by events alone, whose commit a turn of the relay can wait for in the database. */
  hasOnlyEvents = true;
  /** The process id of its backend, once it has emitted. */
  backend: number | null = null;
  /** Those to which it has emitted. */
  readonly topics = new Set<string>();
}

/** A commit that makes deliveries due by events alone. */
export interface SentCommit {
  readonly backend: number;
  readonly topics: ReadonlySet<string>;
}

/** An event that a statement recorded. */
interface Emitted {
  /** The process id of the backend that recorded it. */
  readonly backend: number;
  readonly topic: string;
}

export interface DueListener {
  /** @param sent the same as `onSent` was called with, if it was. */
  (sent?: SentCommit): void;
  /** Called when a commit is sent, so that a turn of the relay may be on its way beside it. It may still fail. */
  readonly onSent?: (sent: SentCommit) => void;
}

const openTransactions = new WeakMap<object, OpenTransaction>();
const listeners = new WeakMap<object, Set<DueListener>>();

/**
 * Notes that a statement made deliveries due.
 *
 * @param on what it ran on: a transaction of `db.transaction`, whose commit is then reported; or the database, where it
 *   is committed already. Other executors have no listeners: their owner calls the kick.
 * @param emitted the event that it recorded, if that is all that it did.
 */
export function noteDue(on: Executor, emitted?: Emitted): void {
  const transaction = openTransactions.get(on);
  if (!transaction) return reportDue(on);
  transaction.isDue = true;
  if (emitted === undefined) {
    transaction.hasOnlyEvents = false;
    return;
  }
  transaction.backend = emitted.backend;
  transaction.topics.add(emitted.topic);
}

/** Calls `listener` after each commit on a database that made deliveries due. @returns a function that ends this. */
export function onDue(db: Executor, listener: DueListener): () => void {
  const own = listeners.get(db) ?? new Set();
  listeners.set(db, own.add(listener));
  return () => own.delete(listener);
}

/** Registers a transaction for `noteDue`: one of `db.transaction`, or one nested in it. */
export function trackTransaction(tx: object, transaction: OpenTransaction): void {
  openTransactions.set(tx, transaction);
}

/** Tells the listeners of `onDue` that a transaction sends its commit. */
export function reportSent(db: object, transaction: OpenTransaction): void {
  if (!hasOnlyEmitted(transaction)) return;
  for (const { onSent } of listeners.get(db) ?? []) onSent?.(transaction);
}

/** Tells the listeners of `onDue` about a commit. @param sent the transaction, if it was one of `db.transaction`. */
export function reportDue(db: object, sent?: OpenTransaction): void {
  for (const listener of listeners.get(db) ?? []) listener(sent && hasOnlyEmitted(sent) ? sent : undefined);
}

function hasOnlyEmitted(transaction: OpenTransaction): transaction is OpenTransaction & SentCommit {
  return transaction.isDue && transaction.hasOnlyEvents && transaction.backend !== null;
}
