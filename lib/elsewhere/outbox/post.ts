import { randomUUID } from 'node:crypto';

import * as z from 'zod';

import { signedHeaders, SIGNING_SECRET, signingKey } from '../../platform/schemes/signing.ts';
import { storable } from '../../platform/storable.ts';
import { SECOND } from '../../platform/time.ts';

/** Where events go, and the key that signs them. */
export interface Bus {
  readonly address: URL;
  readonly key: Buffer;
}

/** An event that the bus refuses for good. */
export interface Refused {
  readonly topic: string;
  readonly id: string;
  /** The answer's code, for example `validation_failed`. */
  readonly code: string;
  /** What the bus said. */
  readonly reason: string;
}

/** The bus did not take events. They stay in the outbox. */
export class ForwardFailed extends Error {
  readonly code = 'forward_failed';
  /** The answer's status; null without an answer. */
  readonly status: number | null;
  /** How long the bus asks to wait; null if it does not say. */
  readonly retryAfterMs: number | null;
  /** The event that the bus refuses for good, and why; null where all may pass later. */
  readonly refused: Refused | null;

  constructor(message: string, options: ErrorOptions & Partial<Refusal> = {}) {
    const { status = null, retryAfterMs = null, refused = null, ...rest } = options;
    super(message, rest);
    this.name = 'ForwardFailed';
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.refused = refused;
  }
}

type Refusal = Pick<ForwardFailed, 'status' | 'retryAfterMs' | 'refused'>;

/** @throws TypeError for a URL or a secret that cannot be one. */
export function busOf(url: string, secret: string): Bus {
  const address = URL.canParse(url) ? new URL(url) : null;
  if (address === null || !/^https?:$/.test(address.protocol))
    throw new TypeError("url: expected the bus's address, for example https://bus.example.no");
  if (!SIGNING_SECRET.test(secret))
    throw new TypeError(
      "secret: expected whsec_ and base64, one of the secrets in the bus's PRODUCER_<NAME>_SECRET",
    );
  return {
    address: address.pathname === '/' ? new URL('/api/events', address) : address,
    key: signingKey(secret),
  };
}

/** A bus that has not answered by then is asked again: it knows the events that it has recorded. */
const LIMIT_MS = 15 * SECOND;

/** What the bus takes in one request. */
export const [MOST_EVENTS, MOST_BYTES] = [100, 1024 * 1024];

/** An event of the outbox, `event` as JSON text. */
export interface Recorded {
  readonly place: string;
  readonly topic: string;
  readonly id: string;
  readonly event: string;
}

interface Posted {
  /** Those that the bus has now, counted from the first. */
  readonly taken: readonly Recorded[];
  /** The first, where the bus refuses it for good. Then it has taken none. */
  readonly refused: (Recorded & Refused & { readonly status: number }) | null;
}

/**
 * Posts events in their order, as many as the bus takes in one request: some where it refuses a later one, since it records
 * a request as a whole or not at all.
 *
 * @throws ForwardFailed where the events may pass later.
 */
export async function post(bus: Bus, events: Events, signal?: AbortSignal): Promise<Posted> {
  const body = `[${events.map(({ event }) => event).join(',')}]`;
  const { status, ok, headers, answer } = await send(bus, body, signal);
  const said = storable(answer.slice(0, MOST_SAID));
  if (ok) {
    if (hasTaken(answer, events)) return { taken: events, refused: null };
    // The address may lead to another server by now.
    throw new ForwardFailed(`url: expected the answer of a bus, got ${status}: ${said}`, { status });
  }
  const refusal = refusalForGood(status, answer);
  if (refusal === null)
    throw new ForwardFailed(`the bus answered ${status}: ${said}`, {
      status,
      retryAfterMs: askedToWaitMs(headers),
    });
  const { code, issues, detail = said } = refusal;
  const named = issues.flatMap(({ path }) => /^\d+(?=\.)/.exec(path) ?? []).map(Number);
  const index = Math.min(...named);
  // Those before it can go. Where the answer does not say which it is, the first half has it or can go.
  if (events.length > 1 && index !== 0) return await post(bus, before(index, events), signal);
  const wrong = issues.filter(({ path }) => events.length === 1 || path.startsWith('0.'));
  const reasons = wrong.map(({ path, message }) => `${path.replace(/^0\./, '')}: ${message}`);
  const reason = storable((reasons.join('; ') || detail).slice(0, MOST_SAID));
  return { taken: [], refused: { ...events[0], status, code, reason } };
}

function before(index: number, [first, ...others]: Events): Events {
  const count = index <= others.length ? index : Math.ceil((others.length + 1) / 2);
  return [first, ...others.slice(0, count - 1)];
}

/** Characters that are kept of what an answer says. */
const MOST_SAID = 500;

type Events = readonly [Recorded, ...Recorded[]];

const problem = z.object({
  code: z.string(),
  detail: z.string().optional(),
  issues: z.array(z.object({ path: z.string(), message: z.string() })).default([]),
});

/** The codes that are about an event, and not about its sender, the address or the state of the bus. */
const FOR_GOOD: ReadonlySet<string> = new Set([
  'validation_failed',
  'not_your_topic',
  'conflicting_duplicate',
  'body_too_large',
]);

/**
 * Reads an answer that refuses an event for good, so that only another event would be taken. Of another server's answers
 * only a 413 is one, since it is for the size.
 *
 * @returns null for what may pass later.
 */
function refusalForGood(status: number, answer: string): z.output<typeof problem> | null {
  const { data } = problem.safeParse(jsonOf(answer));
  if (data !== undefined && FOR_GOOD.has(data.code)) return data;
  return status === 413 ? { code: 'body_too_large', issues: [] } : null;
}

const taken = z.object({ events: z.array(z.object({ id: z.string() })) });

/** Whether an answer names the events that were sent, in their order. */
function hasTaken(answer: string, sent: readonly Recorded[]): boolean {
  const { data } = taken.safeParse(jsonOf(answer));
  return data?.events.length === sent.length && data.events.every(({ id }, index) => id === sent[index]!.id);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Sends a request and reads the whole answer, of which the connection may be lost in the middle. */
async function send({ address, key }: Bus, body: string, signal: AbortSignal | undefined) {
  const limit = AbortSignal.timeout(LIMIT_MS);
  try {
    const response = await fetch(address, {
      method: 'POST',
      // Not followed: a redirect would take signed events to an address that nobody configured.
      redirect: 'manual',
      headers: {
        'content-type': 'application/cloudevents-batch+json',
        ...signedHeaders(key, `outbox_${randomUUID()}`, body),
      },
      body,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    const { status, ok, headers } = response;
    return { status, ok, headers, answer: await response.text() };
  } catch (error) {
    signal?.throwIfAborted();
    throw new ForwardFailed('the bus could not be reached', { cause: error });
  }
}

/** A bus that refuses says for how many seconds; another server in its place may not. */
function askedToWaitMs(headers: Headers): number | null {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds * SECOND : null;
}
