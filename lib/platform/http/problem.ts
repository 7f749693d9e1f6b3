import { STATUS_CODES } from 'node:http';

import { detailOf, problemCodes } from './problem-codes.ts';
import type { Issue, PlainProblemCode, ProblemCode } from './problem-codes.ts';

export interface ProblemOptions extends ErrorOptions {
  /** Says what is wrong and what to do about it. The code's usual detail if left out. */
  readonly detail?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** When to try again. */
  readonly retryAfterSeconds?: number | undefined;
  readonly issues?: readonly Issue[];
  /** Further members of the answer, which say more than the code. */
  readonly members?: Readonly<Record<string, boolean>>;
  /** Its name in logs and counters, where the caller must not learn the reason. */
  readonly reason?: string;
  /** Whose limit was reached. */
  readonly scope?: ProblemScope | undefined;
}

/** Whose limit a call has reached: the visitor's own, its network's, or that of all visitors together. */
export type ProblemScope = 'visitor' | 'network' | 'service';

type DetailedOptions = ProblemOptions & { readonly detail: string };

/** An error as an answer. Code below an endpoint throws it; the endpoint answers with it. */
export class Problem extends Error {
  /** Stable: callers may act on it. */
  readonly code: ProblemCode;
  readonly status: number;
  readonly detail: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly issues: readonly Issue[] | undefined;
  readonly members: Readonly<Record<string, boolean>>;
  readonly reason: string;
  readonly scope: ProblemScope | undefined;

  /** A code whose detail depends on the request needs one here. */
  constructor(code: PlainProblemCode, options?: ProblemOptions);
  constructor(code: ProblemCode, options: DetailedOptions);
  constructor(code: ProblemCode, options: ProblemOptions = {}) {
    const {
      detail = detailOf(code),
      headers = {},
      retryAfterSeconds,
      issues,
      members = {},
      reason = code,
      scope,
      ...rest
    } = options;
    super(detail, rest);
    this.name = 'Problem';
    this.code = code;
    this.status = problemCodes[code].status;
    this.detail = detail;
    this.headers = {
      ...headers,
      ...(retryAfterSeconds !== undefined && { 'retry-after': `${retryAfterSeconds}` }),
    };
    this.issues = issues;
    this.members = members;
    this.reason = reason;
    this.scope = scope;
  }
}

/**
 * Writes a problem as the answer that a caller gets.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9457
 */
export function problemResponse(problem: Problem, requestId: string): Response {
  const { status, code, detail, scope, issues, members } = problem;
  const title = STATUS_CODES[status];
  const body = { type: 'about:blank', title, status, code, detail, requestId, scope, issues, ...members };
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      ...problem.headers,
      'content-type': 'application/problem+json',
      'x-content-type-options': 'nosniff',
      'x-request-id': requestId,
    },
  });
}
