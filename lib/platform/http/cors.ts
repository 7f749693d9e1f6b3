import { isForm } from './body.ts';
import { wantsPage } from './negotiate.ts';
import { Problem } from './problem.ts';

/** The origins whose pages may call: the listed ones, or `any`. */
export type Cors = AllowedOrigins | 'any';

interface AllowedOrigins {
  /** As browsers write them: scheme, host and port; one label of the host may have a `*`. */
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
  const expose = { 'access-control-expose-headers': EXPOSED };
  if (cors === 'any') return { ...expose, 'access-control-allow-origin': '*' };
  if (origin === null || !isAllowed(cors, origin)) return {};
  return { ...expose, 'access-control-allow-origin': origin };
}

const EXPOSED = 'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Idempotent-Replayed';

/** Those of our own, for a preflight that names none. */
const REQUEST_HEADERS = 'Content-Type, Idempotency-Key, X-Request-Id';

/**
 * Answers `OPTIONS`. The headers of `corsHeaders` decide whether the page may call.
 *
 * Any header is granted that the preflight names: a page's instruments add `traceparent`, `sentry-trace` and the like to
 * each of its requests, and none of them is a right, because nothing is sent with credentials.
 */
export function preflightResponse(methods: readonly string[], { headers }: Request): Response {
  const named = (headers.get('access-control-request-headers') ?? '').split(',').map((name) => name.trim());
  const granted = named.filter((name) => TOKEN.test(name)).join(', ');
  return new Response(null, {
    status: 204,
    headers: {
      allow: methods.join(', '),
      'access-control-allow-methods': methods.join(', '),
      'access-control-allow-headers': granted || REQUEST_HEADERS,
      'access-control-max-age': `${MAX_AGE_SECONDS}`,
    },
  });
}

/** A header's name. @see https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2 */
const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i;

/**
 * Refuses pages of other origins: browsers send some requests without a preflight. Programs send no `Origin` and pass.
 *
 * @param takesForms whether a form without script may come from `null`, the origin of a page with
 *   `Referrer-Policy: no-referrer` or in a sandbox: its answer is a page of ours, which the form's page cannot read.
 * @throws Problem 403 `origin_not_allowed`
 */
export function requireOrigin(cors: Cors, request: Request, takesForms = false): void {
  const origin = request.headers.get('origin');
  if (cors === 'any' || request.method !== 'POST' || origin === null || isAllowed(cors, origin)) return;
  if (origin === 'null' && takesForms && isForm(request) && wantsPage(request)) return;
  throw new Problem('origin_not_allowed');
}

/** Whether a host, without its port, has pages that may call. */
export function isHostOfPage(cors: Cors, host: string): boolean {
  if (cors === 'any') return true;
  const origins = cors.origins.map((entry) => entry.replace(/:\d+$/, ''));
  return ['https', 'http'].some((scheme) => isAllowed({ ...cors, origins }, `${scheme}://${host}`));
}

const LOCALHOST = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;

function isAllowed({ origins, anyLocalhost }: AllowedOrigins, origin: string): boolean {
  return (anyLocalhost && LOCALHOST.test(origin)) || origins.some((entry) => patternOf(entry).test(origin));
}

/** Matches exactly, except that `*` stands for one label or a part of it: no dot, no colon, no slash. */
function patternOf(entry: string): RegExp {
  const escaped = entry.replaceAll(/[.[\]]/g, String.raw`\$&`).replaceAll('*', '[a-z0-9_-]+');
  return new RegExp(`^${escaped}$`);
}
