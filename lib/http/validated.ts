import type * as z from 'zod';

import { readBody, requireMediaType } from './body.ts';
import type { MediaType } from './body.ts';
import { badRequest } from './problem.ts';
import type { Issue } from './problem.ts';

/** A body that was read, and not yet looked at. */
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
 * Checks what was read against a schema. A form is an object of strings; of a field that is there twice, the last.
 *
 * @throws Problem 400 `validation_failed` with an issue for every wrong field.
 */
export function validated<Value>({ type, bytes }: Content, schema: z.ZodType<Value>): Value {
  return requireValid(type === 'application/json' ? parseJson(bytes) : parseForm(bytes), schema);
}

/**
 * Checks a value from outside, such as a query's fields, against a schema.
 *
 * @throws Problem 400 `validation_failed` with an issue for every wrong field.
 */
export function requireValid<Value>(value: unknown, schema: z.ZodType<Value>): Value {
  const parsed = schema.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(issueOf);
  throw badRequest(
    'validation_failed',
    issues.map(({ path, message }) => `${path || 'body'}: ${message}`).join('; '),
    {
      issues,
    },
  );
}

/** What to write, where a schema does not say it itself: zod's own words say what is wrong, in words of TypeScript. */
function inWords(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return `write ${KINDS[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `write ${issue.values.map(String).join(' or ')}`;
    case 'too_small':
      return issue.inclusive === false
        ? `write a number above ${issue.minimum}`
        : `write ${sizeOf(issue.origin, Number(issue.minimum), 'at least')}`;
    case 'too_big':
      return `write ${sizeOf(issue.origin, Number(issue.maximum), 'at most')}`;
    case 'unrecognized_keys':
      return `leave out ${issue.keys.join(', ')}: there is no such field`;
    default:
      return undefined;
  }
}

const KINDS: Readonly<Record<string, string>> = {
  object: 'a JSON object',
  record: 'a JSON object',
  array: 'a list',
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
};

function sizeOf(origin: string, size: number, bound: 'at least' | 'at most'): string {
  if (origin === 'array' || origin === 'set') return `${bound} ${size} ${size === 1 ? 'entry' : 'entries'}`;
  if (origin === 'string') return `${bound} ${size} ${size === 1 ? 'character' : 'characters'}`;
  return `a number of ${bound} ${size}`;
}

/** Bytes that are no UTF-8 become replacement characters, percent-encoded or not: that is how forms are read. */
function parseForm(bytes: Uint8Array): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(new TextDecoder().decode(bytes)));
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw badRequest('validation_failed', 'body: write JSON in UTF-8', {
      issues: [{ path: '', pointer: '', code: 'invalid_json', message: 'write JSON in UTF-8' }],
    });
  }
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
