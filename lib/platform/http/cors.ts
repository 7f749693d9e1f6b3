import { Problem } from './problem.ts';

/** The origins whose pages may call: the listed ones, or `any`. */
export type Cors = AllowedOrigins | 'any';

interface AllowedOrigins {
  /** Scheme, host and port; one label of the host may be `*`. */
  readonly origins: readonly string[];
  /** Pages on this machine, on any port. */
  readonly anyLocalhost: boolean;
}

/** Two hours, the longest that Chromium caches a preflight. */
const MAX_AGE_SECONDS = 7200;

/**
 * Writes the headers that let a page read the answer. Never with credentials: no public function uses cookies.
 *
 * @see https://fetch.spec.whatwg.org/#http-cors-protocol
 */
export function corsHeaders(cors: Cors, request: Request): Readonly<Record<string, string>> {
  const origin = request.headers.get('origin');
  const expose = {
    'access-control-expose-headers': 'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id',
  };
  if (cors === 'any') return { ...expose, 'access-control-allow-origin': '*' };
  if (origin === null || !isAllowed(cors, origin)) return {};
  return { ...expose, 'access-control-allow-origin': origin };
}

/** Answers `OPTIONS`. The headers of `corsHeaders` decide whether the page may call. */
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
 * Refuses pages of other origins: browsers send some requests without a preflight. Programs send no `Origin` and pass.
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

/** Matches exactly, except that `*` stands for one label: no dot, no colon, no slash. */
function patternOf(entry: string): RegExp {
  const escaped = entry.replaceAll(/[.[\]]/g, String.raw`\$&`).replaceAll('*', '[a-z0-9_-]+');
  return new RegExp(`^${escaped}$`);
}
