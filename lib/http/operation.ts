import type { z } from 'zod';

import type { HeaderName } from './answer-headers.ts';
import { problemCodes, problemValue } from './problem-codes.ts';
import type { ProblemCode } from './problem-codes.ts';

/** One method of one path, as callers need to know it. */
export interface Operation {
  /** Names it for links and for generated clients. */
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
  /** What it may answer besides; `internal_error`, and `misconfigured` beside others of 503, go without saying. */
  readonly problems: readonly ProblemCode[];
  /** Counts how often one visitor calls, and says so in headers. */
  readonly isLimited?: boolean;
  /** Callers can't name their requests or continue their traces here; see `guardedEndpoint`. */
  readonly isAnonymous?: boolean;
  /** Answers pages of other origins: of those that are listed, or of any. */
  readonly cors?: 'listed' | 'any';
  /** Writes problems as pages for browsers. */
  readonly hasPages?: boolean;
  /** By names that say what they are examples of. */
  readonly examples: Readonly<Record<string, Example>>;
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

/** A right that an operator's token gives. */
export type Scope = 'event-bus:read' | 'event-bus:replay' | 'event-bus:reveal';

/** Who may call: anyone, providers that sign, the cron, or operators whose token has the scope. */
export type Access = 'anyone' | 'provider' | 'cron' | Scope;

export interface Parameter {
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
  readonly description?: string;
  readonly schema: z.ZodType;
  /** A list is written with commas. */
  readonly isList?: boolean;
}

interface Body {
  readonly schema: z.ZodType;
  /** Takes forms besides JSON. */
  readonly forms?: boolean;
  readonly limitBytes: number;
}

export interface Answer {
  readonly status: number;
  readonly description: string;
  /** By media type; none: no body. */
  readonly content?: Readonly<Record<string, z.ZodType | EventStream>>;
  /** Besides those of every answer. */
  readonly headers?: readonly HeaderName[];
  readonly mayHave?: readonly HeaderName[];
  /** What to do next with what the answer says. */
  readonly links?: Readonly<Record<string, Link>>;
}

/** Server-sent events by their names, each with what its data is. */
export interface EventStream {
  readonly events: Readonly<Record<string, z.ZodType>>;
}

interface Link {
  readonly operationId: string;
  readonly description: string;
  /** Runtime expressions, for example `$response.body#/replayId`. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly requestBody?: unknown;
}

/** A request, and the answer that it gets. */
export interface Example {
  readonly summary: string;
  /** Values of parameters. */
  readonly parameters?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  readonly json?: unknown;
  readonly form?: Readonly<Record<string, string>>;
  readonly answer: ExampleAnswer;
}

interface ExampleAnswer {
  readonly status: number;
  /** Undefined: the answer has no body. */
  readonly type?: string;
  readonly value?: unknown;
}

export const JSON_TYPE = 'application/json';
export const HTML_TYPE = 'text/html';
export const FORM_TYPE = 'application/x-www-form-urlencoded';
export const PROBLEM_TYPE = 'application/problem+json';

/** The answer of an example that succeeds. */
export function answered(value: unknown, type = JSON_TYPE): ExampleAnswer {
  return { status: 200, type, value };
}

/** The answer of an example that does not. */
export function refused(code: ProblemCode, told: Parameters<typeof problemValue>[1] = {}): ExampleAnswer {
  return { status: problemCodes[code].status, type: PROBLEM_TYPE, value: problemValue(code, told) };
}

/** A refusal with one issue. @param path of one step. */
export function invalid(path: string, code: string, message: string): ExampleAnswer {
  return refused('validation_failed', {
    detail: `${path}: ${message}`,
    issues: [{ path, pointer: `/${path}`, code, message }],
  });
}
