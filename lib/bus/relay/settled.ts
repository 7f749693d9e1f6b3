import type { Database } from '../../platform/db/connect.ts';
import type { DeliveredAttempt, UnfinishedAttempt } from '../deliveries/settle.ts';

/** The attempts of one subscription that the database has recorded. */
export interface SettledAttempts {
  readonly topic: string;
  readonly subscriber: string;
  readonly delivered: readonly DeliveredAttempt[];
  readonly unfinished: readonly UnfinishedAttempt[];
}

/** Must return at once and not throw. @param leftMs how long the process may still work. */
type SettledListener = (attempts: SettledAttempts, leftMs: number) => void;

const listeners = new WeakMap<Database, SettledListener>();

/** Tells a listener, in place of an earlier one, what the relays of this process have settled in a database. */
export function onSettled(db: Database, listener: SettledListener): void {
  listeners.set(db, listener);
}

export function noteSettled(db: Database, attempts: SettledAttempts, leftMs: number): void {
  listeners.get(db)?.(attempts, leftMs);
}
