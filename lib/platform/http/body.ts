import { MIMEType } from 'node:util';

import { Problem } from './problem.ts';

/** The media types of bodies: JSON, and the form of a page without script. */
export const mediaTypes = ['application/json', 'application/x-www-form-urlencoded'] as const;
/** Of `FormData` too. */
export const publicTypes = [...mediaTypes, 'multipart/form-data'] as const;
/** Of CloudEvents, one or several. */
export const eventTypes = ['application/cloudevents+json', 'application/cloudevents-batch+json'] as const;
export type MediaType = (typeof publicTypes)[number] | (typeof eventTypes)[number];

/** Whether the body is declared as a form. */
export function isForm({ headers }: Request): boolean {
  return isFormType(parseMediaType(headers.get('content-type') ?? '')?.essence);
}

export function isFormType(essence: string | undefined): boolean {
  return essence === 'application/x-www-form-urlencoded' || essence === 'multipart/form-data';
}

/** Requires a body that is declared as JSON in UTF-8. @throws Problem 415 `unsupported_media_type` */
export function requireJson(request: Request): void {
  requireMediaType(request, ['application/json']);
}

/**
 * Requires a body that is declared as one of these types, in UTF-8.
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
 * Reads a body up to its limit. A declared length is believed only if it exceeds the limit.
 *
 * @param limitBytes the longest accepted body.
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
 * Leaves the rest unread and closes the connection with the answer (RFC 9110, 15.5.14). The stream must not be
 * cancelled: Node would end the request's stream but not its source, so that the connection's next request hangs and a
 * late chunk crashes the process.
 */
function tooLong(limitBytes: number): Error {
  return new Problem('body_too_large', {
    detail: `The body is longer than ${limitBytes} bytes. Send less.`,
    headers: { connection: 'close' },
  });
}
