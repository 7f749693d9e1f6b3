import type { z } from 'zod';

import type { Scope } from '../scopes.ts';
import type { HeaderName } from './answer-headers.ts';
import { problemCodes, problemValue } from './problem-codes.ts';
import type { ProblemCode } from './problem-codes.ts';

export type { Scope } from '../scopes.ts';

/** One method of one path, as callers see it. */
export interface Operation {
  /** Names it for generated clients. */
  readonly id: string;
  readonly method: 'get' | 'post';
  /** With parameters in braces. */
  readonly path: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  readonly access: Access;
  readonly parameters?: readonly Parameter[];
  readonly body?: Body;
  readonly answers: readonly Answer[];
  /** Its problems. `internal_error`, and `misconfigured` next to other 503s, are implied. */
  readonly problems: readonly ProblemCode[];
  /** Whether calls are counted for each visitor and reported in headers. */
  readonly isLimited?: boolean;
  /** Callers can't name their requests or continue their traces here; see `guardedEndpoint`. */
  readonly isAnonymous?: boolean;
  /** The other origins whose pages may call: the listed ones, or any. */
  readonly cors?: 'listed' | 'any';
  /** Whether browsers get problems as pages. */
  readonly hasPages?: boolean;
  /** Each name describes its example. Those of the console's routes are in `dev/example-requests.ts`. */
  readonly examples?: Readonly<Record<string, Example>>;
}

export type Tag =
  | 'Chat'
  | 'Inquiry'
  | 'Health'
  | 'Webhooks'
  | 'Event bus'
  | 'Relay'
  | 'Sign-in'
  | 'Descriptions';

/** Who may call: anyone, providers and producers that sign, the cron, or operators whose token has the scope. */
export type Access = 'anyone' | 'provider' | 'producer' | 'cron' | Scope;

export interface Parameter {
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
  readonly description?: string;
  readonly schema: z.ZodType;
  /** Whether it is a list, written with commas. */
  readonly isList?: boolean;
}

interface Body {
  readonly schema: z.ZodType;
  /** Whether a request may come without one. */
  readonly isOptional?: boolean;
  /** Whether forms are accepted in addition to JSON; of `multipart/form-data` too, where other pages may call. */
  readonly forms?: boolean;
  /** The media types in place of JSON, each with its shape. */
  readonly byType?: Readonly<Record<string, z.ZodType>>;
  readonly limitBytes: number;
}

export interface Answer {
  readonly status: number;
  readonly description: string;
  /** Bodies by media type; left out without a body. */
  readonly content?: Readonly<Record<string, z.ZodType | EventStream>>;
  /** Headers beyond those of every answer. */
  readonly headers?: readonly HeaderName[];
  readonly mayHave?: readonly HeaderName[];
}

/** Server-sent events by name, each with the shape of its data. */
export interface EventStream {
  readonly events: Readonly<Record<string, z.ZodType>>;
}

/** A request and its answer. */
export interface Example {
  readonly summary: string;
  /** Values of parameters. */
  readonly parameters?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  readonly json?: unknown;
  /** Its media type, where the body has several. */
  readonly type?: string;
  readonly form?: Readonly<Record<string, string>>;
  readonly answer: ExampleAnswer;
}

interface ExampleAnswer {
  readonly status: number;
  /** Undefined for an answer without a body. */
  readonly type?: string;
  readonly value?: unknown;
}

export const JSON_TYPE = 'application/json';
export const HTML_TYPE = 'text/html';
export const CSV_TYPE = 'text/csv';
export const FORM_TYPE = 'application/x-www-form-urlencoded';
export const MULTIPART_TYPE = 'multipart/form-data';
export const PROBLEM_TYPE = 'application/problem+json';

/** A successful answer. Without a value it is one that the contract test has recorded: see `dev/descriptions.ts`. */
export function answered(value?: unknown, type = JSON_TYPE): ExampleAnswer {
  return { status: 200, type, value };
}

/** A problem as an answer. */
export function refused(code: ProblemCode, options: Parameters<typeof problemValue>[1] = {}): ExampleAnswer {
  return { status: problemCodes[code].status, type: PROBLEM_TYPE, value: problemValue(code, options) };
}

/** A refusal with one issue. @param path the name of one field. */
export function invalid(path: string, code: string, message: string): ExampleAnswer {
  return refused('validation_failed', {
    detail: `${path}: ${message}`,
    issues: [{ path, pointer: `/${path}`, code, message }],
  });
}
