import { createHash } from 'node:crypto';

// A test keeps this generated file current. Writing it at run time would build all schemas at every cold start.
import document from '../../../../docs/openapi.json' with { type: 'json' };

const TEXT = JSON.stringify(document);

/** Changes with the document. */
const ETAG = `"${createHash('sha256').update(TEXT).digest('base64url')}"`;

/** Callers may see a new deployment's document five minutes late. */
const CACHE_CONTROL = 'public, max-age=300';

/**
 * Answers with the OpenAPI document, or 304 if the caller has the current one.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
 */
export function answerOpenApi({ headers: asked }: Request): Response {
  const headers = { etag: ETAG, 'cache-control': CACHE_CONTROL };
  if (isCurrent(asked.get('if-none-match'))) return new Response(null, { status: 304, headers });
  return new Response(TEXT, { headers: { ...headers, 'content-type': 'application/json' } });
}

/** A proxy that compresses an answer marks its tag as weak; a weak match is enough here. */
function isCurrent(tags: string | null): boolean {
  const known = (tags ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return known.some((tag) => tag === ETAG || tag === '*');
}
