import type { SmokeTest } from './view.ts';

/** A smoke test of a deployment with one provider, one component elsewhere, and one that is not attached. */
export const smokeTestExample: SmokeTest = {
  generatedAt: '2026-02-21T09:31:02.000Z',
  test: {
    smokeTestId: '019c7f41-0f4e-7a61-9c53-5f0f8f1f2a11',
    startedAt: '2026-02-21T09:31:00.000Z',
    startedBy: 'kari@example.no',
    origin: 'https://postbud.example.no',
    state: 'arrived',
  },
  relay: { state: 'running', runsHere: true, lastPassAt: '2026-02-21T09:31:01.204Z' },
  webhooks: [
    {
      provider: 'cardpayments',
      scheme: 'stripe',
      state: 'arrived',
      status: 200,
      durationMs: 84,
      receiptStored: true,
      eventId: '019c7f41-0f9c-7d2e-8b0a-6a1e2f3c4d55',
      deliveries: [{ subscriber: 'payments', state: 'arrived', afterMs: 41 }],
      problem: null,
    },
    {
      provider: 'walletpayments',
      scheme: null,
      state: 'not_configured',
      status: null,
      durationMs: null,
      receiptStored: false,
      eventId: null,
      deliveries: [],
      problem: 'set WEBHOOK_WALLETPAYMENTS_SECRET',
    },
  ],
  subscribers: [
    {
      subscriber: 'accounting',
      place: 'elsewhere',
      state: 'arrived',
      afterMs: 212,
      attempts: 1,
      problem: null,
      toAttach: null,
      topics: { listed: 41, attached: 41 },
      waiting: { deliveries: 0, oldestAt: null },
    },
    {
      subscriber: 'ledger',
      place: null,
      state: 'unattached',
      afterMs: null,
      attempts: 0,
      problem: null,
      toAttach: 'set SUBSCRIBER_LEDGER_URL and SUBSCRIBER_LEDGER_SECRET',
      topics: { listed: 18, attached: 0 },
      waiting: { deliveries: 12, oldestAt: '2026-02-20T16:02:11.480Z' },
    },
  ],
  topics: { total: 148, deliverable: 41, waitFor: [{ subscriber: 'ledger', topics: 18 }] },
};
