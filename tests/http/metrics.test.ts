import { describe, expect, vi } from 'vitest';

import { catalog, subscriberNames } from '../../lib/bus/catalog/catalog.ts';
import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { addHealth } from '../../lib/components/subscriber-health/add-health.ts';
import { addDelivered, emptyTally } from '../../lib/components/subscriber-health/tally.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { payments } from '../../lib/components/payments.ts';
import { settleSetAside } from '../../lib/components/payments/set-aside.ts';
import { forgetHours } from '../../lib/components/subscriber-health/forget-hours.ts';
import { sampleBacklog } from '../../lib/components/subscriber-health/sample-backlog.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { START, drain, emitPayments, rows } from '../support/bus.ts';
import { OPERATOR_SECRET, operatorToken } from '../support/operator-token.ts';
import { cardSucceeded, webhookOf } from '../support/payments.ts';

const test = busTest
  .extend('metrics', { scope: 'file' }, async ({ database }) => {
    vi.stubEnv('OPERATOR_JWT_SECRET', OPERATOR_SECRET);
    vi.stubEnv('DATABASE_URL', database.url);
    vi.resetModules();
    return (await import('../../api/platform/metrics.ts')).default;
  })
  .extend('ask', ({ metrics, output }) => async () => {
    // What is logged of a request, nobody reads.
    output.text();
    const headers = {
      // As Prometheus asks.
      accept: 'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1',
      authorization: `Bearer ${await operatorToken({ scope: 'event-bus:read' })}`,
    };
    return await metrics.fetch(new Request('https://postbud.example/platform/metrics', { headers }));
  })
  /** The metrics with the clock some time after the tests' own. */
  .extend('samplesAt', ({ bus }) => async (afterMs: number) => {
    return samplesOf(await readMetrics(bus.db, [ledger()], new Date(START + afterMs)));
  });

/** Reads the text format by its grammar. @returns each sample's value, by its name and labels as they are written. */
function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  const families = new Map<string, string>();
  const explained = new Set<string>();
  expect(text.endsWith('\n')).toBe(true);
  for (const line of text.split('\n').filter(Boolean)) {
    const [, kind, family, words] = /^# (HELP|TYPE) ([a-z_:]+) (.+)$/.exec(line) ?? [];
    if (kind === 'TYPE') {
      expect(families.has(family!), `${family} is declared once`).toBe(false);
      expect(family!.endsWith('_total'), `${family} is a ${words}`).toBe(words === 'counter');
      families.set(family!, words!);
    }
    if (kind === 'HELP') {
      expect(explained.has(family!), `${family} is explained once`).toBe(false);
      explained.add(family!);
    }
    if (kind !== undefined) continue;
    const sample =
      /^([a-z_:]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? (-?[0-9.e+]+|[+-]Inf|NaN)$/.exec(line);
    expect(sample, line).not.toBeNull();
    const [, name, labels = '', value] = sample!;
    const isPart = !families.has(name!);
    const whole = isPart ? name!.replace(/_(bucket|sum|count)$/, '') : name!;
    expect(families.get(whole), `the type of ${name}`).toMatch(isPart ? /^histogram$/ : /^(gauge|counter)$/);
    expect(samples.has(name! + labels), `${name}${labels} is there once`).toBe(false);
    samples.set(name! + labels, Number(value!.replace('Inf', 'Infinity')));
  }
  expect([...explained]).toEqual([...families.keys()]);
  return samples;
}

const ledger = (handle: () => unknown = () => undefined) => attach('ledger', { 'payment.captured': handle });
const throws = (error: Error) =>
  ledger(() => {
    throw error;
  });
const LEDGER = 'topic="payment.captured",subscriber="ledger"';

describe('GET /platform/metrics', () => {
  test('the metrics are answered as text to a token that may read', async ({ bus, ask }) => {
    await emitPayments(bus.db, 1, 3);
    const response = await ask();
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const samples = samplesOf(await response.text());
    expect(samples.get('postbud_events{topic="payment.captured",state="pending"}')).toBe(3);
    expect(samples.get(`postbud_deliveries{${LEDGER},state="pending"}`)).toBe(3);
  });
});

describe('the metrics', () => {
  test('the metrics have every topic and subscription of the catalog, and no other label', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'kanari', correlationId: 'kanari', dedupeKey: 'kanari' });
    const text = await readMetrics(bus.db, [ledger()]);
    const samples = samplesOf(text);
    for (const [topic, { subscribers }] of Object.entries(catalog)) {
      expect(samples.has(`postbud_events{topic="${topic}",state="failing"}`)).toBe(true);
      for (const name of subscribers) {
        const labels = `{topic="${topic}",subscriber="${name}"}`;
        expect(samples.has(`postbud_lanes_blocked${labels}`)).toBe(true);
        expect(samples.get(`postbud_deliveries_delivered_total${labels}`)).toBe(0);
      }
    }
    expect(text).not.toContain('kanari');
  });

  test('the metrics count deliveries that wait, fail and are dead', async ({ bus, samplesAt }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [throws(new PermanentError('no'))]);
    await emitPayments(bus.db, 3, 4);
    await drain(bus.db, [throws(new Error('no'))]);
    await emitPayments(bus.db, 5, 5);
    const samples = await samplesAt(0);
    const states = ['pending', 'failing', 'dead_lettered'].map((state) =>
      samples.get(`postbud_deliveries{${LEDGER},state="${state}"}`),
    );
    expect(states).toEqual([2, 1, 2]);
    expect(samples.get('postbud_events_awaiting_place{topic="payment.captured"}')).toBe(1);
    expect(samples.get(`postbud_lanes_blocked{${LEDGER}}`)).toBe(1);
  });

  test('a lane that its handler asked to wait counts as blocked until it is due', async ({
    bus,
    samplesAt,
  }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'a' });
    await emitPayments(bus.db, 3, 3, { orderingKey: 'b' });
    await drain(bus.db, [throws(new RetryAfter(MINUTE))]);
    expect((await samplesAt(0)).get(`postbud_lanes_blocked{${LEDGER}}`)).toBe(2);
    const later = await samplesAt(2 * MINUTE);
    expect(later.get(`postbud_lanes_blocked{${LEDGER}}`)).toBe(0);
    expect(later.get(`postbud_oldest_due_age_seconds{${LEDGER}}`)).toBe(60);
    expect(later.get('postbud_relay_lag_seconds')).toBe(60);
  });

  test('the age of the relay’s last pass is infinite before the first one', async ({ bus, samplesAt }) => {
    expect((await samplesAt(0)).get('postbud_relay_last_pass_age_seconds')).toBe(Infinity);
    await drain(bus.db, []);
    expect((await samplesAt(90 * SECOND)).get('postbud_relay_last_pass_age_seconds')).toBe(90);
  });

  test('the metrics show unattached and paused subscriptions', async ({ bus, samplesAt }) => {
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'kanari');
    const samples = await samplesAt(0);
    const bookings = 'topic="payment.captured",subscriber="bookings"';
    for (const [name, ofLedger, ofBookings] of [
      ['unattached', 0, 1],
      ['paused', 1, 0],
    ] as const) {
      expect(samples.get(`postbud_subscription_${name}{${LEDGER}}`)).toBe(ofLedger);
      expect(samples.get(`postbud_subscription_${name}{${bookings}}`)).toBe(ofBookings);
    }
  });

  test('the totals of each subscription go on over midnight', async ({ bus, samplesAt }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger()], { now: START - DAY });
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [throws(new PermanentError('no'))]);
    await emitPayments(bus.db, 4, 4);
    await drain(bus.db, [throws(new Error('no'))]);
    const bookings = 'topic="payment.captured",subscriber="bookings"';
    for (const samples of [await samplesAt(0), await samplesAt(DAY)]) {
      expect(samples.get(`postbud_deliveries_delivered_total{${LEDGER}}`)).toBe(2);
      expect(samples.get(`postbud_attempts_failed_total{${LEDGER}}`)).toBe(2);
      expect(samples.get(`postbud_deliveries_dead_lettered_total{${LEDGER}}`)).toBe(1);
      expect(samples.get(`postbud_deliveries_delivered_total{${bookings}}`)).toBe(0);
    }
  });

  test('the metrics count the webhooks that were refused today', async ({ bus, samplesAt }) => {
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at)
       values ('cardpayments', 'invalid_signature', '2031-05-04', 7, now()),
         ('cardpayments', 'invalid_signature', '2031-05-03', 50, now())`,
    );
    const refused = 'postbud_webhooks_rejected_total{provider="cardpayments",reason="invalid_signature"}';
    expect((await samplesAt(0)).get(refused)).toBe(7);
  });

  test('the metrics count what became of today’s chat calls and mails, and say how far the budgets are used', async ({
    bus,
    samplesAt,
  }) => {
    await rows(
      bus.db,
      `insert into edge_counts (source, outcome, day, count, last_at) values ('chat', 'provider_timeout', '2031-05-04', 3, now()),
         ('chat', 'answered', '2031-05-03', 50, now()), ('chat', 'budget_80', '2031-05-04', 4, now()),
         ('inquiry', 'mailed', '2031-05-04', 7, now()), ('inquiry', 'budget_100', '2031-05-03', 1, now())`,
    );
    const samples = await samplesAt(0);
    const ofChat = (outcome: string) => samples.get(`postbud_chat_calls_total{outcome="${outcome}"}`);
    expect([ofChat('provider_timeout'), ofChat('answered'), ofChat('provider_rejected')]).toEqual([3, 0, 0]);
    const ofMail = (outcome: string) => samples.get(`postbud_inquiry_mails_total{outcome="${outcome}"}`);
    expect([ofMail('mailed'), ofMail('email_failed')]).toEqual([7, 0]);
    const reached = ['chat', 'inquiry'].flatMap((budget) =>
      [80, 100].map((percent) =>
        samples.get(`postbud_budget_reached{budget="${budget}",percent="${percent}"}`),
      ),
    );
    expect(reached).toEqual([1, 0, 0, 0]);
  });

  test('the metrics count payment webhooks that wait for an intent or found none in time', async ({
    bus,
    samplesAt,
  }) => {
    await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_1'));
    await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_2'));
    await drain(bus.db, [payments], { now: START - 72 * HOUR });
    await settleSetAside(bus.db, new Date(START));
    await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_3'));
    await drain(bus.db, [payments]);
    const samples = await samplesAt(0);
    const counts = ['cardpayments', 'walletpayments'].flatMap((provider) =>
      ['waiting', 'unclaimed'].map((state) =>
        samples.get(`postbud_webhooks_set_aside{provider="${provider}",state="${state}"}`),
      ),
    );
    expect(counts).toEqual([1, 2, 0, 0]);
  });

  test('a label with quotes, backslashes and line breaks is escaped', async ({ bus, samplesAt }) => {
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at)
       values ('cardpayments', $1, '2031-05-04', 1, now())`,
      ['a "quoted" back\\slash\non two lines'],
    );
    const labels = String.raw`provider="cardpayments",reason="a \"quoted\" back\\slash\non two lines"`;
    expect((await samplesAt(0)).get(`postbud_webhooks_rejected_total{${labels}}`)).toBe(1);
  });

  test('the metrics have the times of each subscriber as histograms that only grow, one series for each fourfold time', async ({
    bus,
    samplesAt,
  }) => {
    const before = await samplesAt(0);
    expect(before.get('postbud_delivery_seconds_count{subscriber="ledger"}')).toBe(0);
    const tally = emptyTally('ledger');
    const replayed = { atMs: START, durationMs: 100, recordedAtMs: START - DAY, replays: 1 };
    for (const ms of [3, 5, 2000])
      addDelivered(tally, { atMs: START, durationMs: 2, recordedAtMs: START + 2 - ms, replays: 0 });
    addDelivered(tally, replayed);
    await addHealth(bus.db, [tally]);
    // Hours are forgotten, totals are not.
    await forgetHours(bus.db, new Date(START));
    const samples = await samplesAt(0);
    const bucket = (name: string, le: string) =>
      samples.get(`postbud_${name}_seconds_bucket{subscriber="ledger",le="${le}"}`);
    expect(['0.001', '0.004', '0.016', '1.024', '4.096', '+Inf'].map((le) => bucket('delivery', le))).toEqual(
      [0, 1, 2, 2, 3, 3],
    );
    expect(samples.get('postbud_delivery_seconds_sum{subscriber="ledger"}')).toBeCloseTo(2.008, 6);
    expect(bucket('handler', '+Inf')).toBe(4);
    expect(samples.get('postbud_handler_seconds_count{subscriber="ledger"}')).toBe(4);
    const series = [...samples.keys()].filter((key) => /_seconds_(bucket|sum|count)\{/.test(key));
    expect(series).toHaveLength(2 * subscriberNames().length * 18);
  });

  test('the metrics have the greatest age of this hour’s samples of each backlog', async ({
    bus,
    samplesAt,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await rows(bus.db, 'update events set created_at = $1::timestamptz', [new Date(START).toISOString()]);
    await drain(bus.db, [throws(new Error('no'))]);
    await sampleBacklog(bus.db, new Date(START + 40 * SECOND));
    await drain(bus.db, [ledger()], { now: START + 2 * MINUTE });
    await sampleBacklog(bus.db, new Date(START + 2 * MINUTE));
    const age = 'postbud_backlog_age_seconds{subscriber="ledger"}';
    expect((await samplesAt(2 * MINUTE)).get(age)).toBe(40);
    expect((await samplesAt(2 * HOUR)).get(age)).toBe(0);
  });
});
