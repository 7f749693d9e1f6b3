import { readFileSync, renameSync, writeFileSync } from 'node:fs';

import type { Pauses, Schedule } from './schedule.ts';

export const NO_PAUSES: Pauses = { chance: 0, longestMs: 0 };

/**
 * A clock that all processes of a run, and its database, read from one file: milliseconds ahead of the machine's, then
 * the pauses of the database, chance and longest, first the relays' and then the producers'.
 */
export class Clock {
  readonly #file: string;
  readonly #pauses: Schedule['pauses'];
  #aheadMs = 0;
  #isSteady = false;

  constructor(file: string, pauses: Schedule['pauses']) {
    this.#file = file;
    this.#pauses = pauses;
    this.#write();
  }

  /** The run's time, in epoch milliseconds. */
  now(): number {
    return Date.now() + this.#aheadMs;
  }

  move(ms: number): void {
    this.#aheadMs += Math.round(ms);
    this.#write();
  }

  /** Ends the pauses. */
  steady(): void {
    this.#isSteady = true;
    this.#write();
  }

  #write(): void {
    const { relays, producers } = this.#isSteady ? { relays: NO_PAUSES, producers: NO_PAUSES } : this.#pauses;
    const line = [this.#aheadMs, relays.chance, relays.longestMs, producers.chance, producers.longestMs].join(
      ' ',
    );
    // Whoever reads it gets the old line or the new one.
    const next = `${this.#file}.next`;
    writeFileSync(next, line, { mode: 0o644 });
    renameSync(next, this.#file);
  }
}

/** By how many milliseconds the clock is ahead of the machine's. */
export function aheadMs(file: string): number {
  return Number.parseFloat(readFileSync(file, 'utf8'));
}
