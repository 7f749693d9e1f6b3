import { readdirSync } from 'node:fs';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';

import { InvalidConfiguration } from '../../lib/config.ts';
import { guardedEndpoint } from '../../lib/http/guarded-endpoint.ts';
import type { Endpoint } from '../../lib/http/guarded-endpoint.ts';
import { Problem } from '../../lib/http/problem.ts';

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const folder = new URL('../../api/', import.meta.url);
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
);

/** What those files answer at other paths than their own. */
const paths: Readonly<Record<string, readonly string[]>> = {
  'openapi.ts': ['/api/openapi.json'],
  'platform/event-bus/console.ts': [
    '/platform/event-bus/sign-in',
    '/platform/event-bus/catalog',
    '/platform/event-bus/nowhere',
  ],
};

const EVENT = JSON.stringify({ type: 'nothing.of.interest' });
const CHAT = JSON.stringify({ system: 'x', messages: [{ role: 'user', content: 'x' }] });

/** Requests that end in every guard, and behind them. */
const requests: readonly RequestInit[] = [
  { method: 'GET' },
  { method: 'GET', headers: { accept: 'text/html' } },
  { method: 'GET', headers: { accept: 'text/html', 'sec-fetch-site': 'cross-site' } },
  { method: 'GET', headers: { accept: 'image/png' } },
  { method: 'HEAD' },
  { method: 'OPTIONS', headers: { origin: 'https://www.example.no' } },
  { method: 'PUT', body: '{}' },
  { method: 'POST', body: '{}' },
  { method: 'POST', body: '{}', headers: { origin: 'https://evil.example' } },
  { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } },
  { method: 'POST', body: EVENT, headers: { 'content-type': 'application/json' } },
  { method: 'POST', body: CHAT, headers: { 'content-type': 'application/json' } },
  { method: 'POST', body: 'x'.repeat(300_000), headers: { 'content-type': 'application/json' } },
  { method: 'POST', body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
  { method: 'POST', body: '{}', headers: { 'content-encoding': 'gzip', 'content-type': 'application/json' } },
];

const environments = {
  'set up': {
    CORS_ORIGINS: 'https://www.example.no',
    CRON_SECRET: 'a-secret-of-the-test',
    OPERATOR_JWT_SECRET: 'a secret of thirty-two bytes or more',
    WEBHOOK_CARDPAYMENTS_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
    ANTHROPIC_API_KEY: 'sk-ant-x',
    ANTHROPIC_BASE_URL: 'http://127.0.0.1:9',
  },
  'not set up': {},
  'set up wrongly': { CORS_ORIGINS: 'nonsense', CRON_SECRET: 'short' },
};

const UNSET = [
  'DATABASE_URL',
  'UPSTASH_REDIS_REST_URL',
  'UPSTASH_REDIS_REST_TOKEN',
  'SENDGRID_API_KEY',
  'ANTHROPIC_API_KEY',
];

describe('a browser takes no answer for what it is not', () => {
  test.each(
    files.flatMap((file) =>
      Object.entries(environments).map(([name, variables]) => [file, name, variables] as const),
    ),
  )('of api/%s, %s', async (file, name, variables) => {
    for (const variable of UNSET) vi.stubEnv(variable, undefined);
    for (const [variable, value] of Object.entries({ VERCEL: '1', ...variables }))
      vi.stubEnv(variable, value);
    vi.resetModules();
    const { default: fn } = (await import(new URL(file, folder).href)) as { default: Endpoint };
    const own = `/api/${file.replace(/(\/index)?\.ts$/, '').replace('[provider]', 'cardpayments')}`;
    const statuses = new Set<number>();
    for (const path of [own, own.replace(/^\/api/, ''), ...(paths[file] ?? [])]) {
      for (const init of requests) {
        const response = await fn.fetch(new Request(`https://postbud.example${path}`, init));
        statuses.add(response.status);
        const at = `${init.method} ${path} ${response.status}`;
        expect(`${at} ${response.headers.get('x-content-type-options')}`).toBe(`${at} nosniff`);
        await response.body?.cancel();
      }
    }
    if (name !== 'set up wrongly') expect(statuses.size).toBeGreaterThan(1);
  });

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

  test.each(Object.entries(answers))('whatever a handler answers: %s', async (_, handle) => {
    for (const body of [undefined, { schema: z.unknown(), limitBytes: 9 }]) {
      const { fetch } = body
        ? guardedEndpoint({ methods: ['POST'], body, handle })
        : guardedEndpoint({ methods: ['POST'], handle });
      const headers = { 'content-type': 'application/json' };
      const request = new Request('https://postbud.example/', { method: 'POST', body: '{}', headers });
      const response = await fetch(request);
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    }
  });

  test('also where a page of a problem can’t be written', async () => {
    const { fetch } = guardedEndpoint({
      methods: ['GET'],
      handle: () => Promise.reject(new Problem('not_found')),
      problemAnswer: () => {
        throw new Error('x');
      },
    });
    const response = await fetch(new Request('https://postbud.example/'));
    expect([response.status, response.headers.get('x-content-type-options')]).toEqual([404, 'nosniff']);
  });
});
