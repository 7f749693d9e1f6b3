import { MIMEType } from 'node:util';

import { Problem } from './problem.ts';

/** How a body may be written: JSON, or what a page without script makes of a form. */
export const mediaTypes = ['application/json', 'application/x-www-form-urlencoded'] as const;
export type MediaType = (typeof mediaTypes)[number];

/** Requires that the body is declared to be JSON in UTF-8. @throws Problem 415 `unsupported_media_type` */
export function requireJson(request: Request): void {
  requireMediaType(request, ['application/json']);
}

/**
 * Requires that the body is declared to be of one of these types, in UTF-8.
 *
 * @throws Problem 415 `unsupported_media_type`
 */
export function requireMediaType(request: Request, taken: readonly MediaType[]): MediaType {
  const type = parseMediaType(request.headers.get('content-type') ?? '');
  const charset = type?.params.get('charset') ?? 'utf-8';
  const found = taken.find((essence) => essence === type?.essence);
  if (found && /^utf-?8$/i.test(charset)) return found;
  const accept = taken.join(', ');
  const right = taken.length === 1 ? `JSON in UTF-8 as ${accept}` : `UTF-8 as one of these types: ${accept}`;
  throw new Problem('unsupported_media_type', {
    detail: `The content-type is not supported. Send ${right}.`,
    headers: { accept },
  });
}

/**
 * Reads a body to its end, and no further than its limit: what it declares of its length is believed only where that
 * refuses it.
 *
 * @param limitBytes the longest body that is taken.
 * @returns the bytes as received; none when there is no body.
 * @throws Problem 415 `unsupported_encoding`, 413 `body_too_large`, 400 `incomplete_body`
 */
export async function readBody(request: Request, limitBytes: number): Promise<Uint8Array> {
  requireIdentity(request.headers);
  const stream = request.body;
  if (!stream) return new Uint8Array();
  if (Number(request.headers.get('content-length')) > limitBytes) throw tooLong(limitBytes);
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let chunk = await nextOf(reader); chunk; chunk = await nextOf(reader)) {
    length += chunk.byteLength;
    if (length > limitBytes) throw tooLong(limitBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

function parseMediaType(text: string): MIMEType | null {
  try {
    return new MIMEType(text);
  } catch {
    return null;
  }
}

/** A few hundred compressed bytes can stand for gigabytes, and a signature is over the bytes that were sent. */
function requireIdentity(headers: Headers): void {
  const encoding = headers.get('content-encoding')?.trim().toLowerCase() || 'identity';
  if (encoding === 'identity') return;
  throw new Problem('unsupported_encoding', { headers: { 'accept-encoding': 'identity' } });
}

async function nextOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | undefined> {
  try {
    return (await reader.read()).value;
  } catch (cause) {
    throw new Problem('incomplete_body', { cause });
  }
}

/**
 * The rest is left unread, and the connection that it is on ends with the answer (RFC 9110, 15.5.14). It must not be
 * cancelled: Node then ends the request's stream but not what feeds it, so that the next request of the connection waits
 * for nothing, and the process goes down for a piece that comes after the end.
 */
function tooLong(limitBytes: number): Error {
  return new Problem('body_too_large', {
    detail: `The body is longer than ${limitBytes} bytes. Send less.`,
    headers: { connection: 'close' },
  });
}
