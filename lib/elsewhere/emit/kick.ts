import { randomUUID } from 'node:crypto';

import type { Subscriber } from '../../bus/catalog/catalog.ts';
import { nearest } from '../../platform/nearest.ts';
import { signedHeaders, SIGNING_SECRET, signingKey } from '../../platform/schemes/signing.ts';
import { SECOND } from '../../platform/time.ts';
import { subscriberNames } from './known-subscribers.ts';

export interface RemoteKickOptions {
  /** The bus's address, `https://bus.example.no`. One with a path is called as it is. */
  readonly url: string;
  /** The bus's `KICK_SECRET`, or one of several: `whsec_` and base64. */
  readonly secret: string;
  /**
   * A component that receives events elsewhere, by its name in the catalog: the kick then says that it is back. If the bus
   * waits for it in an outage, it is probed at once. Call such a kick when the component starts.
   */
  readonly subscriber?: Subscriber;
  /** Keeps the host awake until the promise settles; on Vercel `waitUntil` of `@vercel/functions`. */
  readonly waitUntil?: (work: Promise<void>) => void;
  /** Called when the bus could not be reached or refused the kick, for the log: nothing else is to be done. */
  readonly onError?: (error: Error) => void;
}

/** The bus did not take a kick. Its next tick finds the event all the same. */
export class KickFailed extends Error {
  readonly code = 'kick_failed';
  /** The answer's status; null without an answer. */
  readonly status: number | null;

  constructor(message: string, status: number | null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'KickFailed';
    this.status = status;
  }
}

/** A bus that has not answered by then is left to its next tick, which comes after five seconds. */
const LIMIT_MS = 2 * SECOND;

/**
 * Makes the function to call after each commit that emitted, in a process other than the bus's: commit → `kick()` →
 * `POST /api/kick` → the bus's relay looks at once. Without it the event waits for the relay's next tick, five seconds at
 * most.
 *
 * The function never throws, and its promise never rejects; there is no need to await it. While a kick is under way,
 * further calls share one that follows it. After a 429, calls do nothing until the bus takes kicks again.
 *
 * @throws TypeError for a URL or a secret that cannot be one, and for an unknown subscriber, with the nearest name.
 */
export function createKick(options: RemoteKickOptions): () => Promise<void> {
  const { url, secret, subscriber, waitUntil, onError } = options;
  const body = subscriber === undefined ? '' : JSON.stringify({ subscriber: requireSubscriber(subscriber) });
  const address = addressOf(url);
  const key = keyOf(secret);
  let quietUntil = 0;
  let underWay: Promise<void> | null = null;
  let following: Promise<void> | null = null;

  const send = async () => {
    if (Date.now() < quietUntil) return;
    try {
      const response = await post(address, key, body);
      await response.body?.cancel();
      if (response.ok) return;
      if (response.status === 429) quietUntil = Date.now() + retryAfterMs(response.headers);
      throw new KickFailed(`the bus answered a kick with ${response.status}`, response.status);
    } catch (error) {
      report(onError, error);
    }
  };
  const begin = () => (underWay = send().finally(() => (underWay = null)));
  const follow = async (current: Promise<void>) => {
    await current;
    following = null;
    await begin();
  };

  return () => {
    const kicking = underWay ? (following ??= follow(underWay)) : begin();
    try {
      waitUntil?.(kicking);
    } catch (error) {
      report(onError, error);
    }
    return kicking;
  };
}

async function post(address: URL, key: Buffer, body: string): Promise<Response> {
  return await fetch(address, {
    method: 'POST',
    // Not followed: a redirect would take the signature to an address that nobody configured.
    redirect: 'manual',
    headers: {
      ...signedHeaders(key, `kick_${randomUUID()}`, body),
      ...(body !== '' && { 'content-type': 'application/json' }),
    },
    ...(body !== '' && { body }),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
}

function report(onError: RemoteKickOptions['onError'], error: unknown): void {
  const failed =
    error instanceof KickFailed
      ? error
      : new KickFailed('the bus could not be kicked', null, { cause: error });
  try {
    onError?.(failed);
  } catch {
    // The producer's work is done: nothing that went wrong here may undo it.
  }
}

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : null;
  if (address === null || !/^https?:$/.test(address.protocol))
    throw new TypeError("url: expected the bus's address, for example https://bus.example.no");
  return address.pathname === '/' ? new URL('/api/kick', address) : address;
}

/** @throws TypeError */
function requireSubscriber(name: string): string {
  if (subscriberNames().some((known) => known === name)) return name;
  const meant = nearest(name, subscriberNames());
  const advice = meant === null ? `Known: ${subscriberNames().join(', ')}.` : `Did you mean '${meant}'?`;
  throw new TypeError(`Unknown subscriber '${name}'. ${advice}`);
}

function keyOf(secret: string): Buffer {
  if (!SIGNING_SECRET.test(secret))
    throw new TypeError("secret: expected whsec_ and base64, one of the secrets in the bus's KICK_SECRET");
  return signingKey(secret);
}

/** A bus that refuses says for how many seconds; another server in its place may not. */
function retryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get('retry-after') ?? '1');
  return Number.isFinite(seconds) ? seconds * SECOND : SECOND;
}
