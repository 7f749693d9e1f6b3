import { stripVTControlCharacters } from 'node:util';

/**
 * How many cells of a terminal a text takes: signs of the east and pictures take two, what is put onto a letter none,
 * and colours none.
 */
export function widthOf(text: string): number {
  let width = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text)))
    width += WIDE.test(segment) ? 2 : 1;
  return width;
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
const WIDE =
  /^(?:\p{Emoji_Presentation}|\p{Extended_Pictographic}\u{FE0F}|[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6])/u;

/** The text, or as much of it as fits with `…` behind it. */
export function cutTo(width: number, text: string): string {
  if (widthOf(text) <= width) return text;
  let kept = '';
  for (const { segment } of graphemes.segment(text)) {
    if (widthOf(kept + segment) > width - 1) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

export function padTo(width: number, text: string, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - widthOf(text)));
  return align === 'left' ? text + space : space + text;
}

/** Breaks words into lines. @param width null leaves them in one. */
export function wrapTo(width: number | null, text: string, indent = ''): string {
  if (width === null) return indent + text;
  const lines: string[] = [];
  let line = indent;
  for (const word of text.split(' ')) {
    const longer = line === indent ? indent + word : `${line} ${word}`;
    if (widthOf(longer) > width && line !== indent) {
      lines.push(line);
      line = indent + word;
    } else line = longer;
  }
  return [...lines, line].join('\n');
}

/**
 * Makes what came from elsewhere safe to show: what strangers put into payloads and errors must not move the cursor,
 * ring, turn the text round or hide in it. Line breaks and tabs become spaces.
 */
export function printable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(/\s+/gu, ' ').replaceAll(UNPRINTABLE, '\u{FFFD}');
  if (Array.isArray(value)) return value.map(printable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, printable(item)]));
}

/** JSON that is safe to show: the controls that JSON itself lets through are escaped. */
export function printableJson(value: unknown, indent?: number): string {
  const escaped = (sign: string) =>
    Array.from(
      { length: sign.length },
      (_, index) => `\\u${sign.charCodeAt(index).toString(16).padStart(4, '0')}`,
    ).join('');
  const json = JSON.stringify(value, null, indent);
  // The line breaks between fields are ours.
  return json.replaceAll(UNPRINTABLE, (sign) => (sign === '\n' ? sign : escaped(sign)));
}

/** Controls, and what changes how other signs are shown; not what joins emoji. */
const UNPRINTABLE = /\p{Cc}|(?!\u200D)\p{Cf}|[\p{Cs}\u2028\u2029]/gu;
