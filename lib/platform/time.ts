import { onAbort } from './abort.ts';

/** Milliseconds. */
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const UNIT_MS = new Map([
  ['s', SECOND],
  ['m', MINUTE],
  ['h', HOUR],
  ['d', DAY],
  ['w', 7 * DAY],
]);

/** Parses a duration such as `24h`. @returns milliseconds; 0 for an invalid text. */
export function msOf(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  return Number(count) * (UNIT_MS.get(unit) ?? 0);
}

/** So many in a time. */
export interface Rate {
  readonly count: number;
  readonly ms: number;
}

/** Parses a rate such as `600/m`: from 1 to a million in a second, a minute, an hour or a day. @returns null for an invalid text. */
export function rateOf(text: string): Rate | null {
  const [, count = '', unit = ''] = /^([1-9]\d{0,6})\/([smhd])$/.exec(text) ?? [];
  return Number(count) >= 1 && Number(count) <= 1_000_000
    ? { count: Number(count), ms: msOf(`1${unit}`) }
    : null;
}

/** Writes a rate as `rateOf` reads it. */
export function rateText({ count, ms }: Rate): string {
  const [unit] = [...UNIT_MS].find(([, unitMs]) => unitMs === ms) ?? [];
  return unit === undefined ? `${count} in ${ms} ms` : `${count}/${unit}`;
}

/** An instant as ISO 8601 in UTC. @param at in milliseconds since the epoch, or a date. */
export function instantOf(at: number | Date): string {
  return new Date(at).toISOString();
}

export function instantOrNull(at: number | Date | null): string | null {
  return at === null ? null : instantOf(at);
}

/** Waits until the time is over or the signal aborts. Never rejects. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(done, ms);
    const forget = onAbort(signal, done);
  });
}
