import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import type { Health } from '../../lib/edge/health/route.ts';
import { freePort } from '../support/postgres.ts';

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

const UNSET = {
  ANTHROPIC_API_KEY: undefined,
  SENDGRID_API_KEY: undefined,
  FROM_EMAIL: undefined,
  ADMIN_EMAIL: undefined,
  DATABASE_URL: undefined,
  UPSTASH_REDIS_REST_URL: undefined,
  UPSTASH_REDIS_REST_TOKEN: undefined,
  CORS_ORIGINS: undefined,
  VERCEL: undefined,
};
const MAIL = { SENDGRID_API_KEY: 'SG.x', FROM_EMAIL: 'post@site.no', ADMIN_EMAIL: 'admin@site.no' };

/** Asks the function file in a process whose environment holds these variables. */
async function ask(variables: Record<string, string | undefined>, init: RequestInit = {}): Promise<Response> {
  for (const [name, value] of Object.entries({ ...UNSET, ...variables })) vi.stubEnv(name, value);
  vi.resetModules();
  const { default: health } = await import('../../api/health.ts');
  return await health.fetch(new Request('https://postbud.example/api/health', init));
}

const healthOf = async (response: Response) => (await response.json()) as Health;

const flags = async (variables: Record<string, string | undefined>) => {
  const { llmConfigured, emailConfigured, auditConfigured } = await healthOf(await ask(variables));
  return { llmConfigured, emailConfigured, auditConfigured };
};

describe('GET /api/health', () => {
  test('the health has exactly the fields of the contract', async () => {
    const response = await ask({ ...MAIL, ANTHROPIC_API_KEY: 'sk-x' });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(await response.json()).toStrictEqual({
      ok: true,
      uptime: expect.any(Number),
      llmConfigured: true,
      emailConfigured: true,
      auditConfigured: true,
    });
  });

  test('the health has the uptime of the process in seconds', async () => {
    const before = process.uptime();
    const { uptime } = await healthOf(await ask({}));
    expect(uptime).toBeGreaterThanOrEqual(before);
    expect(uptime).toBeLessThanOrEqual(process.uptime());
  });

  test.each([
    ['nothing is set', {}, [false, false, true]],
    ['nothing is set in a deployment', { VERCEL: '1' }, [false, false, false]],
    [
      'a deployment has a database',
      { VERCEL: '1', DATABASE_URL: 'postgres://a.example/b' },
      [false, false, true],
    ],
    ['the key of the model is set', { ANTHROPIC_API_KEY: 'sk-x' }, [true, false, true]],
    ['the key of the model is blank', { ANTHROPIC_API_KEY: '  ' }, [false, false, true]],
    ['mail is set', MAIL, [false, true, true]],
    ['the key of mail is missing', { ...MAIL, SENDGRID_API_KEY: undefined }, [false, false, true]],
    ['the sender is missing', { ...MAIL, FROM_EMAIL: undefined }, [false, false, true]],
    ['the administrator is missing', { ...MAIL, ADMIN_EMAIL: undefined }, [false, false, true]],
    [
      'a variable of the chat is wrong',
      { ...MAIL, ANTHROPIC_API_KEY: 'sk-x', CHAT_MAX_TOKENS: 'many' },
      [false, true, true],
    ],
    ['a variable of the mail is wrong', { ...MAIL, FROM_EMAIL: 'nobody' }, [false, false, true]],
    [
      'the database is embedded in a deployment',
      { VERCEL: '1', DATABASE_URL: 'memory://' },
      [false, false, false],
    ],
  ])(
    'the health shows what is configured when %s',
    async (_, variables, [llmConfigured, emailConfigured, auditConfigured]) => {
      expect(await flags(variables)).toEqual({ llmConfigured, emailConfigured, auditConfigured });
    },
  );

  test('the health is answered without a call to Redis, the model or the database', async () => {
    const nowhere = `127.0.0.1:${await freePort()}`;
    const fetched = vi.fn(() => Promise.reject(new Error('no network')));
    vi.stubGlobal('fetch', fetched);
    const response = await ask({
      ...MAIL,
      ANTHROPIC_API_KEY: 'sk-x',
      DATABASE_URL: `postgres://${nowhere}/none`,
      UPSTASH_REDIS_REST_URL: `http://${nowhere}`,
      UPSTASH_REDIS_REST_TOKEN: 'x',
    });
    expect(await response.json()).toMatchObject({ ok: true, auditConfigured: true });
    expect(fetched).not.toHaveBeenCalled();
  });

  test('the health may be read by pages of any site', async () => {
    const headers = { origin: 'https://evil.example' };
    const response = await ask({ CORS_ORIGINS: 'https://www.site.no', VERCEL: '1' }, { headers });
    expect([response.status, response.headers.get('access-control-allow-origin')]).toEqual([200, '*']);
  });

  test('the health holds no value of the environment', async () => {
    const text = await (await ask({ ...MAIL, ANTHROPIC_API_KEY: 'sk-x' })).text();
    expect(text).not.toMatch(/sk-x|SG\.x|site\.no/);
  });
});
