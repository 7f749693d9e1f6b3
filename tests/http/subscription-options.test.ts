import { Parser } from '@asyncapi/parser';
import { beforeEach, describe, expect } from 'vitest';

import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { refusalsOf, subscribersOf } from '../../lib/components/registry.ts';
import { shownSubscriber } from '../../lib/console/subscribers/read.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const payments = {
  name: 'payments',
  url: 'https://pay.example.no/events',
  secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  topics: ['booking.approved'],
  isBatch: true,
  outage: 'off',
} as const;

/** Handles a part of payments here and a part elsewhere, and the ledger with every option. */
const attached = [
  ...subscribersOf({ remoteSubscribers: [payments], database: { kind: 'none' } }),
  attach(
    'ledger',
    { 'payment.captured': () => {} },
    {
      transactional: true,
      sharesCommits: false,
      timeoutMs: 30_000,
      maxAttempts: 3,
      afterDeadLetter: 'halt',
      outage: 'wait',
      onReplay: 'refuse',
      rate: '600/m',
      concurrency: 4,
    },
  ),
];

beforeEach<{ operators: Operators }>(({ operators }) => {
  operators.attached = attached;
});

const LEDGER = {
  place: 'in_process',
  invalidVariable: null,
  options: {
    batch: false,
    transactional: true,
    sharesCommits: false,
    timeoutMs: 30_000,
    maxAttempts: 3,
    afterDeadLetter: 'halt',
    outage: 'wait',
    onReplay: 'refuse',
    rate: '600/m',
    concurrency: 4,
  },
};

const ELSEWHERE = {
  place: 'elsewhere',
  invalidVariable: null,
  options: {
    batch: true,
    transactional: false,
    sharesCommits: false,
    timeoutMs: 15_000,
    maxAttempts: 5,
    afterDeadLetter: 'continue',
    outage: 'off',
    onReplay: 'run',
    rate: null,
    concurrency: null,
  },
};

const UNATTACHED = { place: 'unattached', options: null, invalidVariable: null };

/** What a reader sees: no tags, one space where there is any. */
const wordsOf = (page: string) => page.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');

describe('the AsyncAPI document of a server', () => {
  test('each receiving operation says where it is handled and with which options, and the document is valid', async ({
    operators,
  }) => {
    const { json, text } = await operators.ask('/catalog/asyncapi');
    const operations = json['operations'] as Record<string, { action: string; 'x-subscription'?: object }>;
    for (const { action, 'x-subscription': subscription } of Object.values(operations))
      expect(subscription === undefined).toBe(action === 'send');
    const subscriptionOf = (name: string) => operations[name]!['x-subscription'];
    expect(subscriptionOf('ledger.receives.payment.captured')).toEqual(LEDGER);
    expect(subscriptionOf('payments.receives.booking.approved')).toEqual(ELSEWHERE);
    expect(subscriptionOf('payments.receives.booking.cancelled')).toEqual(UNATTACHED);
    expect(subscriptionOf('payments.receives.webhook.cardpayments.received')).toMatchObject({
      place: 'in_process',
      options: { transactional: true },
    });
    const { diagnostics } = await new Parser().parse(text);
    // It would have us write version 3.1.0.
    expect(diagnostics.filter(({ code }) => code !== 'asyncapi-latest-version')).toEqual([]);
  });
});

describe('a subscriber’s page', () => {
  test('a subscriber’s page says of each topic where it is handled, with the options that differ from the defaults', async ({
    operators,
  }) => {
    const { subscriptions } = shownSubscriber.parse((await operators.ask('/subscribers/payments')).json);
    expect(subscriptions).toHaveLength(10);
    const quiet = { inCatalog: true, waiting: 0, deadLettered: 0 };
    expect(subscriptions).toContainEqual({ topic: 'booking.approved', ...quiet, ...ELSEWHERE });
    expect(subscriptions).toContainEqual({ topic: 'booking.expired', ...quiet, ...UNATTACHED });
    const page = wordsOf((await operators.ask('/subscribers/payments', { accept: BROWSER })).text);
    expect(page).toContain(' booking.approved 0 0 elsewhere in batches, does not wait in an outage ');
    expect(page).toContain(' webhook.cardpayments.received 0 0 in this process transactional ');
    expect(page).toContain(' booking.expired 0 0 not attached deliveries wait ');
    const ledger = wordsOf((await operators.ask('/subscribers/ledger', { accept: BROWSER })).text);
    expect(ledger).toContain(
      ' payment.captured 0 0 in this process transactional, each in its own commit, 30 s time limit, 3 attempts, halts after a dead letter, waits in an outage, refuses replays, at most 600/m, 4 at once ',
    );
  });
});

test('a refused address is named where its subscriptions are shown, each by the variable that is wrong', async ({
  operators,
}) => {
  const settings = {
    remoteSubscribers: [{ ...payments, outage: 'wait', topics: undefined } as const],
    database: { kind: 'none' } as const,
  };
  operators.attached = subscribersOf(settings);
  operators.refusals = refusalsOf(settings);
  const pageOf = async (path: string) => wordsOf((await operators.ask(path, { accept: BROWSER })).text);
  expect(await pageOf('/subscribers/payments')).toMatch(
    / booking\.approved 0 0 not attached deliveries wait: SUBSCRIBER_PAYMENTS_TOPICS is missing or invalid \(see the log\) /,
  );
  const { json } = await operators.ask('/catalog/asyncapi');
  expect(json['operations']).toMatchObject({
    'payments.receives.booking.approved': {
      'x-subscription': { ...UNATTACHED, invalidVariable: 'SUBSCRIBER_PAYMENTS_TOPICS' },
    },
  });
});
