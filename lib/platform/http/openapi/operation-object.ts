import { STATUS_CODES } from 'node:http';

import * as z from 'zod';

import { headers } from '../answer-headers.ts';
import type { HeaderName } from '../answer-headers.ts';
import { FORM_TYPE, HTML_TYPE, JSON_TYPE, MULTIPART_TYPE, PROBLEM_TYPE } from '../operation.ts';
import type { Access, Answer, EventStream, Example, Operation, Parameter } from '../operation.ts';
import { problemCodes } from '../problem-codes.ts';
import type { ProblemCode } from '../problem-codes.ts';
import { problem } from '../problem-shape.ts';
import type { SchemaWriter } from './schema-writer.ts';

const ORIGIN: Parameter = {
  in: 'header',
  name: 'Origin',
  description: 'The origin of the page that calls. Browsers send it; programs leave it out.',
  schema: z.string(),
};

/** Writes operations in OpenAPI's form, with each example split into parameters, body and answer. */
export class OperationWriter {
  readonly #schemas: SchemaWriter;

  constructor(schemas: SchemaWriter) {
    this.#schemas = schemas;
  }

  write(operation: Operation): object {
    const { id, tag, summary, description, access, body, answers } = operation;
    const parameters = [...(operation.cors === 'listed' ? [ORIGIN] : []), ...(operation.parameters ?? [])];
    const written = answers.map((answer) => [answer.status, this.#answer(operation, answer)] as const);
    return {
      operationId: id,
      tags: [tag],
      summary,
      ...(description !== undefined && { description }),
      security: securityOf(access),
      ...(parameters.length > 0 && {
        parameters: parameters.map((parameter) => this.#parameter(operation, parameter)),
      }),
      ...(body && { requestBody: this.#requestBody(operation, body) }),
      responses: {
        ...Object.fromEntries(written),
        ...Object.fromEntries(
          statusesOf(operation).map((status) => [status, this.#problem(operation, status)]),
        ),
        default: { $ref: '#/components/responses/Failure' },
      },
    };
  }

  #parameter(operation: Operation, { in: place, name, description, schema, isList }: Parameter): object {
    return {
      in: place,
      name,
      ...(description !== undefined && { description }),
      ...(place === 'path' && { required: true }),
      schema: this.#schemas.write(schema),
      // Values separated by commas, instead of one parameter for each.
      ...(isList && { style: 'form', explode: false }),
      ...examplesOf(operation, ({ parameters }) => valueOf(parameters?.[name])),
    };
  }

  #requestBody(
    operation: Operation,
    {
      schema,
      isOptional = false,
      forms,
      byType = { [JSON_TYPE]: schema },
      limitBytes,
    }: NonNullable<Operation['body']>,
  ): object {
    const content = Object.entries(byType).map(([type, one]) => [
      type,
      {
        schema: this.#schemas.write(one),
        ...examplesOf(operation, (example) =>
          (example.type ?? type) === type ? valueOf(example.json) : null,
        ),
      },
    ]);
    const form = forms && {
      schema: this.#schemas.write(schema),
      ...examplesOf(operation, (example) => valueOf(example.form)),
    };
    return {
      required: !isOptional,
      content: {
        ...Object.fromEntries(content),
        ...(form && {
          [FORM_TYPE]: form,
          ...(operation.cors && { [MULTIPART_TYPE]: { schema: form.schema } }),
        }),
      },
      'x-limit-bytes': limitBytes,
    };
  }

  #answer(operation: Operation, answer: Answer): object {
    const { status, description, content = {}, headers: always = [], mayHave = [] } = answer;
    const types = Object.entries(content).map(([type, schema]) => [
      type,
      {
        ...this.#content(schema),
        ...examplesOf(operation, ({ answer: { status: answered, type: of, value } }) =>
          answered === status && of === type ? (valueOf(value) ?? {}) : null,
        ),
      },
    ]);
    const bodiless = Object.entries(operation.examples ?? {}).flatMap(
      ([
        name,
        {
          answer: { status: answered, type },
        },
      ]) => (answered === status && type === undefined ? [name] : []),
    );
    return {
      description,
      headers: headersOf(operation, [...always, ...(operation.isLimited ? LIMITS : [])], mayHave),
      ...(types.length > 0 && { content: Object.fromEntries(types) }),
      ...(bodiless.length > 0 && { 'x-examples': bodiless }),
    };
  }

  #content(schema: z.ZodType | EventStream): object {
    if (schema instanceof z.ZodType) return { schema: this.#schemas.write(schema) };
    const events = Object.entries(schema.events).map(([name, data]) => [name, this.#schemas.write(data)]);
    return { schema: { type: 'string' }, 'x-events': Object.fromEntries(events) };
  }

  /** Writes the problems of one status, with their codes. */
  #problem(operation: Operation, status: number): object {
    const codes = codesOf(operation, status);
    const narrowed = { properties: { status: { const: status }, code: { enum: codes } } };
    return {
      description: `${STATUS_CODES[status]}: ${codes.map((code) => `\`${code}\``).join(', ')}.`,
      headers: headersOf(operation, ...problemHeaders(operation, status)),
      content: {
        [PROBLEM_TYPE]: {
          schema: { allOf: [this.#schemas.write(problem), narrowed] },
          ...examplesOf(operation, ({ answer }) => (answer.status === status ? valueOf(answer.value) : null)),
        },
        ...(operation.hasPages && { [HTML_TYPE]: { schema: { type: 'string' } } }),
      },
    };
  }
}

function securityOf(access: Access): readonly Readonly<Record<string, readonly string[]>>[] {
  switch (access) {
    case 'anyone':
      return [];
    case 'provider':
    case 'producer':
      return [{ webhookSignature: [] }];
    case 'cron':
      return [{ cronSecret: [] }];
    default:
      return [{ operatorToken: [access] }, { operatorSession: [access] }];
  }
}

/** Null leaves an example out. */
type Written = { readonly value?: unknown } | null;

const valueOf = (value: unknown): Written => (value === undefined ? null : { value });

function examplesOf(
  { examples = {} }: Operation,
  write: (example: Example) => Written,
): { readonly examples?: Readonly<Record<string, object>> } {
  const written = Object.entries(examples).flatMap(([name, example]) => {
    const given = write(example);
    return given ? [[name, { summary: example.summary, ...given }] as const] : [];
  });
  return written.length > 0 ? { examples: Object.fromEntries(written) } : {};
}

function statusesOf({ problems }: Operation): readonly number[] {
  return [...new Set(problems.map((code) => problemCodes[code].status))].toSorted(
    (one, other) => one - other,
  );
}

function codesOf({ problems }: Operation, status: number): readonly ProblemCode[] {
  const codes = problems.filter((code) => problemCodes[code].status === status);
  // A setting that can be missing can also be wrong.
  return status === 503 ? [...codes, 'misconfigured'] : codes;
}

const LIMITS: readonly HeaderName[] = ['RateLimit', 'RateLimit-Policy'];

/** The headers that problems of a status always have, and those that only some have. */
function problemHeaders(
  { access, isLimited }: Operation,
  status: number,
): [always: readonly HeaderName[], sometimes: readonly HeaderName[]] {
  // Calls are counted after the checks of type and length and before that of the body; a sign-in is counted first.
  const limits = isLimited ? LIMITS : [];
  switch (status) {
    case 401:
      return access === 'provider' || access === 'producer' ? [[], []] : [['WWW-Authenticate'], limits];
    case 403:
      return [[], access === 'anyone' ? limits : ['WWW-Authenticate']];
    case 413:
      return [[], limits];
    case 415:
      return [[], ['Accept', 'Accept-Encoding', ...limits]];
    case 429:
      return [['Retry-After', ...LIMITS], []];
    case 502:
      return [[], ['Retry-After', ...limits]];
    case 503:
      return [['Retry-After'], limits];
    default:
      return [[], limits];
  }
}

/** @param always headers beyond those of every answer. @param sometimes optional headers. */
function headersOf(
  { cors, hasPages }: Operation,
  always: readonly HeaderName[],
  sometimes: readonly HeaderName[] = [],
): Readonly<Record<string, object>> {
  const required = [
    'X-Request-Id',
    'Cache-Control',
    'X-Content-Type-Options',
    ...(cors === 'any' ? ['Access-Control-Allow-Origin' as const] : []),
    ...(cors === 'listed' || hasPages ? ['Vary' as const] : []),
    ...always,
  ] as const;
  const optional = [...(cors === 'listed' ? ['Access-Control-Allow-Origin' as const] : []), ...sometimes];
  return Object.fromEntries([
    ...required.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    ...optional.map((name) => [name, { ...headers[name], required: false }]),
  ]);
}

/** The documented headers, as components. */
export function headerComponents(): Readonly<Record<string, object>> {
  return Object.fromEntries(
    // Not every answer that may carry a cookie has one to carry.
    Object.entries(headers).map(([name, header]) => [name, { ...header, required: name !== 'Set-Cookie' }]),
  );
}
