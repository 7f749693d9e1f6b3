/** What stands in the headers of answers. */
export const headers = {
  'X-Request-Id': {
    description:
      'Finds the request in our logs: the caller’s own, if it sent a usable one. Chat and inquiry make one of their own.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  },
  'Cache-Control': {
    description: 'Nothing may be kept, unless this says so.',
    schema: { type: 'string' },
  },
  'X-Content-Type-Options': {
    description: 'Has a browser take the answer for what `Content-Type` says, and for nothing else.',
    schema: { type: 'string', const: 'nosniff' },
  },
  Vary: { description: 'What the answer depends on.', schema: { type: 'string' } },
  'Access-Control-Allow-Origin': {
    description: 'The one origin that asked, if it may read the answer; or any.',
    schema: { type: 'string' },
  },
  'RateLimit-Policy': {
    description: 'All limits: how many calls (`q`) in how many seconds (`w`).',
    schema: { type: 'string', pattern: '^"[\\w-]+";q=\\d+;w=\\d+(, "[\\w-]+";q=\\d+;w=\\d+)*$' },
    example: '"chat-min";q=20;w=60, "chat-day";q=300;w=86400',
  },
  RateLimit: {
    description: 'The limit that is nearest: calls left (`r`), and seconds until it starts anew (`t`).',
    schema: { type: 'string', pattern: '^"[\\w-]+";r=\\d+;t=\\d+$' },
    example: '"chat-min";r=19;t=41',
  },
  'Retry-After': {
    description: 'In how many seconds it may be worth another try.',
    schema: { type: 'integer', minimum: 1 },
  },
  'WWW-Authenticate': {
    description: 'How to authenticate (RFC 6750).',
    schema: { type: 'string', pattern: '^Bearer' },
  },
  Allow: { description: 'The methods that there are.', schema: { type: 'string' } },
  Accept: { description: 'The types that are taken.', schema: { type: 'string' } },
  'Accept-Encoding': { description: 'The encodings that are taken.', schema: { type: 'string' } },
  Location: { description: 'Where to go on.', schema: { type: 'string', format: 'uri-reference' } },
  'Set-Cookie': {
    description: 'The session, which scripts can’t read.',
    schema: { type: 'string', pattern: '^__Host-event-bus=' },
  },
  'Idempotent-Replayed': {
    description: 'The inquiry had been sent before; nothing was sent now.',
    schema: { type: 'string', const: 'true' },
  },
  ETag: { description: 'Send it as If-None-Match.', schema: { type: 'string', pattern: '^"' } },
} as const;

export type HeaderName = keyof typeof headers;
