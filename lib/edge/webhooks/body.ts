import type { ProblemCode } from '../../platform/http/problem-codes.ts';
import { isStorable } from '../../platform/storable.ts';
import { keepsNumbers } from './numbers.ts';

/** The reasons why a verified body cannot be stored. */
export const bodyProblems = [
  'invalid_utf8',
  'invalid_json',
  'not_an_object',
  'unsupported_text',
  'too_deep',
  'unsupported_number',
] as const satisfies readonly ProblemCode[];

export type BodyProblem = (typeof bodyProblems)[number];

export type ParsedBody =
  | { readonly ok: true; readonly body: Record<string, unknown> }
  | { readonly ok: false; readonly reason: BodyProblem };

/**
 * Parses a webhook's body into an object that Postgres can store as `jsonb`.
 *
 * A valid signature says nothing about the content. Everything refused here would make the insert fail (22P05, 22P02,
 * 54001, 22003), hence a 500 and days of retries, or would be stored as another number. No input makes it throw or run out
 * of stack.
 *
 * Store `JSON.stringify(body)` rather than the text: every finite JavaScript number fits `jsonb` (131,072 digits before
 * the point, 16,383 after), while the text may hold `1e-20000`, which does not.
 *
 * A key `__proto__` is data like any other: `JSON.parse` defines it as an own property.
 *
 * @param bytes - the body as received; the caller bounds its length.
 */
export function parseWebhookBody(bytes: Uint8Array): ParsedBody {
  const text = decodeUtf8(bytes);
  if (text === null) return { ok: false, reason: 'invalid_utf8' };
  const json = parseJson(text);
  if (!json) return { ok: false, reason: 'invalid_json' };
  const { value } = json;
  if (!isObject(value)) return { ok: false, reason: 'not_an_object' };
  const problem = firstProblemIn(value) ?? (keepsNumbers(text) ? null : 'unsupported_number');
  return problem ? { ok: false, reason: problem } : { ok: true, body: value };
}

/** The object itself is the first level. No payload of a provider has more than about ten. */
const MAX_DEPTH = 64;

/** Strict where `Buffer.toString` is not: an invalid byte is an error, a byte order mark is kept for JSON to refuse. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

function parseJson(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Walks iteratively, since a signed body may be nested deeper than the call stack. */
function firstProblemIn(root: Record<string, unknown>): BodyProblem | null {
  const pending: { value: unknown; depth: number }[] = [{ value: root, depth: 1 }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { value, depth } = next;
    if (typeof value === 'string' && !isStorable(value)) return 'unsupported_text';
    if (typeof value !== 'object' || value === null) continue;
    if (depth > MAX_DEPTH) return 'too_deep';
    if (!Object.keys(value).every(isStorable)) return 'unsupported_text';
    for (const child of Object.values(value)) pending.push({ value: child, depth: depth + 1 });
  }
  return null;
}
