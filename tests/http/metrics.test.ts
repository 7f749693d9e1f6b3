import { SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import { catalog } from '../../lib/catalog/catalog.ts';
import type { Endpoint } from '../../lib/http/guarded-endpoint.ts';
import { readMetrics } from '../../lib/operators/metrics/read.ts';
import { pause } from '../../lib/deliveries/pause.ts';
import { PermanentError, RetryAfter } from '../../lib/subscribers/outcome.ts';
import { attach } from '../../lib/subscribers/subscriber.ts';
import { payments } from '../../lib/subscribers/payments.ts';
import { settleSetAside } from '../../lib/subscribers/payments/set-aside.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/time.ts';
import { START, drain, emitPayments, openBus, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { cardSucceeded, webhookOf } from '../support/payments.ts';

const SECRET = 'an operator secret of the tests, 32 bytes and more';

let bus: Bus;
let metrics: Endpoint;
beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
  const variables = { OPERATOR_JWT_SECRET: SECRET, DATABASE_URL: bus.url };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  metrics = (await import('../../api/platform/metrics.ts')).default;
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await bus.close();
});
beforeEach(async () => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await bus.reset();
  await rows(bus.db, 'truncate pauses, webhook_rejections, webhooks_set_aside');
  await rows(bus.db, 'update last_pass set at = null');
});
afterEach(() => vi.restoreAllMocks());

async function token(scope: string): Promise<string> {
  const iat = Math.floor(Date.now() / SECOND);
  const claims = { iss: 'postbud', aud: 'postbud-operators', sub: 'prometheus', iat, exp: iat + 300, scope };
  return await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(SECRET));
}

async function ask({ scope, method = 'GET' }: { scope?: string; method?: string } = {}): Promise<Response> {
  const headers = {
    // As Prometheus asks.
    accept: 'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1',
    ...(scope !== undefined && { authorization: `Bearer ${await token(scope)}` }),
  };
  return await metrics.fetch(new Request('https://postbud.example/platform/metrics', { method, headers }));
}

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
    expect(families.get(name!), `the type of ${name}`).toMatch(/^(gauge|counter)$/);
    expect(samples.has(name! + labels), `${name}${labels} is there once`).toBe(false);
    samples.set(name! + labels, Number(value!.replace('Inf', 'Infinity')));
  }
  expect([...explained]).toEqual([...families.keys()]);
  return samples;
}

/** The metrics with the clock some time after the tests' own. */
async function samplesAt(afterMs: number, attached = [ledger()]): Promise<Map<string, number>> {
  return samplesOf(await readMetrics(bus.db, attached, new Date(START + afterMs)));
}

const ledger = (handle: () => unknown = () => undefined) => attach('ledger', { 'payment.captured': handle });
const throws = (error: Error) =>
  ledger(() => {
    throw error;
  });
const LEDGER = 'topic="payment.captured",subscriber="ledger"';

describe('GET /platform/metrics', () => {
  test('answers an operator’s token that may read, in the text format', async () => {
    await emitPayments(bus.db, 1, 3);
    const response = await ask({ scope: 'event-bus:read' });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const samples = samplesOf(await response.text());
    expect(samples.get('postbud_events{topic="payment.captured",state="pending"}')).toBe(3);
    expect(samples.get(`postbud_deliveries{${LEDGER},state="pending"}`)).toBe(3);
  });

  test.each([
    ['no token', 401, 'unauthorized', 'Bearer', {}],
    [
      'a token that may not read',
      403,
      'insufficient_scope',
      'insufficient_scope',
      { scope: 'event-bus:replay' },
    ],
  ])('answers %s with %i and no metrics', async (_, status, code, challenge, asked) => {
    const response = await ask(asked);
    expect(response.status).toBe(status);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.headers.get('www-authenticate')).toContain(challenge);
    expect(await response.json()).toMatchObject({ status, code });
  });

  test('answers HEAD without a body, and anything else with 405', async () => {
    const head = await ask({ scope: 'event-bus:read', method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    const posted = await ask({ scope: 'event-bus:read', method: 'POST' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });
});

describe('the metrics', () => {
  test('have every topic and subscription of the catalog, and no label from anywhere else', async () => {
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

  test('count what waits, what fails and what was given up', async () => {
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
    expect(samples.get('postbud_events_awaiting_fan_out{topic="payment.captured"}')).toBe(1);
    expect(samples.get(`postbud_lanes_blocked{${LEDGER}}`)).toBe(1);
  });

  test('count a lane that was asked to wait as blocked, until it is due', async () => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'a' });
    await emitPayments(bus.db, 3, 3, { orderingKey: 'b' });
    await drain(bus.db, [throws(new RetryAfter(MINUTE))]);
    expect((await samplesAt(0)).get(`postbud_lanes_blocked{${LEDGER}}`)).toBe(2);
    const later = await samplesAt(2 * MINUTE);
    expect(later.get(`postbud_lanes_blocked{${LEDGER}}`)).toBe(0);
    expect(later.get(`postbud_oldest_due_age_seconds{${LEDGER}}`)).toBe(60);
    expect(later.get('postbud_relay_lag_seconds')).toBe(60);
  });

  test('tell how long ago a relay looked for work, and that none ever has', async () => {
    expect((await samplesAt(0)).get('postbud_relay_last_pass_age_seconds')).toBe(Infinity);
    await drain(bus.db, []);
    expect((await samplesAt(90 * SECOND)).get('postbud_relay_last_pass_age_seconds')).toBe(90);
  });

  test('tell who is not attached, and who is paused', async () => {
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

  test('count what each subscriber was delivered, what failed and what was given up, over midnight too', async () => {
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

  test('count the webhooks that were refused today', async () => {
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at)
       values ('cardpayments', 'invalid_signature', '2031-05-04', 7, now()),
         ('cardpayments', 'invalid_signature', '2031-05-03', 50, now())`,
    );
    const refused = 'postbud_webhooks_rejected_total{provider="cardpayments",reason="invalid_signature"}';
    expect((await samplesAt(0)).get(refused)).toBe(7);
  });

  test('count the payment webhooks that were set aside, and those that found no intent in time', async () => {
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

  test('write a label so that no character of it ends it', async () => {
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at)
       values ('cardpayments', $1, '2031-05-04', 1, now())`,
      ['a "quoted" back\\slash\non two lines'],
    );
    const labels = String.raw`provider="cardpayments",reason="a \"quoted\" back\\slash\non two lines"`;
    expect((await samplesAt(0)).get(`postbud_webhooks_rejected_total{${labels}}`)).toBe(1);
  });
});
