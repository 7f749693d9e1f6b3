import type { KeyObject } from 'node:crypto';

import { Refusal } from '../../platform/schemes/scheme.ts';
import { isSigned } from '../../platform/schemes/signature.ts';
import { standard } from '../../platform/schemes/standard.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { Refused } from './answer.ts';

/** A body whose signature was verified. */
export interface VerifiedBody {
  readonly body: Uint8Array;
  readonly isBatch: boolean;
}

/** The time of a signature may be this far from the clock here, either way, as in the SDKs of Standard Webhooks. */
const TOLERANCE_SECONDS = (5 * MINUTE) / SECOND;

const EVENT = 'application/cloudevents+json';
const BATCH = 'application/cloudevents-batch+json';

/**
 * Makes the keys of a receiver's secrets.
 *
 * @throws TypeError without any, and for one that the bus cannot sign with. It does not repeat the secret.
 */
export function keysOf(secrets: string | readonly string[]): readonly KeyObject[] {
  const all = typeof secrets === 'string' ? secrets.split(/\s+/).filter(Boolean) : secrets;
  if (!Array.isArray(all) || all.length === 0) {
    throw new TypeError(
      'secrets: expected the secret that SUBSCRIBER_<NAME>_SECRET has at the bus, or a list of them during a rotation',
    );
  }
  return all.map((secret: unknown, index) => {
    const key = typeof secret === 'string' && secret.startsWith('whsec_') ? standard.keyOf(secret) : null;
    if (key) return key;
    throw new TypeError(
      `secrets[${index}]: expected whsec_ and the base64 of 24 to 64 random bytes, the same as SUBSCRIBER_<NAME>_SECRET at the bus`,
    );
  });
}

/**
 * Reads a request and verifies that the bus signed it a moment ago.
 *
 * @throws Refused 405, 415, 413, 400 or 401
 */
export async function verifiedBody(
  request: Request,
  keys: readonly KeyObject[],
  maxBytes: number,
): Promise<VerifiedBody> {
  if (request.method !== 'POST') {
    throw new Refused(405, 'method_not_allowed', 'Events come by POST.', { allow: 'POST' });
  }
  const isBatch = requireType(request.headers) === BATCH;
  const body = await readBody(request, maxBytes);
  if (!isFromBus(request, body, keys)) {
    // One answer for all reasons, so that nobody learns which part was right.
    throw new Refused(
      401,
      'bad_signature',
      'The signature is missing, wrong or older than 5 minutes. Compare the secret with SUBSCRIBER_<NAME>_SECRET at the bus, and the clocks.',
    );
  }
  return { body, isBatch };
}

/** @throws Refused 415 */
function requireType(headers: Headers): string {
  const [type = '', ...parameters] = (headers.get('content-type') ?? '').toLowerCase().split(';');
  const charset = parameters
    .map((parameter) => /^\s*charset="?([^"]*)"?\s*$/.exec(parameter)?.[1])
    .find(Boolean);
  const essence = type.trim();
  const isKnown = essence === EVENT || essence === BATCH;
  const isPlain = (headers.get('content-encoding') ?? 'identity').trim().toLowerCase() === 'identity';
  if (isKnown && isPlain && (charset === undefined || /^utf-?8$/.test(charset))) return essence;
  const accepted = `${EVENT}, ${BATCH}`;
  throw new Refused(
    415,
    'unsupported_media_type',
    `Events come uncompressed, in UTF-8, as ${EVENT} or ${BATCH}.`,
    { accept: accepted },
  );
}

/** Reads a body up to its limit, counted as it arrives. @throws Refused 413, 400, or 500 where somebody has read it */
async function readBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () =>
    new Refused(
      413,
      'body_too_large',
      `The body is longer than ${maxBytes} bytes: see maxBytes of the receiver.`,
      {
        connection: 'close',
      },
    );
  if (Number(request.headers.get('content-length')) > maxBytes) throw tooLarge();
  if (request.bodyUsed || request.body?.locked === true) {
    throw new Refused(
      500,
      'body_used',
      'The body was read before it came to the receiver, for example by a parser: pass on the request as it came.',
    );
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = request.body?.getReader();
  for (;;) {
    const chunk = await reader?.read().catch(() => {
      throw new Refused(400, 'incomplete_body', 'The body ended too early.');
    });
    if (!chunk?.value) return Buffer.concat(chunks, length);
    length += chunk.value.byteLength;
    // Not cancelled: Node would end the request's stream but not its source.
    if (length > maxBytes) throw tooLarge();
    chunks.push(chunk.value);
  }
}

/** Compares every signature with every key in constant time, over the bytes as they came. */
function isFromBus(request: Request, body: Uint8Array, keys: readonly KeyObject[]): boolean {
  try {
    const { timestamp, message, signatures } = standard.claimOf({
      headers: request.headers,
      body,
      url: request.url,
    });
    const seconds = Math.floor(Date.now() / SECOND);
    const isRecent = timestamp !== null && Math.abs(seconds - timestamp) <= TOLERANCE_SECONDS;
    return isRecent && isSigned(message, signatures, keys);
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}
