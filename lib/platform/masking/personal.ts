import { knownSpans } from './known-texts.ts';
import { patternSpans } from './personal-patterns.ts';
import { readable } from './readable.ts';
import type { Span } from './readable.ts';

/**
 * Removes personal data from a text written elsewhere, such as an error message, in any case, spacing or encoding.
 *
 * @param known personal data that may occur in it. Anything that looks like an e-mail address, a national id, a telephone
 *   number, an account or a card is removed as well.
 */
export function maskPersonalData(text: string, known: readonly string[]): string {
  const message = readable(text);
  const spans = [...patternSpans(message.text), ...knownSpans(message.text, known)];
  const places = spans.map(({ start, end }) => ({
    start: message.starts[start] ?? 0,
    end: message.ends[end - 1] ?? text.length,
  }));
  return maskSpans(text, places);
}

/** Whether a text has some of the known personal data, or anything that looks like personal data. */
export function hasPersonalData(text: string, known: readonly string[] = []): boolean {
  return maskPersonalData(text, known) !== text;
}

function maskSpans(text: string, places: readonly Span[]): string {
  let masked = '';
  let from = 0;
  for (const { start, end } of places.toSorted((one, other) => one.start - other.start)) {
    if (start >= from) masked += `${text.slice(from, start)}[hidden]`;
    from = Math.max(from, end);
  }
  return masked + text.slice(from);
}
