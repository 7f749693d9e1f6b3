import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';

import { visible } from '../lib/platform/visible.ts';

/** Cuts a text to a number of terminal cells, with `…` at the end. */
export function cutTo(width: number, text: string): string {
  if (stringWidth(text) <= width) return text;
  let kept = '';
  for (const { segment } of graphemes.segment(text)) {
    if (stringWidth(kept + segment) > width - 1) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

/** Cuts a text to a number of terminal cells, with `…` in its middle, so that both ends stay. */
export function cutMiddle(width: number, text: string): string {
  if (stringWidth(text) <= width) return text;
  const end = Math.floor((width - 1) / 2);
  let kept = '';
  for (const { segment } of [...graphemes.segment(text)].toReversed()) {
    if (stringWidth(segment + kept) > end) break;
    kept = segment + kept;
  }
  return cutTo(width - stringWidth(kept), text) + kept;
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Fills a text with spaces up to a number of terminal cells. */
export function padTo(width: number, text: string, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return align === 'left' ? text + space : space + text;
}

/** Breaks a text into lines. @param width in cells; null leaves the text in one line. */
export function wrapTo(width: number | null, text: string): string {
  return width === null ? text : wrapAnsi(text, Math.max(1, width));
}

/** As `wrapTo`, and breaks words that are longer than a line. */
export function hardWrapTo(width: number, text: string): string {
  return wrapAnsi(text, Math.max(1, width), { hard: true });
}

/** Breaks a text into lines, words that are longer than a line too, and keeps its spaces. */
export function foldTo(width: number, text: string): string {
  return wrapAnsi(text, Math.max(1, width), { hard: true, trim: false });
}

/** Writes a text behind another, and its further lines below its beginning. @param width of all, as `wrapTo` takes it. */
export function hang(before: string, text: string, width: number | null): string {
  const indent = stringWidth(before);
  const lines = wrapTo(width === null ? null : width - indent, text);
  return before + lines.replaceAll('\n', `\n${' '.repeat(indent)}`);
}

/**
 * Makes text from elsewhere safe to show. Payloads and errors can hold characters that move the cursor, ring the bell,
 * reverse the text or hide in it: each is shown as U+FFFD. Line breaks and tabs become spaces.
 *
 * Libraries remove escape sequences (`strip-ansi`, `stripVTControlCharacters`) but let lone controls, bidirectional
 * overrides and invisible characters pass; an operator must see that something was there.
 */
export function printable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(/\s+/gu, ' ').replaceAll(UNPRINTABLE, '\u{FFFD}');
  if (Array.isArray(value)) return value.map(printable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, (KEPT[name] ?? printable)(item)]),
  );
}

/** A payload is drawn as JSON, which escapes it; what a component answered keeps its line breaks. */
const KEPT: Readonly<Record<string, (item: unknown) => unknown>> = {
  payload: (item) => item,
  answer: (item) => (typeof item === 'string' ? visible(item) : printable(item)),
};

/** Controls, and characters that change how others are shown, but for the joiner of emoji. */
const UNPRINTABLE = /\p{Cc}|(?!\u200D)\p{Cf}|[\p{Cs}\u2028\u2029]/gu;
