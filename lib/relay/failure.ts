import { DAY } from '../time.ts';

/** What a handler threw, as it is kept. */
export interface Failure {
  /** The error's code, else its class. */
  readonly kind: string;
  readonly message: string;
  /** How long the handler asked to wait, in milliseconds; null when it failed. */
  readonly waitMs: number | null;
  readonly isPermanent: boolean;
}

export const LEASE_EXPIRED: Failure = {
  kind: 'lease_expired',
  message: 'the relay died, or lost its database, during the attempt',
  waitMs: null,
  isPermanent: false,
};

/** Longer messages say nothing more, and some hold the whole request that failed. */
const MESSAGE_LIMIT = 2000;
const KIND_LIMIT = 100;

/** Longer than any wait of the relay's own, and short of the end of time. */
const LONGEST_WAIT_MS = 7 * DAY;

/**
 * Reads what a handler threw. Codes are compared, not classes: a handler may come with a copy of the library of its own.
 */
export function failureOf(error: unknown): Failure {
  try {
    if (!(error instanceof Error))
      return { kind: 'thrown', message: storable(error), waitMs: null, isPermanent: false };
    const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
    const ms = code === 'retry_after' && 'ms' in error && typeof error.ms === 'number' ? error.ms : -1;
    return {
      kind: storable(code ?? error.name).slice(0, KIND_LIMIT),
      message: storable(error.message),
      waitMs: ms >= 0 ? Math.min(ms, LONGEST_WAIT_MS) : null,
      isPermanent: code === 'permanent',
    };
  } catch {
    return { kind: 'thrown', message: 'what was thrown can not be read', waitMs: null, isPermanent: false };
  }
}

/** What a handler throws may hold what Postgres refuses in JSON, or be cut in the middle of a surrogate pair. */
function storable(text: unknown): string {
  return String(text).slice(0, MESSAGE_LIMIT).toWellFormed().replaceAll('\0', '');
}
