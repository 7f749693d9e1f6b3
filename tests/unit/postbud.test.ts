import { afterEach, beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => vi.resetModules());
afterEach(() => vi.unstubAllEnvs());

test('a webhook secret of two endpoints is reported once, and not shown', async () => {
  vi.stubEnv('WEBHOOK_CARDPAYMENTS_SECRET', 'shared-secret');
  vi.stubEnv('WEBHOOK_WALLETPAYMENTS_SECRET', 'own-secret');
  vi.stubEnv('WEBHOOK_IDENTITYPROVIDER_SECRET', 'shared-secret');
  const { logTo } = await import('../../lib/platform/log.ts');
  const lines: object[] = [];
  logTo((line) => lines.push(line));
  const { config } = await import('../../lib/components/postbud.ts');
  config();
  config();
  expect(lines).toEqual([
    {
      level: 'warn',
      at: expect.any(String),
      message: 'webhook endpoints have a secret in common',
      endpoints: ['cardpayments', 'identityprovider'],
    },
  ]);
});

test('a misspelt variable is logged once, and with less urgency if it may be of another program', async () => {
  vi.stubEnv('SUBSCRIBER_LEDGER_TOPIC', 'payment.captured');
  vi.stubEnv('WEBHOOK_URL', 'https://chat.example.no');
  const { logTo } = await import('../../lib/platform/log.ts');
  const lines: object[] = [];
  logTo((line) => lines.push(line));
  const { config } = await import('../../lib/components/postbud.ts');
  config();
  config();
  expect(lines).toMatchObject([
    { level: 'error', variable: 'SUBSCRIBER_LEDGER_TOPIC' },
    { level: 'warn', variable: 'WEBHOOK_URL' },
  ]);
});

test('only relays know that subscribers take smoke tests: their options are not those of the subscribers', async () => {
  vi.stubEnv('VERCEL', '1');
  vi.stubEnv('DATABASE_URL', 'postgres://postbud@db.example.no/postbud');
  vi.stubEnv('SUBSCRIBER_LEDGER_URL', 'https://ledger.example.no/events');
  vi.stubEnv('SUBSCRIBER_LEDGER_SECRET', `whsec_${Buffer.alloc(32, 5).toString('base64')}`);
  const { relayedSubscribers, subscribers } = await import('../../lib/components/database.ts');
  const ofLedger = (all: ReturnType<typeof subscribers>) =>
    all.filter(({ name }) => name === 'ledger').map(({ outage }) => outage);
  expect(ofLedger(subscribers())).toEqual(['wait']);
  expect(ofLedger(relayedSubscribers())).toEqual(['wait', 'off']);
  // Relays keep what they know of a list by the list.
  expect(relayedSubscribers()).toBe(relayedSubscribers());
});
