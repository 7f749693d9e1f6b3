/** The headers of answers, as OpenAPI describes them. */
export const headers = {
  'X-Request-Id': {
    description:
      'The request’s id in our logs: the caller’s own, if it sent a valid one. Chat and inquiry always generate it.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  },
  'Cache-Control': {
    description: 'Answers must not be stored unless this allows it.',
    schema: { type: 'string' },
  },
  'X-Content-Type-Options': {
    description: 'Browsers must trust `Content-Type`.',
    schema: { type: 'string', const: 'nosniff' },
  },
  Vary: { description: 'The request headers that the answer depends on.', schema: { type: 'string' } },
  'Access-Control-Allow-Origin': {
    description: 'The caller’s origin if it is allowed, or `*`.',
    schema: { type: 'string' },
  },
  'RateLimit-Policy': {
    description: 'All limits: calls (`q`) in a window of seconds (`w`).',
    schema: { type: 'string', pattern: '^"[\\w-]+";q=\\d+;w=\\d+(, "[\\w-]+";q=\\d+;w=\\d+)*$' },
    example: '"chat-min";q=20;w=60, "chat-day";q=300;w=86400',
  },
  RateLimit: {
    description: 'The most restrictive limit: calls left (`r`) and seconds until it resets (`t`).',
    schema: { type: 'string', pattern: '^"[\\w-]+";r=\\d+;t=\\d+$' },
    example: '"chat-min";r=19;t=41',
  },
  'Retry-After': {
    description: 'Seconds to wait before trying again.',
    schema: { type: 'integer', minimum: 1 },
  },
  'WWW-Authenticate': {
    description: 'How to authenticate (RFC 6750).',
    schema: { type: 'string', pattern: '^Bearer' },
  },
  Allow: { description: 'The supported methods.', schema: { type: 'string' } },
  Accept: { description: 'The supported media types.', schema: { type: 'string' } },
  'Accept-Encoding': { description: 'The supported encodings.', schema: { type: 'string' } },
  Location: { description: 'The page to open next.', schema: { type: 'string', format: 'uri-reference' } },
  'Set-Cookie': {
    description: 'The session, a sign-in under way, or what was done. Scripts cannot read it.',
    schema: { type: 'string', pattern: '^__Host-event-bus(-sign-in|-done)?=' },
  },
  'Idempotent-Replayed': {
    description: 'The inquiry was sent before; nothing was sent now.',
    schema: { type: 'string', const: 'true' },
  },
  ETag: { description: 'The value for `If-None-Match`.', schema: { type: 'string', pattern: '^"' } },
} as const;

export type HeaderName = keyof typeof headers;
