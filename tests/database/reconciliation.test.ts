import { describe, expect } from 'vitest';
import { z } from 'zod';

import { payments } from '../../lib/components/payments.ts';
import { reconciling } from '../../lib/edge/cron/reconciling.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { InvalidConfiguration } from '../../lib/platform/config.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { contradictions, drainLive, emitPayments, rows } from '../support/bus.ts';
import { PATIENTLY } from '../support/patience.ts';
import { told } from '../support/payments.ts';
import type { Misbehaviour } from '../support/provider-apis.ts';
import { intend, NOBODY, pay, play, SEED, test } from '../support/provider-story.ts';

describe('providers that lose 30 % of their webhooks, delay 10 % and double 10 %', () => {
  test('after a reconciliation the receipts equal their ledger, and each payment is told once', async ({
    story,
  }) => {
    const { late, lost, expected } = await play(story);
    expect(late.length).toBeGreaterThan(3);
    expect(lost).toBeGreaterThan(10);
    await drainLive(story.bus.db, [payments]);
    expect(await story.receipts()).not.toEqual(story.ledger());
    await story.reconcile();
    expect(await story.receipts()).toEqual(story.ledger());
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
    // What comes after all is a duplicate, and no mismatch, although its body is not the API's byte for byte.
    for (const what of late)
      expect(await story.send(what)).toMatchObject({ status: 200, json: { duplicate: true } });
    await story.reconcile();
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
    const [counted] = await rows(
      story.bus.db,
      `select count(*) filter (where reconciled_at is not null)::int as found, sum(body_mismatches)::int as mismatches,
         (select sum(found)::int from reconciliations) as counted from webhook_receipts`,
    );
    expect(counted).toEqual({ found: lost + late.length, mismatches: 0, counted: lost + late.length });
    expect(await contradictions(story.bus.db)).toEqual([]);
  });

  test('without a reconciliation the lost webhooks are missing, and payments are never told', async ({
    story,
  }) => {
    const { late, lost, expected } = await play(story);
    for (const what of late) await story.send(what);
    await drainLive(story.bus.db, [payments]);
    expect(story.ledger().length - (await story.receipts()).length).toBe(lost);
    expect((await told(story.bus.db)).length).toBeLessThan(expected.length);
  });

  test('a process that dies before it records how far it is repeats its step, and finds nothing twice', async ({
    story,
  }) => {
    const { expected } = await play(story, SEED + 2);
    await story.reconcile();
    await rows(story.bus.db, 'truncate reconciliations');
    await rows(story.bus.db, 'update payment_intents set ask_at = now()');
    await story.reconcile();
    expect([await story.progress('cardpayments'), await story.progress('walletpayments')]).toMatchObject([
      { found: 0, failures: 0 },
      { found: 0, failures: 0 },
    ]);
    expect(await story.receipts()).toEqual(story.ledger());
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
  });

  test('eight processes that reconcile while webhooks come find each event once, and ask each page once', async ({
    story,
  }) => {
    const { late, expected } = await play(story, SEED + 1);
    story.now += 20 * MINUTE;
    for (let turn = 0; turn < 20; turn += 1) {
      const arriving = late.splice(0, 2).map((what) => story.send(what));
      await Promise.all([...arriving, ...Array.from({ length: 8 }, () => story.step())]);
      story.now += 10 * SECOND;
    }
    expect(await story.receipts()).toEqual(story.ledger());
    const logs = story.apis.asked.filter((path) => path.startsWith('/epayment/'));
    expect(new Set(logs).size).toBe(logs.length);
    await drainLive(story.bus.db, [payments]);
    expect((await told(story.bus.db)).toSorted()).toEqual(expected);
  });
});

describe('a provider that does not answer as it should', () => {
  const cases: readonly (readonly [Misbehaviour, error: string, waitMs: number])[] = [
    [500, 'answered 500', MINUTE],
    [401, 'answered 401: it does not accept the key', MINUTE],
    [403, 'answered 403: the key lacks a permission', MINUTE],
    [{ status: 302, retryAfter: '' }, 'answered 302', MINUTE],
    [{ status: 429, retryAfter: '90' }, 'answered 429: too many requests', 90 * SECOND],
    [{ status: 503, retryAfter: '1' }, 'answered 503', MINUTE],
    [{ status: 429, retryAfter: '999999' }, 'answered 429: too many requests', HOUR],
    ['reset', 'unreachable UND_ERR_SOCKET', MINUTE],
    ['html', 'answered something that cannot be read', MINUTE],
    ['other JSON', 'answered something that cannot be read', MINUTE],
    ['endless', 'answered more than 16 MiB', MINUTE],
  ];
  test.for(cases)(
    'after %j it is asked again later, and nothing is lost',
    async ([how, error, waitMs], { story }) => {
      await pay(story, 3);
      story.now += 20 * MINUTE;
      for (const provider of ['cardpayments', 'walletpayments'] as const) {
        const only = { ...NOBODY, [provider]: story.apis.settings[provider] };
        story.apis.behave([how]);
        expect(await story.step(only)).toBe(waitMs);
        expect(await story.progress(provider)).toMatchObject({ failures: 1, error, waitMs });
        const calls = story.apis.asked.length;
        story.now += waitMs - 1;
        await story.step(only);
        expect(story.apis.asked).toHaveLength(calls);
        story.now += 1;
        await story.reconcile(only);
        expect(await story.progress(provider)).toMatchObject({ failures: 0, found: 3 });
      }
      expect(await story.receipts()).toEqual(story.ledger());
    },
  );

  test('waits longer after each failure, up to half an hour', async ({ story }) => {
    story.apis.behave([], 500);
    const waits: (number | null)[] = [];
    for (let failure = 0; failure < 8; failure += 1) {
      const waitMs = await story.step({ ...NOBODY, cardpayments: story.apis.settings.cardpayments });
      waits.push(waitMs! / MINUTE);
      story.now += waitMs!;
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 30, 30, 30]);
  });

  test('keeps the cron from nothing while it hangs: events are delivered, and the run ends', async ({
    story,
    ledger,
    handed,
  }) => {
    story.apis.behave([], 'hang');
    await emitPayments(story.bus.db, 1, 1);
    const running = runCron({
      db: story.bus.db,
      subscribers: [ledger()],
      duties: [],
      work: [reconciling(() => story.apis.settings)],
      budgetMs: 1 * SECOND,
    });
    await expect.poll(() => story.apis.asked.length, PATIENTLY).toBe(1);
    await expect.poll(() => handed, PATIENTLY).toEqual([1]);
    const report = z.object({ undone: z.array(z.string()) }).parse(await (await running).json());
    expect(report.undone).toEqual([]);
    story.now = Date.now();
    expect(await story.progress('cardpayments')).toMatchObject({
      failures: 1,
      error: 'did not answer in time',
    });
  });
});

test('providers are asked although a clock that was ahead had put that off by days', async ({ story }) => {
  await intend(story, 'wallet-open');
  await intend(story, 'wallet-captured');
  story.log('wallet-captured', 'CAPTURED', 900);
  await story.reconcile();
  await drainLive(story.bus.db, [payments]);
  await rows(story.bus.db, `update reconciliations set next_at = next_at + interval '2 days'`);
  await rows(
    story.bus.db,
    `update payment_intents set ask_at = ask_at + case when state = 'created' then 2 else 8 end * interval '1 day'`,
  );
  story.happen('payment_intent.succeeded', { id: 'pi_1', amount_received: 900, currency: 'nok' });
  story.log('wallet-open', 'CAPTURED', 900);
  story.log('wallet-captured', 'REFUNDED', 900);
  await story.reconcile();
  expect(await story.receipts()).toEqual(story.ledger());
});

test('nobody is asked without a key, and a wrong key of one provider leaves the other', async ({ story }) => {
  await pay(story, 1);
  story.now += 20 * MINUTE;
  expect(await story.step(NOBODY)).toBeNull();
  expect(story.apis.asked).toEqual([]);
  const wrong = Object.defineProperty({ ...story.apis.settings }, 'cardpayments', {
    enumerable: true,
    get: () => {
      throw new InvalidConfiguration('WEBHOOK_CARDPAYMENTS_RECONCILE_KEY', 'must be another');
    },
  });
  await story.step(wrong);
  expect(story.apis.asked.filter((path) => path.startsWith('/v1'))).toEqual([]);
  expect(await story.receipts()).toHaveLength(1);
});
