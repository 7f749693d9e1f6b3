import { afterEach, beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => vi.resetModules());
afterEach(() => vi.unstubAllEnvs());

test('a webhook secret of two providers is reported once, and not shown', async () => {
  vi.stubEnv('WEBHOOK_CARDPAYMENTS_SECRET', 'shared-secret');
  vi.stubEnv('WEBHOOK_WALLETPAYMENTS_SECRET', 'own-secret');
  vi.stubEnv('WEBHOOK_IDENTITYPROVIDER_SECRET', 'shared-secret');
  const { logTo } = await import('../../lib/log.ts');
  const lines: object[] = [];
  logTo((line) => lines.push(line));
  const { config } = await import('../../lib/postbud.ts');
  config();
  config();
  expect(lines).toEqual([
    {
      level: 'warn',
      at: expect.any(String),
      message: 'webhook providers have a secret in common',
      providers: ['cardpayments', 'identityprovider'],
    },
  ]);
});
