import { maskPersonalData } from './masking/personal.ts';
import { storable } from './storable.ts';
import { SECOND } from './time.ts';

/** Enough for a sentence, a JSON problem or the top of a stack; an operator who needs more looks into that component. */
const KEPT_BYTES = 2048;

/** More than is kept, so that personal data is known before it is cut. */
const READ_BYTES = 2 * KEPT_BYTES;

/** The status has decided the outcome already: a body that trickles must not hold up its lane. */
const READ_MS = 1 * SECOND;

/**
 * Reads the beginning of an answer that refused a request, as operators may see it: without personal data. A binary body
 * is named, not kept.
 *
 * @param known personal data that the answer may repeat. Anything that looks like personal data is removed as well.
 * @returns null for an answer without a body.
 */
export async function refusalIn(response: Response, known: readonly string[]): Promise<string | null> {
  const { bytes, isWhole } = await beginningOf(response, READ_BYTES, READ_MS);
  return bytes.byteLength === 0 ? null : keptText(response.headers, bytes, isWhole, known);
}

/** Turns the first bytes of a body into the text that is kept. */
function keptText(headers: Headers, bytes: Uint8Array, isWhole: boolean, known: readonly string[]): string {
  const type = headers.get('content-type') ?? '';
  const text = decoded(bytes, type);
  if (BINARY_TYPE.test(type) || isBinary(text)) return binaryWords(type, headers, bytes, isWhole);
  // The dots mark a word that may be the beginning of a personal one.
  const masked = maskPersonalData(isWhole ? text : `${text}...`, known);
  return cutToBytes(storable(isWhole ? masked : masked.replace(/\.\.\.$/, '…'), '\u2400'));
}

/** The first bytes of a body. */
interface Beginning {
  readonly bytes: Uint8Array;
  readonly isWhole: boolean;
  /** The error that reading ended with, such as a lost connection; null without one. */
  readonly error: unknown;
}

/**
 * Reads a body until it ends, until there are enough bytes, or until the time is up, and closes the connection of what is
 * longer. The bytes are counted after decompression, so a small body that grows without end is cut too.
 */
export async function beginningOf(
  { body }: Response,
  mostBytes: number,
  mostMs: number | null = null,
): Promise<Beginning> {
  if (!body) return { bytes: new Uint8Array(), isWhole: true, error: null };
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let timer: NodeJS.Timeout | undefined;
  const timeIsUp = new Promise<null>((resolve) => {
    if (mostMs !== null) timer = setTimeout(() => resolve(null), mostMs);
  });
  let [length, isWhole] = [0, false];
  let error: unknown = null;
  try {
    while (length <= mostBytes) {
      const read = await Promise.race([reader.read(), timeIsUp]);
      isWhole = read?.done === true;
      if (!read?.value) break;
      chunks.push(read.value);
      length += read.value.byteLength;
    }
  } catch (lost) {
    error = lost;
  }
  clearTimeout(timer);
  void reader.cancel().catch(() => undefined);
  return {
    bytes: Buffer.concat(chunks).subarray(0, mostBytes),
    isWhole: isWhole && length <= mostBytes,
    error,
  };
}

/** By its charset, else as UTF-8. Bytes that are no text become U+FFFD. */
function decoded(bytes: Uint8Array, type: string): string {
  const charset = /charset="?([\w:-]+)/i.exec(type)?.[1] ?? 'utf-8';
  // The last character may have been cut: as part of a stream it is left out.
  const decode = (name: string) => new TextDecoder(name).decode(bytes, { stream: true });
  try {
    return decode(charset);
  } catch {
    return decode('utf-8');
  }
}

const BINARY_TYPE = /^\s*(?:(?:image|audio|video|font)\/(?!svg\+xml)|application\/(?:pdf|zip|gzip|wasm)\b)/i;

/** Half of random bytes are no text. A text with a few control characters, or in a wrong charset, stays well below. */
const BINARY_SHARE = 0.35;

function isBinary(text: string): boolean {
  const noText = Array.from(text).filter((character) => !isText(character.codePointAt(0)!)).length;
  return noText > BINARY_SHARE * text.length;
}

/** Whether texts have such a character: also those for terminals, with their bells and escape sequences. */
function isText(code: number): boolean {
  if (code < 0x20) return (code >= 0x07 && code <= 0x0d) || code === 0x1b;
  return code !== 0x7f && code !== 0xfffd;
}

function binaryWords(type: string, headers: Headers, { byteLength }: Uint8Array, isWhole: boolean): string {
  const [name = ''] = /^[\w.+-]+\/[\w.+-]+/.exec(type.trim()) ?? [];
  const declared = headers.get('content-encoding') === null ? headers.get('content-length') : null;
  const length = isWhole ? byteLength : /^\d{1,15}$/.test(declared ?? '') ? Number(declared) : null;
  const size = length === null ? `more than ${byteLength}` : String(length);
  return `[a binary body${name && ` of type ${name}`}, ${size} bytes]`;
}

/** Cuts a text to the bytes that are kept, between two characters. */
function cutToBytes(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= KEPT_BYTES) return text;
  const mark = '…';
  return (
    new TextDecoder().decode(bytes.subarray(0, KEPT_BYTES - Buffer.byteLength(mark)), { stream: true }) + mark
  );
}
