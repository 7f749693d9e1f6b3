import type * as z from 'zod';

import { readBody, requireMediaType } from './body.ts';
import type { MediaType } from './body.ts';
import type { Issue } from './problem-codes.ts';
import { Problem } from './problem.ts';

/** A body that was read but not yet parsed. */
export interface Content {
  readonly type: MediaType;
  readonly bytes: Uint8Array;
}

/**
 * Reads a JSON body and checks it against a schema.
 *
 * @throws Problem 415 or 413 as `readBody` does; 400 `validation_failed` with an issue for every wrong field.
 */
export async function readValidated<Value>(
  request: Request,
  schema: z.ZodType<Value>,
  limitBytes: number,
): Promise<Value> {
  return validated(await readContent(request, ['application/json'], limitBytes), schema);
}

/** @throws Problem 415 `unsupported_media_type`; 415, 413 or 400 as `readBody` does. */
export async function readContent(
  request: Request,
  taken: readonly MediaType[],
  limitBytes: number,
): Promise<Content> {
  const type = requireMediaType(request, taken);
  return { type, bytes: await readBody(request, limitBytes) };
}

/**
 * Checks a body against a schema. A form becomes an object of strings; of a repeated field, the last counts.
 *
 * @throws Problem 400 `validation_failed` with an issue for every wrong field.
 */
export function validated<Value>({ type, bytes }: Content, schema: z.ZodType<Value>): Value {
  const isForm = type === 'application/x-www-form-urlencoded';
  return requireValid(isForm ? parseForm(bytes) : parseJson(bytes), schema);
}

/**
 * Checks a value from outside, such as a query's fields, against a schema.
 *
 * @throws Problem 400 `validation_failed` with an issue for every wrong field.
 */
export function requireValid<Value>(value: unknown, schema: z.ZodType<Value>): Value {
  const parsed = schema.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  throw invalid(parsed.error.issues.map(issueOf));
}

/** Says what was expected and what was given, where the schema has no message of its own. */
function inWords(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${KINDS[issue.expected] ?? issue.expected}${got(issue.input)}`;
    case 'invalid_value':
      return `expected ${issue.values.map(String).join(' or ')}${got(issue.input)}`;
    case 'too_small':
      return issue.inclusive === false
        ? `expected a number above ${issue.minimum}${got(issue.input)}`
        : sizeOf('at least', Number(issue.minimum), issue.input);
    case 'too_big':
      return sizeOf('at most', Number(issue.maximum), issue.input);
    case 'unrecognized_keys':
      return `unknown fields: ${issue.keys.join(', ')}`;
    default:
      return undefined;
  }
}

const KINDS: Readonly<Record<string, string>> = {
  object: 'a JSON object',
  record: 'a JSON object',
  array: 'an array',
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  nonoptional: 'a value',
};

function sizeOf(bound: 'at least' | 'at most', size: number, value: unknown): string {
  const plural = size === 1 ? '' : 's';
  if (typeof value === 'string') return `expected ${bound} ${size} character${plural}, got ${value.length}`;
  if (Array.isArray(value)) return `expected ${bound} ${size} element${plural}, got ${value.length}`;
  return `expected ${bound} ${size}${got(value)}`;
}

/** Longer values are not repeated in the message. */
const LONGEST_GIVEN = 40;

function got(value: unknown): string {
  if (value === undefined) return ', got nothing';
  if (Array.isArray(value)) return ', got an array';
  if (value !== null && typeof value === 'object') return ', got an object';
  const written = JSON.stringify(value);
  // A text that could not be coerced to a number arrives as `NaN`.
  return Number.isNaN(value) || written.length > LONGEST_GIVEN ? '' : `, got ${written}`;
}

/** Invalid UTF-8 becomes replacement characters, percent-encoded or not, as the URL standard has it. */
function parseForm(bytes: Uint8Array): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(new TextDecoder().decode(bytes)));
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw invalid([{ path: '', pointer: '', code: 'invalid_json', message: 'expected JSON in UTF-8' }]);
  }
}

function invalid(issues: readonly Issue[]): Problem {
  const detail = issues.map(({ path, message }) => `${path || 'body'}: ${message}`).join('; ');
  return new Problem('validation_failed', { detail, issues });
}

function issueOf(issue: z.core.$ZodIssue): Issue {
  const steps = issue.path.map(String);
  return {
    path: steps.join('.'),
    pointer: steps.map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''),
    code: issue.code === 'invalid_format' ? `invalid_${issue.format}` : issue.code,
    message: issue.message,
  };
}
