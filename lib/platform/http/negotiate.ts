import { MIMEType } from 'node:util';

import { isForm } from './body.ts';
import { Problem } from './problem.ts';

/**
 * Whether the caller prefers a page to JSON: only if it ranks `text/html` strictly above `application/json`, as
 * browsers do. Programs send no `Accept`, accept anything or ask for JSON.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9110#section-12.5.1
 */
export function wantsHtml(headers: Headers): boolean {
  const { html, json } = qualitiesOf(headers);
  return html > json;
}

/**
 * Whether a visitor sees the answer itself, since a page sent its form without script. A script that sends a form gets
 * JSON, unless it asks for a page: `fetch` accepts anything, a browser that follows a form prefers `text/html`.
 *
 * @see https://www.w3.org/TR/fetch-metadata/#sec-fetch-mode-header
 */
export function wantsPage(request: Request): boolean {
  const { headers } = request;
  const { html, json } = qualitiesOf(headers);
  if (html !== json) return html > json;
  const mode = headers.get('sec-fetch-mode') ?? (headers.has('accept') ? 'cors' : 'navigate');
  return mode === 'navigate' && isForm(request);
}

/** Requires a caller that accepts HTML or JSON. @throws Problem 406 `not_acceptable` */
export function requireAcceptable(headers: Headers): void {
  const { html, json } = qualitiesOf(headers);
  if (html > 0 || json > 0) return;
  throw new Problem('not_acceptable');
}

/** From 0 (not accepted) to 1. */
interface Qualities {
  readonly html: number;
  readonly json: number;
}

/** Browsers send about 140 characters. A longer header counts as absent. */
const LONGEST = 2000;

function qualitiesOf(headers: Headers): Qualities {
  const accept = headers.get('accept') ?? '';
  const ranges = accept.length > LONGEST ? [] : elementsOf(accept).flatMap(rangeOf);
  if (ranges.length === 0) return { html: 1, json: 1 };
  return {
    html: qualityOf('text', 'html', ranges),
    json: qualityOf('application', 'json', ranges),
  };
}

/** Splits a list at its commas, except within quotes. */
function elementsOf(list: string): readonly string[] {
  return list.match(/(?:[^",]|"(?:[^"\\]|\\.)*"|")+/g) ?? [];
}

interface MediaRange {
  readonly type: MIMEType;
  readonly quality: number;
}

/** @returns an empty list for an invalid media range, or a quality that is not a number from 0 to 1. */
function rangeOf(element: string): readonly MediaRange[] {
  try {
    const type = new MIMEType(element);
    const quality = type.params.get('q') ?? '1';
    // Java's HTTP client writes `.2`.
    return /^(0?\.\d+|0\.?|1(\.0*)?)$/.test(quality) ? [{ type, quality: Number(quality) }] : [];
  } catch {
    return [];
  }
}

/** The quality of the most specific range that matches the type; of equals the first. */
function qualityOf(type: string, subtype: string, ranges: readonly MediaRange[]): number {
  const fitting = ranges
    .map((range) => ({ ...range, closeness: closenessOf(range.type, type, subtype) }))
    .filter(({ closeness }) => closeness > 0)
    .toSorted((one, other) => other.closeness - one.closeness);
  return fitting[0]?.quality ?? 0;
}

/** @returns 0 for a range that does not match the type. */
function closenessOf(range: MIMEType, type: string, subtype: string): number {
  if (range.essence === '*/*') return 1;
  if (range.type !== type) return 0;
  if (range.subtype === '*') return 2;
  const parameters = [...range.params].filter(([name]) => name !== 'q');
  // Our answers have only this parameter: `text/html;level=1` is a different type.
  const isOurs = parameters.every(([name, value]) => name === 'charset' && /^utf-?8$/i.test(value));
  return range.subtype === subtype && isOurs ? 3 + parameters.length : 0;
}
