import { randomUUID } from 'node:crypto';

import * as z from 'zod';

import { signedHeaders, SIGNING_SECRET, signingKey } from '../../platform/schemes/signing.ts';
import { SECOND } from '../../platform/time.ts';

/** Where events go, and the key that signs them. */
export interface Bus {
  readonly address: URL;
  readonly key: Buffer;
}

/** The bus did not take events. They stay in the outbox. */
export class ForwardFailed extends Error {
  readonly code = 'forward_failed';
  /** The answer's status; null without an answer. */
  readonly status: number | null;
  /** How long the bus asks to wait; null if it does not say. */
  readonly retryAfterMs: number | null;
  /** The event that the bus refuses, for which someone has to see: nothing behind it is sent. Null where all may pass later. */
  readonly refused: { readonly topic: string; readonly id: string } | null;

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

/**
 * Posts events in their order, as many as the bus takes in one request.
 *
 * @returns how many it took, counted from the first: fewer where a later one is refused.
 * @throws ForwardFailed
 */
export async function post(bus: Bus, events: readonly Recorded[], signal?: AbortSignal): Promise<number> {
  const body = `[${events.map(({ event }) => event).join(',')}]`;
  const { status, ok, headers, answer } = await send(bus, body, signal);
  const said = answer.slice(0, 500);
  if (ok) {
    if (hasTaken(answer, events)) return events.length;
    // The address may lead to another server by now.
    throw new ForwardFailed(`url: expected the answer of a bus, got ${status}: ${said}`, { status });
  }
  // Of one event; those before it can go, and it is then the first.
  if (status === 400 || status === 403 || status === 409 || status === 413) {
    if (events.length > 1) return await post(bus, events.slice(0, fitting(answer, events.length)), signal);
    const { topic, id } = events[0]!;
    throw new ForwardFailed(`the bus refused ${topic} ${id} with ${status}: ${said}`, {
      status,
      refused: { topic, id },
    });
  }
  throw new ForwardFailed(`the bus answered ${status}: ${said}`, {
    status,
    retryAfterMs: askedToWaitMs(headers),
  });
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

/** How many events of a refused batch to try: those before the first that is wrong, or half of them. */
function fitting(answer: string, length: number): number {
  const wrong = Array.from(answer.matchAll(/"path":"(\d+)\./g), ([, index]) => Number(index));
  const first = Math.min(...wrong);
  return first > 0 && first < length ? first : Math.ceil(length / 2);
}

/** A bus that refuses says for how many seconds; another server in its place may not. */
function askedToWaitMs(headers: Headers): number | null {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds * SECOND : null;
}
