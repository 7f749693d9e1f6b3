import { isConflict } from '../../platform/conflict.ts';
import { storable } from '../../platform/storable.ts';
import { DAY, SECOND } from '../../platform/time.ts';
import { NEWER_VERSION } from '../deliveries/newer-version.ts';

/** An attempt's error as it is stored. */
export interface AttemptFailure {
  /** The error's code, or its class if it has none. */
  readonly kind: string;
  readonly message: string;
  /** What a component elsewhere said when it refused the event; null without an answer. */
  readonly answer: string | null;
  /** How long to wait without using up an attempt, in milliseconds: the handler asked for it, or met only conflicts. */
  readonly waitMs: number | null;
  readonly isPermanent: boolean;
}

export const LEASE_EXPIRED = failed(
  'lease_expired',
  'the relay died, or lost its database, during the attempt',
);

/** A delivery has no event of its topic: somebody wrote or deleted rows by hand. */
export const EVENT_MISSING: AttemptFailure = {
  ...failed('event_missing', 'the event of this delivery does not exist, or is not of this topic'),
  isPermanent: true,
};

/** The handlers returned, and then the settlement failed or the commit was not answered; so it may have been made. */
export class CommitUnknown extends Error {}

/** Longer messages add nothing, and some hold the whole request that failed. */
const MESSAGE_LIMIT = 2000;
const KIND_LIMIT = 100;
/** As much as is read of a component's answer. */
const ANSWER_LIMIT = 2048;

/** A handler that met conflicts each time that it ran at once waits this long, which is no attempt either. */
const CONFLICT_WAIT_MS = 5 * SECOND;

/** Longer than any backoff of the relay's own, and short enough for a timestamp. */
const LONGEST_WAIT_MS = 7 * DAY;

/** Reads what a handler threw. It compares codes, not classes: a handler may bring its own copy of the library. */
export function failureOf(error: unknown): AttemptFailure {
  try {
    if (!(error instanceof Error)) return failed('thrown', kept(error));
    const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
    const waits = code === 'retry_after' || code === NEWER_VERSION;
    const asked = waits && 'ms' in error && typeof error.ms === 'number' ? error.ms : -1;
    const ms = isConflict(error) ? CONFLICT_WAIT_MS : asked;
    return {
      kind: kept(code ?? error.name, KIND_LIMIT),
      message: kept(error.message),
      answer: 'answer' in error && typeof error.answer === 'string' ? kept(error.answer, ANSWER_LIMIT) : null,
      waitMs: ms >= 0 ? Math.min(ms, LONGEST_WAIT_MS) : null,
      isPermanent: code === 'permanent' || code === 'replay_refused',
    };
  } catch {
    return failed('thrown', 'the thrown value cannot be read');
  }
}

function failed(kind: string, message: string): AttemptFailure {
  return { kind, message, answer: null, waitMs: null, isPermanent: false };
}

/** A handler's error may hold anything. */
function kept(text: unknown, limit = MESSAGE_LIMIT): string {
  return storable(String(text).slice(0, limit));
}
