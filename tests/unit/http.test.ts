import { beforeEach, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';

import { InvalidPayload } from '../../lib/bus/outbox/errors.ts';
import { InvalidConfiguration } from '../../lib/platform/config.ts';
import { readBody, requireJson } from '../../lib/platform/http/body.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { Problem } from '../../lib/platform/http/problem.ts';
import { requireValid } from '../../lib/platform/http/validated.ts';
import { traceparent } from '../../lib/platform/trace-context.ts';

let lines: string[];

beforeEach(() => {
  lines = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => lines.push(String(text)) > 0);
});

describe('an endpoint', () => {
  test('an endpoint answers what its handler answers, with no-store', async () => {
    const { fetch } = guardedEndpoint({
      methods: ['GET'],
      handle: async () => Response.json({ ok: true }, { status: 202 }),
    });
    const response = await fetch(get());
    expect(response.status).toBe(202);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(await response.json()).toEqual({ ok: true });
  });

  test('a handler may set its own cache-control', async () => {
    const headers = { 'cache-control': 'max-age=60' };
    const { fetch } = guardedEndpoint({
      methods: ['GET'],
      handle: async () => new Response('', { headers }),
    });
    expect((await fetch(get())).headers.get('cache-control')).toBe('max-age=60');
  });

  test('a redirect, whose headers cannot be changed, carries the request id too', async () => {
    const { fetch } = guardedEndpoint({
      methods: ['GET'],
      handle: async () => Response.redirect('https://postbud.example/there', 303),
    });
    const response = await fetch(get());
    expect([response.status, response.headers.get('location')]).toEqual([
      303,
      'https://postbud.example/there',
    ]);
    expect(response.headers.get('x-request-id')).toMatch(UUID);
  });

  test('a stream is passed on piece by piece', async () => {
    let more: (text: string | null) => void = () => undefined;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        more = (text) => (text === null ? controller.close() : controller.enqueue(Buffer.from(text)));
      },
    });
    const { fetch } = guardedEndpoint({ methods: ['GET'], handle: async () => new Response(body) });
    const reader = (await fetch(get())).body!.getReader();
    more('first');
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('first');
    more(null);
    expect((await reader.read()).done).toBe(true);
  });

  test.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'GET', 'HEAD', 'PURGE'])(
    'an endpoint that takes POST answers 405 to %s and names POST',
    async (method) => {
      const handle = vi.fn(async () => new Response());
      const response = await guardedEndpoint({ methods: ['POST'], handle }).fetch(
        new Request(ADDRESS, { method }),
      );
      expect(response.status).toBe(405);
      expect(response.headers.get('allow')).toBe('POST');
      expect(response.headers.get('access-control-allow-origin')).toBeNull();
      expect(handle).not.toHaveBeenCalled();
    },
  );

  test('an endpoint that takes GET answers HEAD without a body', async () => {
    const { fetch } = guardedEndpoint({ methods: ['GET'], handle: async () => Response.json({ ok: true }) });
    const response = await fetch(new Request(ADDRESS, { method: 'HEAD' }));
    expect([response.status, await response.text()]).toEqual([200, '']);
    const refused = await fetch(new Request(ADDRESS, { method: 'POST' }));
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  test('each request leaves one log line, without its query', async () => {
    const { fetch } = guardedEndpoint({
      methods: ['GET'],
      handle: async () => new Response('', { status: 201 }),
    });
    await fetch(
      get({ 'x-request-id': '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e' }, '/a/b?email=kari%40example.no'),
    );
    expect(logged()).toEqual([
      {
        level: 'info',
        at: expect.stringMatching(/^\d{4}-.*Z$/),
        message: 'request',
        method: 'GET',
        path: '/a/b',
        status: 201,
        durationMs: expect.any(Number),
        requestId: '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
      },
    ]);
  });

  test('a long path is cut in the log', async () => {
    const { fetch } = guardedEndpoint({ methods: ['GET'], handle: async () => new Response() });
    await fetch(get({}, `/${'a'.repeat(5000)}`));
    expect(lines[0]!.length).toBeLessThan(500);
  });
});

describe('the id of a request', () => {
  const { fetch } = guardedEndpoint({
    methods: ['GET'],
    handle: async (_, { requestId }) => {
      throw new Problem('incomplete_body', { detail: requestId });
    },
  });

  test('a request gets one new id, in its header, its problem, its log line and for its handler', async () => {
    const response = await fetch(get());
    const id = response.headers.get('x-request-id');
    expect(id).toMatch(UUID);
    expect(await response.json()).toMatchObject({ requestId: id, detail: id });
    expect(logged()[0]).toMatchObject({ requestId: id });
    expect((await fetch(get())).headers.get('x-request-id')).not.toBe(id);
  });

  test.each([
    ['x-request-id', '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e'],
    ['x-request-id', '0B0E5D6C-3C1F-4A53-9A0E-6F4C1D2B3A4E'],
    ['x-vercel-id', 'arn1::fra1::x7k2p-1771581600000-0a1b2c3d4e5f'],
  ])('a request keeps the %s that it came with (%s)', async (header, id) => {
    expect((await fetch(get({ [header]: id }))).headers.get('x-request-id')).toBe(id);
  });

  test('an anonymous request gets a new id and no trace of its caller', async () => {
    const headers = {
      'x-request-id': '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
      'x-vercel-id': 'fra1::x',
      traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
    };
    const heard: (string | null)[] = [];
    const calls = [false, true].map((isAnonymous) =>
      guardedEndpoint({
        methods: ['GET'],
        isAnonymous,
        handle: async (_, { requestId }) => {
          heard.push(requestId, traceparent());
          return new Response();
        },
      }),
    );
    for (const { fetch } of calls) await fetch(get(headers));
    expect(heard).toEqual([
      '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
      headers.traceparent,
      expect.stringMatching(UUID),
      null,
    ]);
  });

  test.each(['', 'kari.lunde', '+4791234567', '01017012345', 'req_1', 'a b', '<script>', 'å'])(
    'a request gets a new id instead of %j, which could be a person’s name or number',
    async (id) => {
      for (const header of ['x-request-id', 'x-vercel-id'])
        expect((await fetch(get({ [header]: id }))).headers.get('x-request-id')).toMatch(UUID);
    },
  );
});

describe('a problem', () => {
  test('a problem is answered in the form of RFC 9457, with its issues', async () => {
    const issues = [
      { path: 'email', pointer: '/email', code: 'invalid_email', message: 'Write an address.' },
    ];
    const response = await answerTo(
      new Problem('validation_failed', { detail: 'One field is wrong.', issues }),
    );
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await response.json()).toEqual({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      code: 'validation_failed',
      detail: 'One field is wrong.',
      requestId: response.headers.get('x-request-id'),
      issues,
    });
  });

  test('a problem without issues has no such member', async () => {
    const response = await answerTo(new Problem('incomplete_body'));
    expect(await response.json()).not.toHaveProperty('issues');
  });

  test('a problem of something unavailable carries Retry-After', async () => {
    const response = await answerTo(new Problem('chat_not_configured', { retryAfterSeconds: 7 }));
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '7']);
    expect(await response.json()).toMatchObject({
      title: 'Service Unavailable',
      code: 'chat_not_configured',
    });
  });

  test('a problem may carry headers of its own', async () => {
    const headers = { 'www-authenticate': 'Bearer' };
    const response = await answerTo(new Problem('unauthorized', { headers }));
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
  });

  test('a problem does not show its reason', async () => {
    const response = await answerTo(new Problem('incomplete_body', { reason: 'kanari' }));
    expect(await response.text()).not.toContain('kanari');
  });
});

describe('anything else that is thrown', () => {
  test.each<[string, unknown]>([
    ['an error', new Error('kanari')],
    ['a parser that quotes', caught(() => JSON.parse('kanari'))],
    [
      "a driver's error",
      Object.assign(new Error('kanari', { cause: 'kanari' }), { code: '23505', detail: 'kanari' }),
    ],
    ['a wrapped one', new Error('kanari', { cause: Object.assign(new Error('kanari'), { code: '40001' }) })],
    ["Node's", Object.assign(new Error('kanari'), { code: 'ERR_INVALID_URL', input: 'kanari' })],
    ['text', 'kanari'],
    ['nothing', undefined],
  ])(
    'an unexpected error is answered 500 and its text is neither answered nor logged (%s)',
    async (_, thrown) => {
      const response = await answerTo(thrown);
      expect(response.status).toBe(500);
      expect(await response.clone().json()).toMatchObject({
        title: 'Internal Server Error',
        code: 'internal_error',
      });
      expect(await response.text()).not.toContain('kanari');
      expect(lines.join('')).not.toContain('kanari');
      expect(logged()[0]).toMatchObject({ level: 'error', message: 'a request failed' });
    },
  );

  test('an unexpected error is logged with its name, its SQLSTATE and its stack', async () => {
    await answerTo(new TypeError('kanari', { cause: Object.assign(new Error(), { code: '40001' }) }));
    expect(logged()[0]).toMatchObject({ error: 'TypeError', code: '40001' });
    expect(lines[0]).toContain('http.test.ts');
  });

  test('an error of ours is logged with its message', async () => {
    await answerTo(new InvalidPayload('payment.captured', [{ path: 'bookingId', message: 'is missing' }]));
    expect(logged()[0]).toMatchObject({
      error: 'InvalidPayload',
      code: 'invalid_payload',
      detail: 'the payload does not match payment.captured: bookingId: is missing',
    });
  });
});

test('a wrong variable is answered 503, and only the log says which and what it should be', async () => {
  const response = await answerTo(new InvalidConfiguration('CRON_SECRET', 'must be kanari'));
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '60']);
  const text = await response.text();
  expect(JSON.parse(text)).toMatchObject({ code: 'misconfigured' });
  expect(text).not.toMatch(/CRON_SECRET|kanari/);
  expect(logged()[0]).toMatchObject({
    level: 'error',
    variable: 'CRON_SECRET',
    detail: 'CRON_SECRET must be kanari',
  });
});

describe('a body', () => {
  const bytes = Buffer.from([0x7b, 0xff, 0x00, 0x0d, 0x0a, 0x7d]);

  test('a body is read byte for byte, in any number of pieces', async () => {
    expect(Buffer.from(await readBody(post(bytes), 6))).toEqual(bytes);
    const pieces = Array.from(bytes, (byte) => Uint8Array.of(byte));
    expect(Buffer.from(await readBody(post(streamOf(pieces)), 6))).toEqual(bytes);
  });

  test('a body may be absent or empty', async () => {
    expect(await readBody(new Request(ADDRESS, { method: 'POST' }), 6)).toHaveLength(0);
    expect(await readBody(post(''), 6)).toHaveLength(0);
    expect(await readBody(post(streamOf([])), 6)).toHaveLength(0);
  });

  test('a body of exactly the limit is read', async () => {
    expect(await readBody(post(streamOf([Buffer.alloc(4), Buffer.alloc(2)])), 6)).toHaveLength(6);
  });

  test('a body that declares more than the limit is refused unread', async () => {
    const stream = streamOf([bytes]);
    await expect(readBody(post(stream, { 'content-length': '7' }), 6)).rejects.toMatchObject(TOO_LARGE);
    expect(stream.pulled()).toBe(0);
    expect(stream.isCancelled()).toBe(false);
  });

  test.each([
    ['says nothing of its length', {}],
    ['lies about it', { 'content-length': '1' }],
    ['writes nonsense about it', { 'content-length': 'some' }],
  ])('a body that %s is read no further than the limit', async (_, headers: Record<string, string>) => {
    const stream = streamOf(Array.from({ length: 1000 }, () => Buffer.alloc(4)));
    await expect(readBody(post(stream, headers), 10)).rejects.toMatchObject(TOO_LARGE);
    expect(stream.pulled()).toBeLessThan(6);
    expect(stream.isCancelled()).toBe(false);
  });

  test('a body that breaks off is refused with 400', async () => {
    const broken = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(bytes),
      pull: (controller) => controller.error(new Error('socket hang up')),
    });
    await expect(readBody(post(broken), 60)).rejects.toMatchObject({ status: 400, code: 'incomplete_body' });
  });

  test.each(['gzip', 'br', 'deflate', 'zstd', 'identity, gzip', 'gzip, identity', 'x'])(
    'a body with the content-encoding %s is refused with 415',
    async (encoding) => {
      await expect(readBody(post(bytes, { 'content-encoding': encoding }), 6)).rejects.toMatchObject({
        status: 415,
        code: 'unsupported_encoding',
        headers: { 'accept-encoding': 'identity' },
      });
    },
  );

  test.each(['identity', 'Identity', ''])('a body with the content-encoding %j is read', async (encoding) => {
    expect(await readBody(post(bytes, { 'content-encoding': encoding }), 6)).toHaveLength(6);
  });
});

describe('nosniff', () => {
  const answers: Readonly<Record<string, () => Promise<Response>>> = {
    JSON: async () => Response.json({}),
    'a stream': async () =>
      new Response(new Blob(['data: x\n\n']).stream(), { headers: { 'content-type': 'text/event-stream' } }),
    nothing: async () => new Response(null, { status: 204 }),
    'a redirect': async () => Response.redirect('https://postbud.example/', 303),
    'not modified': async () => new Response(null, { status: 304 }),
    'a problem': () => Promise.reject(new Problem('provider_rejected')),
    'an error': () => Promise.reject(new TypeError('x')),
    'a wrong variable': () => Promise.reject(new InvalidConfiguration('X', 'x')),
  };

  test.each(Object.entries(answers))(
    'an endpoint’s answer has nosniff when its handler answers %s',
    async (_, handle) => {
      for (const body of [undefined, { schema: z.unknown(), limitBytes: 9 }]) {
        const { fetch } = body
          ? guardedEndpoint({ methods: ['POST'], body, handle })
          : guardedEndpoint({ methods: ['POST'], handle });
        const headers = { 'content-type': 'application/json' };
        const request = new Request(ADDRESS, { method: 'POST', body: '{}', headers });
        const response = await fetch(request);
        expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      }
    },
  );

  test('a problem whose page cannot be written has nosniff', async () => {
    const { fetch } = guardedEndpoint({
      methods: ['GET'],
      handle: () => Promise.reject(new Problem('not_found')),
      problemAnswer: () => {
        throw new Error('x');
      },
    });
    const response = await fetch(get());
    expect([response.status, response.headers.get('x-content-type-options')]).toEqual([404, 'nosniff']);
  });
});

describe('a value from outside', () => {
  const schema = z.strictObject({
    name: z.string().min(2).max(5).default('Kari'),
    ids: z.array(z.string()).min(1).max(2).default(['1']),
    limit: z.int().positive().max(10).default(1),
    kind: z.enum(['some', 'all']).default('all'),
    topic: z.string('expected a topic').default(''),
  });

  test.each([
    [null, 'body: expected a JSON object, got null'],
    [[], 'body: expected a JSON object, got an array'],
    [{ nmae: 'Kari' }, 'body: unknown fields: nmae'],
    [{ name: 5 }, 'name: expected a string, got 5'],
    [{ name: 'K' }, 'name: expected at least 2 characters, got 1'],
    [{ name: 'Kari N' }, 'name: expected at most 5 characters, got 6'],
    [{ ids: '1' }, 'ids: expected an array, got "1"'],
    [{ ids: [] }, 'ids: expected at least 1 element, got 0'],
    [{ ids: ['1', '2', '3'] }, 'ids: expected at most 2 elements, got 3'],
    [{ ids: [1] }, 'ids.0: expected a string, got 1'],
    [{ limit: 1.5 }, 'limit: expected a whole number, got 1.5'],
    [{ limit: 0 }, 'limit: expected a number above 0, got 0'],
    [{ limit: 11 }, 'limit: expected at most 10, got 11'],
    [{ kind: 'none' }, 'kind: expected some or all, got "none"'],
    [{ topic: 5 }, 'topic: expected a topic'],
  ])('the value %j is refused with what is wrong and what would be right', (value, detail) => {
    expect(() => requireValid(value, schema)).toThrow(expect.objectContaining({ status: 400, detail }));
  });
});

describe('the type of a body', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'Application/JSON; charset=utf8',
    'application/json; boundary=x',
    'application/json;',
  ])('a body may have the type %s', (type) => {
    expect(() => requireJson(post('{}', { 'content-type': type }))).not.toThrow();
  });

  test.each([
    'text/plain',
    'text/plain;charset=UTF-8',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonp',
    'application/json5',
    'application/ld+json',
    'application/json; charset=utf-16',
    'application/json; charset=iso-8859-1',
    'application/json, application/json',
    'text/plain; application/json',
    'application/*',
    'json',
    ' ',
  ])('a body of the type %j is refused', (type) => {
    expect(() => requireJson(post('{}', { 'content-type': type }))).toThrow(
      expect.objectContaining({ status: 415, code: 'unsupported_media_type' }),
    );
  });

  test('a body without a type is refused', () => {
    expect(() => requireJson(new Request(ADDRESS, { method: 'POST', body: Buffer.from('{}') }))).toThrow(
      expect.objectContaining({ status: 415 }),
    );
  });
});

const ADDRESS = 'https://postbud.example/a';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const TOO_LARGE = { status: 413, code: 'body_too_large' };

function get(headers: Record<string, string> = {}, path = '/a'): Request {
  return new Request(new URL(path, ADDRESS), { headers });
}

function post(
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>,
  headers: Record<string, string> = {},
): Request {
  return new Request(ADDRESS, { method: 'POST', body, headers, duplex: 'half' });
}

function answerTo(thrown: unknown): Promise<Response> {
  return guardedEndpoint({
    methods: ['GET'],
    handle: async () => {
      throw thrown;
    },
  }).fetch(get());
}

function caught(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

function logged(): unknown[] {
  return lines.map((line) => JSON.parse(line));
}

/** A stream that tells how many of its chunks were asked for, and whether the reader called it off. */
function streamOf(chunks: readonly Uint8Array[]) {
  let pulled = 0;
  let isCancelled = false;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[pulled++];
        if (chunk) controller.enqueue(chunk);
        else controller.close();
      },
      cancel() {
        isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return Object.assign(stream, { pulled: () => pulled, isCancelled: () => isCancelled });
}
