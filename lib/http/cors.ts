import { Problem } from './problem.ts';

/** Whose pages may call: those of the origins listed, or `any` page. */
export type Cors = AllowedOrigins | 'any';

interface AllowedOrigins {
  /** Scheme, host and port; one label of the host may be `*`. */
  readonly origins: readonly string[];
  /** Pages that this machine serves, on whatever port. */
  readonly anyLocalhost: boolean;
}

/** Two hours, the longest that Chromium remembers a preflight. */
const MAX_AGE_SECONDS = 7200;

/**
 * Tells a browser who may read the answer. Never with credentials: no public function knows cookies.
 *
 * @see https://fetch.spec.whatwg.org/#http-cors-protocol
 */
export function corsHeaders(cors: Cors, request: Request): Readonly<Record<string, string>> {
  const origin = request.headers.get('origin');
  const expose = {
    'access-control-expose-headers': 'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id',
  };
  if (cors === 'any') return { ...expose, 'access-control-allow-origin': '*' };
  if (origin === null || !isAllowed(cors, origin)) return { vary: 'Origin' };
  return { ...expose, 'access-control-allow-origin': origin, vary: 'Origin' };
}

/** Answers `OPTIONS`; whether the page may go on is in the headers that every answer has. */
export function preflightResponse(methods: readonly string[]): Response {
  return new Response(null, {
    status: 204,
    headers: {
      allow: methods.join(', '),
      'access-control-allow-methods': methods.join(', '),
      'access-control-allow-headers': 'Content-Type, Idempotency-Key, X-Request-Id',
      'access-control-max-age': `${MAX_AGE_SECONDS}`,
    },
  });
}

/**
 * Keeps pages of other origins from having the function act for them: a browser sends some requests without asking.
 * Programs send no `Origin`, and are let through.
 *
 * @throws Problem 403 `origin_not_allowed`
 */
export function requireOrigin(cors: Cors, request: Request): void {
  const origin = request.headers.get('origin');
  if (cors === 'any' || request.method !== 'POST' || origin === null || isAllowed(cors, origin)) return;
  throw new Problem('origin_not_allowed');
}

const LOCALHOST = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;

function isAllowed({ origins, anyLocalhost }: AllowedOrigins, origin: string): boolean {
  return (anyLocalhost && LOCALHOST.test(origin)) || origins.some((entry) => patternOf(entry).test(origin));
}

/** Exact, but for a `*`, which stands for one label: no dot, no colon, no slash. */
function patternOf(entry: string): RegExp {
  const escaped = entry.replaceAll(/[.[\]]/g, String.raw`\$&`).replaceAll('*', '[a-z0-9_-]+');
  return new RegExp(`^${escaped}$`);
}
