import type * as z from 'zod';

import { isFormType, readBody, requireMediaType } from './body.ts';
import type { MediaType } from './body.ts';
import type { Issue } from './problem-codes.ts';
import { Problem } from './problem.ts';

/** A body that was read but not yet parsed. */
export interface Content {
  readonly type: MediaType;
  readonly bytes: Uint8Array;
  /** The fields of a form, or the problem of one that cannot be read. */
  readonly form?: Form | Problem;
}

interface Form {
  readonly texts: Readonly<Record<string, string>>;
  /** An issue for each file: no form may bring one. */
  readonly files: readonly Issue[];
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
  const bytes = await readBody(request, limitBytes);
  return isFormType(type)
    ? { type, bytes, form: await parseForm(bytes, request.headers.get('content-type') ?? '') }
    : { type, bytes };
}

/**
 * Checks a body against a schema. A form becomes an object of strings; of a repeated field, the last counts.
 *
 * @throws Problem 400 `validation_failed` with an issue for every wrong field.
 */
export function validated<Value>({ bytes, form }: Content, schema: z.ZodType<Value>): Value {
  if (form instanceof Problem) throw form;
  return form ? requireValid(form.texts, schema, form.files) : requireValid(parseJson(bytes), schema);
}

/**
 * Checks a value from outside, such as a query's fields, against a schema.
 *
 * @param known issues that were found before.
 * @throws Problem 400 `validation_failed` with an issue for every wrong field.
 */
export function requireValid<Value>(
  value: unknown,
  schema: z.ZodType<Value>,
  known: readonly Issue[] = [],
): Value {
  const parsed = schema.safeParse(value, { error: inWords });
  if (parsed.success && known.length === 0) return parsed.data;
  throw invalid([...known, ...(parsed.error?.issues.map(issueOf) ?? [])]);
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

/**
 * Parses a form as browsers write it. Invalid UTF-8 becomes replacement characters, percent-encoded or not.
 *
 * @param type the whole header, with the boundary of a multipart body.
 * @see https://fetch.spec.whatwg.org/#dom-body-formdata
 */
async function parseForm(bytes: Uint8Array, type: string): Promise<Form | Problem> {
  let fields: FormData;
  try {
    fields = await new Response(bytes.slice(), { headers: { 'content-type': type } }).formData();
  } catch {
    const message = 'expected a form as browsers send it';
    return invalid([{ path: '', pointer: '', code: 'invalid_form', message }]);
  }
  const texts = [...fields].filter((field): field is [string, string] => typeof field[1] === 'string');
  const files = [...fields].flatMap(([name, value]) => (isFile(value) ? [fileIssue(name)] : []));
  return { texts: Object.fromEntries(texts), files };
}

/** A browser sends an empty file without a name for a field that its visitor left alone. */
function isFile(value: string | File): boolean {
  return typeof value !== 'string' && (value.size > 0 || value.name !== '');
}

function fileIssue(name: string): Issue {
  const message = 'expected a text, got a file: this endpoint takes no files';
  return { path: name, pointer: pointerOf([name]), code: 'file_not_allowed', message };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw invalid([{ path: '', pointer: '', code: 'invalid_json', message: 'expected JSON in UTF-8' }]);
  }
}

/** Makes the problem that lists what is wrong with a request. */
export function invalid(issues: readonly Issue[]): Problem {
  const detail = issues.map(({ path, message }) => `${path || 'body'}: ${message}`).join('; ');
  return new Problem('validation_failed', { detail, issues });
}

function issueOf(issue: z.core.$ZodIssue): Issue {
  const steps = issue.path.map(String);
  return {
    path: steps.join('.'),
    pointer: pointerOf(steps),
    code: issue.code === 'invalid_format' ? `invalid_${issue.format}` : issue.code,
    message: issue.message,
  };
}

/** @see https://www.rfc-editor.org/rfc/rfc6901 */
function pointerOf(steps: readonly string[]): string {
  return steps.map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
