/** A part of a text, from `start` up to but not including `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A text in its plainest form, with the place of each character in the original. */
export interface Readable {
  readonly text: string;
  readonly starts: readonly number[];
  readonly ends: readonly number[];
}

/**
 * Normalizes a text: it removes case, accents, full-width letters, kinds of space and dash, invisible characters, and the
 * escapes of URLs, JSON and HTML.
 */
export function readable(text: string): Readable {
  let read = '';
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { 0: written, 1: plain, index } of text.matchAll(PIECE)) {
    const folded = plain?.toLowerCase() ?? fold(written);
    read += folded;
    for (let at = 0; at < folded.length; at += 1) {
      starts.push(plain ? index + at : index);
      ends.push(index + (plain ? at + 1 : written.length));
    }
  }
  return { text: read, starts, ends };
}

/** Normalizes a text without keeping the places of its characters. */
export function fold(text: string): string {
  if (PLAIN.test(text)) return text.toLowerCase();
  return text
    .replaceAll(ESCAPE, decodeEscape)
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[\p{M}\p{Cf}]/gu, '')
    .replaceAll(/[\s\p{Cc}]/gu, ' ')
    .replaceAll(/[\p{Pd}\u2212]/gu, '-')
    .replaceAll(/[æøßłđœðþŋŧı]/g, (letter) => LETTERS[letter] ?? letter);
}

/** Letters that do not decompose into a plain letter and an accent. */
const LETTERS: Readonly<Record<string, string>> = {
  æ: 'ae',
  ø: 'o',
  ß: 'ss',
  ł: 'l',
  đ: 'd',
  œ: 'oe',
  ð: 'd',
  þ: 'th',
  ŋ: 'n',
  ŧ: 't',
  ı: 'i',
};

/**
 * Percent-encoded bytes, also encoded twice; bytes as programs print them; escapes of JSON and HTML; UTF-8 letters that
 * were read as Latin-1 (`Ã¸`). A run of bytes is one character or several.
 */
const ESCAPE =
  /(?:%(?:25)*[0-9a-f]{2})+|(?:\\x[0-9a-f]{2})+|(?:\\u[0-9a-f]{4})+|\\[nrtbf]|Ã[\u0080-\u00bf]|&(?:nbsp|#\d{1,7}|#x[0-9a-f]{1,6}|[a-z](?:elig|ring|slash|uml|acute|grave|circ|tilde|cedil));/giu;

/** Text that needs no more than lower case. */
const PLAIN = /^[ !-$'-[\]-~]*$/;

/** An escape, a run of characters that need no decoding, or a single other character. */
const PIECE = new RegExp(`([ !-$'-[\\]-~]+)|${ESCAPE.source}|[^]`, 'giu');

const UTF8 = new TextDecoder('utf-8', { fatal: true });
const LATIN_1 = new TextDecoder('latin1');

function decodeEscape(escape: string): string {
  if (/^(?:%|\\x)/i.test(escape)) {
    return decodeBytes(escape.replaceAll(/%(?:25)*(?=[0-9a-f]{2})|\\x/gi, '').match(/../g) ?? []);
  }
  if (/^\\u/i.test(escape)) return decodeUtf16(escape.slice(2).split(/\\u/i));
  if (escape.toLowerCase().startsWith('ã')) return decodeUtf16([(escape.charCodeAt(1) + 0x40).toString(16)]);
  const [, hex, digits, letter] = /^&(?:nbsp|#x([0-9a-f]+)|#(\d+)|([a-z]e?)[a-z]+);$/i.exec(escape) ?? [];
  if (letter) return letter;
  const point = hex ? Number.parseInt(hex, 16) : Number(digits);
  return point > 0 && point <= 0x10_ff_ff ? String.fromCodePoint(point) : ' ';
}

function decodeBytes(bytes: readonly string[]): string {
  const values = Uint8Array.from(bytes, (byte) => Number.parseInt(byte, 16));
  try {
    return UTF8.decode(values);
  } catch {
    return LATIN_1.decode(values);
  }
}

function decodeUtf16(units: readonly string[]): string {
  return String.fromCharCode(...units.map((unit) => Number.parseInt(unit, 16)));
}
