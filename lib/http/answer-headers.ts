/** The headers of answers. */
export const headers = {
  'X-Request-Id': {
    description:
      'Names the request in our logs: the caller’s own id, if it sent a valid one. Chat and inquiry always make a new one.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  },
  'Cache-Control': {
    description: '`no-store` unless stated otherwise.',
    schema: { type: 'string' },
  },
  'X-Content-Type-Options': {
    description: 'Keeps browsers from guessing another type than `Content-Type`.',
    schema: { type: 'string', const: 'nosniff' },
  },
  Vary: { description: 'The request headers that the answer depends on.', schema: { type: 'string' } },
  'Access-Control-Allow-Origin': {
    description: 'The origin of the request, if it may read the answer; or `*`.',
    schema: { type: 'string' },
  },
  'RateLimit-Policy': {
    description: 'All limits: how many calls (`q`) in how many seconds (`w`).',
    schema: { type: 'string', pattern: '^"[\\w-]+";q=\\d+;w=\\d+(, "[\\w-]+";q=\\d+;w=\\d+)*$' },
    example: '"chat-min";q=20;w=60, "chat-day";q=300;w=86400',
  },
  RateLimit: {
    description: 'The nearest limit: calls left (`r`), and seconds until it resets (`t`).',
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
  Allow: { description: 'The allowed methods.', schema: { type: 'string' } },
  Accept: { description: 'The accepted media types.', schema: { type: 'string' } },
  'Accept-Encoding': { description: 'The accepted encodings.', schema: { type: 'string' } },
  Location: { description: 'The page to go on to.', schema: { type: 'string', format: 'uri-reference' } },
  'Set-Cookie': {
    description: 'The session, which scripts can’t read.',
    schema: { type: 'string', pattern: '^__Host-event-bus=' },
  },
  'Idempotent-Replayed': {
    description: 'The inquiry was sent earlier and was not sent again.',
    schema: { type: 'string', const: 'true' },
  },
  ETag: {
    description: 'The version of the document, for If-None-Match.',
    schema: { type: 'string', pattern: '^"' },
  },
} as const;

export type HeaderName = keyof typeof headers;
