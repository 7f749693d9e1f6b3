import { deepestCodeOf } from '../../../platform/http/no-connection.ts';
import { SECOND } from '../../../platform/time.ts';
import { markChangedNumbers } from '../numbers.ts';

/**
 * A provider's API did not answer as it should. The message is ours alone: operators read it, and an answer could repeat
 * a key or a person's name.
 */
export class ProviderFailed extends Error {
  readonly code = 'provider_failed';
  /** The answer's status; null without a whole answer. */
  readonly status: number | null;
  /** Whether it may well answer the next time: it was not reached, was too slow, or failed itself. */
  readonly isMomentary: boolean;
  /** How long the provider asks to wait; null if it says nothing. */
  readonly retryAfterMs: number | null;

  constructor(
    message: string,
    {
      status = null,
      isMomentary = status !== null && status >= 500,
      retryAfterMs = null,
      cause,
    }: Partial<Pick<ProviderFailed, 'status' | 'isMomentary' | 'retryAfterMs'>> & ErrorOptions = {},
  ) {
    super(message, { cause });
    this.name = 'ProviderFailed';
    this.status = status;
    this.isMomentary = isMomentary;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A request to a provider's API. */
export interface ProviderRequest {
  readonly method?: 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** A hundred of Stripe's events with all the metadata that they may carry have some six million bytes. */
const LONGEST_ANSWER_BYTES = 16 * 1024 * 1024;

/**
 * Sends a request and parses the answer as JSON. A number that would become another one is `Infinity`.
 *
 * @throws ProviderFailed for anything but a 2xx with JSON before the signal aborts.
 */
export async function askProvider(url: string, request: ProviderRequest): Promise<unknown> {
  try {
    // A redirect would send the key to an address that nobody configured.
    const response = await fetch(url, { ...request, redirect: 'manual' });
    if (!response.ok) {
      await response.body?.cancel();
      throw refusalOf(response);
    }
    return parse(await textOf(response));
  } catch (error) {
    if (error instanceof ProviderFailed) throw error;
    const failure = { isMomentary: true, cause: error };
    if (request.signal.aborted) throw new ProviderFailed('did not answer in time', failure);
    throw new ProviderFailed(`unreachable ${deepestCodeOf(error) ?? ''}`.trim(), failure);
  }
}

async function textOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    length += chunk.byteLength;
    if (length > LONGEST_ANSWER_BYTES) throw new ProviderFailed('answered more than 16 MiB');
  }
  return Buffer.concat(chunks, length).toString();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(markChangedNumbers(text));
  } catch (cause) {
    throw unreadable(cause);
  }
}

/** An answer that is not what the provider documents. */
export function unreadable(cause?: unknown): ProviderFailed {
  return new ProviderFailed('answered something that cannot be read', { cause });
}

const MEANINGS: Readonly<Record<number, string>> = {
  401: ': it does not accept the key',
  403: ': the key lacks a permission',
  429: ': too many requests',
};

function refusalOf({ status, headers }: Response): ProviderFailed {
  return new ProviderFailed(`answered ${status}${MEANINGS[status] ?? ''}`, {
    status,
    retryAfterMs: waitIn(headers.get('retry-after')),
  });
}

/** Reads `Retry-After` (RFC 9110, 10.2.3): seconds or a date. */
function waitIn(value: string | null): number | null {
  if (value === null) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * SECOND : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}
