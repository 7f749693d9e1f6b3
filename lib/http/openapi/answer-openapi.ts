import { createHash } from 'node:crypto';

// Generated, and held to the code by a test: to write it here would cost every cold start all schemas.
import document from '../../../docs/openapi.json' with { type: 'json' };

const TEXT = JSON.stringify(document);

/** Another for another text. */
const ETAG = `"${createHash('sha256').update(TEXT).digest('base64url')}"`;

/** Changes with a deployment, which callers may see five minutes late. */
const CACHE_CONTROL = 'public, max-age=300';

/**
 * Answers with the OpenAPI document, or 304 to a caller that has it.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
 */
export function answerOpenApi({ headers: asked }: Request): Response {
  const headers = { etag: ETAG, 'cache-control': CACHE_CONTROL };
  if (hasIt(asked.get('if-none-match'))) return new Response(null, { status: 304, headers });
  return new Response(TEXT, { headers: { ...headers, 'content-type': 'application/json' } });
}

/** Whoever compresses an answer on its way marks its tag as weak, which makes no difference here. */
function hasIt(tags: string | null): boolean {
  const known = (tags ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return known.some((tag) => tag === ETAG || tag === '*');
}
