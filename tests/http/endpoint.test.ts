import { readdirSync } from 'node:fs';

import { beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { InvalidConfiguration } from '../../lib/platform/config.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { Problem } from '../../lib/platform/http/problem.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { createVisitors } from '../../lib/platform/rate-limit/visitors.ts';
import { MINUTE } from '../../lib/platform/time.ts';

const NOON = Date.UTC(2026, 10, 21, 12);
const SITE = 'https://www.site.no';
const GOOD = { name: 'Kari' };
const schema = z.object({ name: z.string().trim().min(1), age: z.coerce.number().optional() });

let lines: string;
beforeEach(() => {
  lines = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => (lines += String(text)).length > 0);
});

/** A public endpoint with every guard: three calls a minute, bodies of 64 bytes, a budget of two for everybody. */
function guarded({ forms = false, limit = 3, budget = 100 } = {}) {
  const limiter = new MemoryLimiter({ now: () => NOON + 18_000 });
  const visitors = createVisitors({ isBehindPlatform: true });
  const seen: unknown[] = [];
  const { fetch } = guardedEndpoint({
    methods: ['POST'],
    cors: () => ({ origins: [SITE], anyLocalhost: false }),
    body: { schema, limitBytes: 64, forms },
    visitorLimits: () => ({ limiter, visitors, limits: [{ name: 'chat-min', limit, windowMs: MINUTE }] }),
    handle: async (_, { body, visitor, visit, requestId }) => {
      seen.push({ body, visitor, requestId });
      if (body.name === 'unconfigured') throw new Problem('chat_not_configured');
      await visit.takeBudget({ name: 'chat', perDay: budget, onReached: () => undefined });
      if (body.name === 'rejected') throw new Problem('provider_rejected');
      return Response.json({ text: `Hei, ${body.name}.` });
    },
  });
  return { fetch, seen };
}

interface Call {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream | null;
}

function call({ method = 'POST', headers = {}, body = JSON.stringify(GOOD) }: Call = {}): Request {
  return new Request('https://postbud.example/api/chat', {
    method,
    headers: { 'content-type': 'application/json', 'x-forwarded-for': '192.0.2.7', origin: SITE, ...headers },
    ...(method !== 'GET' && method !== 'HEAD' && { body, duplex: 'half' }),
  });
}

const codeOf = async (response: Response) => {
  const { code } = (await response.json()) as { code: string };
  return [response.status, code];
};

describe('a body', () => {
  test('the handler gets the parsed body and the visitor’s key', async () => {
    const { fetch, seen } = guarded();
    const response = await fetch(
      call({
        body: '{"name":" Kari ","age":"7","x":1}',
        headers: { 'x-request-id': '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e' },
      }),
    );
    expect(await response.json()).toEqual({ text: 'Hei, Kari.' });
    expect(seen).toEqual([
      {
        body: { name: 'Kari', age: 7 },
        visitor: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
        requestId: '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
      },
    ]);
  });

  test('a form reaches the handler like JSON where forms are taken', async () => {
    const { fetch, seen } = guarded({ forms: true });
    const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' };
    expect((await fetch(call({ headers, body: 'name=K%C3%A5re+%26+co&age=7&name=' }))).status).toBe(400);
    expect((await fetch(call({ headers, body: 'name=&name=K%C3%A5re+%26+co&age=7' }))).status).toBe(200);
    expect(seen).toMatchObject([{ body: { name: 'Kåre & co', age: 7 } }]);
  });

  test.each(['__proto__=x&name=Kari', 'constructor=x&name=Kari', 'name=Kari&%FF=%FF', '&&name=Kari&='])(
    'the odd form %s is read literally',
    async (body) => {
      const { fetch } = guarded({ forms: true });
      const response = await fetch(
        call({ body, headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
      );
      expect(response.status).toBe(200);
    },
  );

  test.each([
    ['not JSON', '{', 'invalid_json'],
    ['empty', '', 'invalid_json'],
    ['not UTF-8', Buffer.from('7b22ff227d', 'hex'), 'invalid_json'],
    ['a list', '[]', 'invalid_type'],
    ['without a field', '{}', 'invalid_type'],
    ['with a blank field', '{"name":" "}', 'too_small'],
  ])('a body that is %s is refused with 400 and the issue', async (_, body, code) => {
    const response = await guarded().fetch(call({ body }));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 'validation_failed', issues: [{ code }] });
  });

  test.each([
    ['declares', { body: 'x'.repeat(65), headers: { 'content-length': '65' } }],
    ['sends', { body: new Blob(['x'.repeat(40), 'y'.repeat(40)]).stream() }],
  ])('a body that %s more bytes than the limit is refused with 413', async (_, sent) => {
    expect(await codeOf(await guarded().fetch(call(sent)))).toEqual([413, 'body_too_large']);
  });
});

describe('the guards of a public POST', () => {
  // Each call is also wrong in all the ways that come after its own.
  const wrong = {
    visitor: { 'x-forwarded-for': '198.51.100.1' },
    type: { 'content-type': 'text/plain' },
    origin: { origin: 'https://evil.example' },
  };
  const LONG = 'x'.repeat(65);
  const rows: readonly (readonly [string, Call, number, string | null])[] = [
    [
      'OPTIONS, before the origin',
      { method: 'OPTIONS', headers: { ...wrong.origin, ...wrong.type, ...wrong.visitor }, body: null },
      204,
      null,
    ],
    [
      'the method, before the origin',
      { method: 'PUT', headers: { ...wrong.origin, ...wrong.type, ...wrong.visitor }, body: LONG },
      405,
      'method_not_allowed',
    ],
    [
      'the origin, before the type',
      { headers: { ...wrong.origin, ...wrong.type, ...wrong.visitor }, body: LONG },
      403,
      'origin_not_allowed',
    ],
    [
      'the type, before the length',
      { headers: { ...wrong.type, ...wrong.visitor }, body: LONG },
      415,
      'unsupported_media_type',
    ],
    [
      'the encoding, before the length',
      { headers: { 'content-encoding': 'gzip', ...wrong.visitor }, body: LONG },
      415,
      'unsupported_encoding',
    ],
    ['the length, before the visitor', { headers: wrong.visitor, body: LONG }, 413, 'body_too_large'],
    ['the visitor, before the fields', { headers: wrong.visitor, body: '{}' }, 429, 'rate_limited'],
    ['the fields, before the configuration', { body: '{"name":""}' }, 400, 'validation_failed'],
    ['the configuration, before the budget', { body: '{"name":"unconfigured"}' }, 503, 'chat_not_configured'],
    ['the budget, before the provider', { body: '{"name":"rejected"}' }, 429, 'rate_limited'],
  ];

  test.each(rows)('the guards check %s', async (_, sent, status, code) => {
    const { fetch } = guarded({ budget: 1 });
    // The other visitor has used up their minute, and with it the budget.
    for (let index = 0; index < 3; index++) await fetch(call({ headers: wrong.visitor }));
    const response = await fetch(call(sent));
    const text = await response.text();
    expect([response.status, text && JSON.parse(text).code]).toEqual([status, code ?? '']);
    expect(response.headers.get('vary')).toBe('Origin');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('x-request-id')).toBeTruthy();
    expect(response.headers.get('access-control-allow-origin')).toBe(
      sent.headers?.['origin'] === undefined ? SITE : null,
    );
    expect(response.headers.has('retry-after')).toBe(status === 429);
  });

  test('a call that an earlier guard refused does not count against the visitor', async () => {
    const { fetch } = guarded();
    for (const [, sent, status] of rows) {
      if (status >= 403 && status < 429)
        await fetch(call({ ...sent, headers: { ...sent.headers, ...wrong.visitor } }));
    }
    const response = await fetch(call({ headers: wrong.visitor }));
    expect(response.headers.get('ratelimit')).toBe('"chat-min";r=2;t=42');
  });
});

describe('a visitor', () => {
  test('every counted answer shows the rest of the limit, and then a 429 says when to return', async () => {
    const { fetch } = guarded();
    const bodies = [GOOD, {}, { name: 'rejected' }, GOOD];
    const answers = [];
    for (const body of bodies) {
      const response = await fetch(call({ body: JSON.stringify(body) }));
      expect(response.headers.get('ratelimit-policy')).toBe('"chat-min";q=3;w=60');
      answers.push([response.status, response.headers.get('ratelimit'), response.headers.get('retry-after')]);
    }
    expect(answers).toEqual([
      [200, '"chat-min";r=2;t=42', null],
      [400, '"chat-min";r=1;t=42', null],
      [502, '"chat-min";r=0;t=42', null],
      [429, '"chat-min";r=0;t=42', '42'],
    ]);
  });

  test('each visitor is limited alone', async () => {
    const { fetch } = guarded({ limit: 1 });
    const visit = async (address: string) =>
      (await fetch(call({ headers: { 'x-forwarded-for': address } }))).status;
    expect(await visit('192.0.2.7')).toBe(200);
    expect(await visit('192.0.2.7')).toBe(429);
    expect(await visit('192.0.2.8')).toBe(200);
    expect(await visit('2001:db8:1:2::1')).toBe(200);
    expect(await visit('2001:db8:1:2:ffff::9')).toBe(429);
    expect(await visit('::ffff:192.0.2.8')).toBe(429);
  });

  test('a visitor hears of a used-up budget, not of a limit of their own', async () => {
    const { fetch } = guarded({ budget: 1 });
    await fetch(call());
    const response = await fetch(call({ headers: { 'x-forwarded-for': '198.51.100.1' } }));
    expect(response.status).toBe(429);
    expect(response.headers.get('ratelimit')).toBe('"chat-budget";r=0;t=43182');
    expect(response.headers.get('ratelimit-policy')).toBe(
      '"chat-network";q=1;w=86400, "chat-budget";q=1;w=86400',
    );
    expect(response.headers.get('retry-after')).toBe('43182');
    expect(response.headers.get('access-control-allow-origin')).toBe(SITE);
  });

  test('a visitor without an Origin is counted like any other', async () => {
    const { fetch } = guarded({ limit: 1 });
    const request = () => {
      const sent = call();
      sent.headers.delete('origin');
      return sent;
    };
    expect([(await fetch(request())).status, (await fetch(request())).status]).toEqual([200, 429]);
  });

  test('a visitor’s address is in no log line and no answer', async () => {
    const { fetch } = guarded({ limit: 1 });
    const texts = [];
    for (let index = 0; index < 2; index++) texts.push(await (await fetch(call())).text());
    expect(lines + texts.join('')).not.toContain('192.0.2.7');
  });
});

describe('a guard whose environment is wrong', () => {
  const fails = () => {
    throw new InvalidConfiguration('CORS_ORIGINS', 'must be origins');
  };

  test.each([{ cors: fails }, { visitorLimits: fails }])(
    'a guard with a wrong variable answers 503 and lets nothing through: %j',
    async (guard) => {
      const handle = vi.fn(async () => new Response());
      const response = await guardedEndpoint({ methods: ['POST'], ...guard, handle }).fetch(call());
      expect(await codeOf(response)).toEqual([503, 'misconfigured']);
      expect(handle).not.toHaveBeenCalled();
    },
  );
});

describe('the functions of api/', () => {
  const folder = new URL('../../api/', import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });

  test.each(files.filter((file) => file.endsWith('.ts')))(
    'the function api/%s is an endpoint',
    async (file) => {
      vi.stubEnv('VERCEL', '1');
      vi.stubEnv('DATABASE_URL', undefined);
      const { default: fn } = (await import(new URL(file, folder).href)) as { default: Endpoint };
      for (const method of ['GET', 'POST', 'OPTIONS']) {
        const { headers } = await fn.fetch(new Request(`https://postbud.example/api/${file}`, { method }));
        expect(headers.get('x-content-type-options')).toBe('nosniff');
        expect(headers.get('x-request-id')).toBeTruthy();
      }
      vi.unstubAllEnvs();
    },
  );
});
