import { STATUS_CODES } from 'node:http';

/** What is wrong with one field of a request. */
export interface Issue {
  /** Dotted, for example `lines.0.email`. */
  readonly path: string;
  /** The same as a JSON Pointer (RFC 6901). */
  readonly pointer: string;
  readonly code: string;
  readonly message: string;
}

export interface ProblemOptions extends ErrorOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly issues?: readonly Issue[];
  /** What logs and counters call it, where the caller must be told less than we know. */
  readonly reason?: string;
}

/** An answer that is an error. Thrown anywhere beneath an endpoint, which answers with it. */
export class Problem extends Error {
  readonly status: number;
  /** Stable: callers may act on it. */
  readonly code: string;
  /** For whoever builds the caller: what is wrong and what to do about it. */
  readonly detail: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly issues: readonly Issue[] | undefined;
  readonly reason: string;

  constructor(status: number, code: string, detail: string, options: ProblemOptions = {}) {
    super(detail, options);
    this.name = 'Problem';
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.headers = options.headers ?? {};
    this.issues = options.issues;
    this.reason = options.reason ?? code;
  }
}

export function badRequest(code: string, detail: string, options?: ProblemOptions): Problem {
  return new Problem(400, code, detail, options);
}

export function unauthorized(code: string, detail: string, options?: ProblemOptions): Problem {
  return new Problem(401, code, detail, options);
}

export function notFound(code: string, detail: string): Problem {
  return new Problem(404, code, detail);
}

/** @param allow the methods that the path has. */
export function methodNotAllowed(allow: readonly string[]): Problem {
  const methods = allow.join(', ');
  return new Problem(405, 'method_not_allowed', `Use ${methods}.`, { headers: { allow: methods } });
}

export function tooLarge(code: string, detail: string, headers: Record<string, string>): Problem {
  return new Problem(413, code, detail, { headers });
}

export function unsupportedMedia(code: string, detail: string, headers: Record<string, string>): Problem {
  return new Problem(415, code, detail, { headers });
}

/** Something that the request needs is not there now. @param retryAfterSeconds when it may be worth another try. */
export function unavailable(
  code: string,
  detail: string,
  retryAfterSeconds: number,
  options?: ErrorOptions,
): Problem {
  return new Problem(503, code, detail, { ...options, headers: { 'retry-after': `${retryAfterSeconds}` } });
}

/**
 * Writes a problem as the answer that a caller gets.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9457
 */
export function problemResponse(problem: Problem, requestId: string): Response {
  const { status, code, detail, issues } = problem;
  const title = STATUS_CODES[status];
  const body = { type: 'about:blank', title, status, code, detail, requestId, issues };
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
