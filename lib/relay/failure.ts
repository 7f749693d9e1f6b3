import { DAY } from '../time.ts';

/** An attempt's error as it is stored. */
export interface AttemptFailure {
  /** The error's code, or its class if it has none. */
  readonly kind: string;
  readonly message: string;
  /** How long the handler asked to wait, in milliseconds; null when it did not. */
  readonly waitMs: number | null;
  readonly isPermanent: boolean;
}

export const LEASE_EXPIRED: AttemptFailure = {
  kind: 'lease_expired',
  message: 'the relay died, or lost its database, during the attempt',
  waitMs: null,
  isPermanent: false,
};

/** Longer messages add nothing, and some hold the whole request that failed. */
const MESSAGE_LIMIT = 2000;
const KIND_LIMIT = 100;

/** Longer than any backoff of the relay's own, and short enough for a timestamp. */
const LONGEST_WAIT_MS = 7 * DAY;

/** Reads what a handler threw. It compares codes, not classes: a handler may bring its own copy of the library. */
export function failureOf(error: unknown): AttemptFailure {
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
    return { kind: 'thrown', message: 'the thrown value cannot be read', waitMs: null, isPermanent: false };
  }
}

/** Postgres refuses U+0000 and half surrogate pairs in JSON; a handler's error may hold them. */
function storable(text: unknown): string {
  return String(text).slice(0, MESSAGE_LIMIT).toWellFormed().replaceAll('\0', '');
}
