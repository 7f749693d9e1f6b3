import { expect } from 'vitest';

import { examine } from '../../lib/bus/doctor/examine.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { webhookQuery } from '../../lib/console/webhooks/fields.ts';
import { readWebhooks } from '../../lib/console/webhooks/read.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import { NOBODY, pay, SIGNED, test } from '../support/provider-story.ts';
import type { Story } from '../support/provider-story.ts';

const list = async ({ bus }: Story, reconciliations = NOBODY) =>
  await readWebhooks(bus.db, endpointsOf({ webhooks: SIGNED, reconciliations }), webhookQuery.parse({}));

test('the webhooks page says when each provider was asked, what was found, and how asking failed last', async ({
  story,
}) => {
  await pay(story, 2);
  story.apis.behave([500], null, /^\/v1/);
  await story.reconcile();
  const { providers } = await list(story, story.apis.settings);
  expect(providers.map(({ provider, reconciliation }) => [provider, reconciliation])).toEqual([
    [
      'cardpayments',
      {
        setting: 'on',
        checkedAt: new Date(story.now).toISOString(),
        found: 2,
        failures: 0,
        lastError: 'answered 500',
      },
    ],
    ['walletpayments', expect.objectContaining({ setting: 'on', found: 2, failures: 0, lastError: null })],
    ['identityprovider', null],
  ]);
});

test('the webhooks page marks a receipt that was found, also after its webhook has come', async ({
  story,
}) => {
  await story.send(story.happen('charge.refunded', { id: 'ch_sent' }));
  const late = story.happen('charge.refunded', { id: 'ch_late' });
  story.happen('charge.refunded', { id: 'ch_lost' });
  await story.reconcile();
  await story.send(late);
  const page = await list(story, story.apis.settings);
  expect(page.items).toMatchObject([
    { providerEventId: 'evt_3', duplicates: 0, reconciledAt: expect.any(String) },
    { providerEventId: 'evt_2', duplicates: 1, mismatches: 0, reconciledAt: expect.any(String) },
    { providerEventId: 'evt_1', duplicates: 0, reconciledAt: null },
  ]);
});

test('a provider without a key is off, and keeps what was found before', async ({ story }) => {
  await pay(story, 1);
  await story.reconcile();
  const { providers } = await list(story);
  expect(providers[0]!.reconciliation).toMatchObject({ setting: 'off', found: 1 });
});

test('the metrics count what was found, and tell how long a provider has not answered', async ({ story }) => {
  await pay(story, 2);
  await story.reconcile();
  story.apis.behave([], 500);
  story.now += HOUR;
  await story.step();
  const text = await readMetrics(story.bus.db, [], new Date(story.now));
  expect(text).toContain('postbud_webhooks_reconciled_total{provider="cardpayments"} 2');
  expect(text).toContain('postbud_reconciliation_age_seconds{provider="cardpayments"} 3600');
});

test('the doctor finds a provider that has not answered for three hours, and none that is no longer asked', async ({
  story,
}) => {
  const findings = async () => (await examine(story.bus.db)).findings;
  await story.reconcile();
  expect(await findings()).toEqual([]);
  const reset = 'update reconciliations set begun_at = $1, succeeded_at = $1, next_at = $2';
  const [longAgo, soon] = [Date.now() - 3.1 * HOUR, Date.now() + MINUTE].map((ms) => new Date(ms));
  await rows(story.bus.db, reset, [longAgo, soon]);
  expect(await findings()).toMatchObject([
    {
      promise: expect.stringContaining('has answered'),
      count: 2,
      examples: expect.arrayContaining(['cardpayments', 'walletpayments']),
    },
  ]);
  await rows(story.bus.db, reset, [longAgo, longAgo]);
  expect(await findings()).toEqual([]);
});
