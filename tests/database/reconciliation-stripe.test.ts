import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { paymentsFrom } from '../../lib/components/payments.ts';
import { acceptWebhook } from '../../lib/components/payments/accept.ts';
import { webhookQuery } from '../../lib/console/webhooks/fields.ts';
import { readWebhooks } from '../../lib/console/webhooks/read.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { readConfig } from '../../lib/platform/config.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import { told } from '../support/payments.ts';
import { STRIPE_KEY } from '../support/provider-apis.ts';
import { intend, NOBODY, pay, test } from '../support/provider-story.ts';
import type { Story } from '../support/provider-story.ts';

describe('Stripe', () => {
  const settingsOf = ({ apis }: Story) => ({ ...NOBODY, cardpayments: apis.settings.cardpayments });

  test('is asked page by page, and an outage between two pages is no reason to begin again', async ({
    story,
  }) => {
    await pay(story, 250);
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(0);
    story.apis.behave(['reset']);
    story.now += (await story.step(settingsOf(story)))!;
    expect(await story.progress('cardpayments')).toMatchObject({
      found: 100,
      failures: 1,
      cursor: 'evt_301',
    });
    while ((await story.step(settingsOf(story))) === 0);
    // A short page after the failure: the whole one may have been too long for its deadline.
    const cursors = story.apis.asked.map((path) =>
      new URL(path, story.apis.url).searchParams.get('starting_after'),
    );
    expect(cursors).toEqual([null, 'evt_301', 'evt_301', 'evt_281', 'evt_81']);
    expect(await story.progress('cardpayments')).toMatchObject({ found: 250, failures: 0, cursor: null });
  });

  test('that no longer knows the event where a walk was is asked from the beginning', async ({ story }) => {
    await pay(story, 150);
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(0);
    const [forgotten] = story.apis.stripe.splice(50, 1);
    expect(await story.progress('cardpayments')).toMatchObject({ cursor: forgotten!.id });
    story.now += (await story.step(settingsOf(story)))!;
    expect(await story.progress('cardpayments')).toMatchObject({ cursor: null, error: 'answered 400' });
    await story.reconcile(settingsOf(story));
    expect(await story.progress('cardpayments')).toMatchObject({ found: 150, failures: 0 });
  });

  test('is asked 30 days back at first, then from the last time on with an hour in common', async ({
    story,
  }) => {
    story.now = Date.parse('2031-05-04T10:00:00Z');
    await story.step(settingsOf(story));
    story.now += 3 * HOUR;
    await story.step(settingsOf(story));
    const range = (path: string) => {
      const { searchParams } = new URL(path, story.apis.url);
      return ['created[gte]', 'created[lt]'].map((name) =>
        new Date(Number(searchParams.get(name)) * SECOND).toISOString(),
      );
    };
    expect(story.apis.asked.map(range)).toEqual([
      ['2031-04-04T09:55:00.000Z', '2031-05-04T09:55:00.000Z'],
      ['2031-05-04T08:55:00.000Z', '2031-05-04T12:55:00.000Z'],
    ]);
  });

  test('lists an event whose webhook may be on its way, which is left to the webhook', async ({ story }) => {
    const paid = { id: 'pi_1', amount_received: 1, currency: 'nok' };
    story.happen('payment_intent.succeeded', paid, { at: story.now - 4 * MINUTE });
    await story.step(settingsOf(story));
    expect(await story.receipts()).toEqual([]);
    story.now += 5 * MINUTE;
    await story.step(settingsOf(story));
    expect(await story.receipts()).toEqual(['cardpayments evt_1']);
  });

  test.for([
    ['a text', 'a\0b'],
    ['a number', 2 ** 53 + 2],
  ])('lists an event with %s that cannot be stored, which keeps back no other', async ([, id], { story }) => {
    await pay(story, 2);
    story.happen('charge.refunded', { id });
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toHaveLength(2);
    expect(await story.progress('cardpayments')).toMatchObject({
      failures: 0,
      error: '1 of 3 events cannot be stored',
    });
  });
});

describe('a thin event of Stripe’s', () => {
  const PATH = '/v1/payment_intents/pi_1';
  const PAID = { id: 'pi_1', object: 'payment_intent', amount_received: 900, currency: 'nok' };

  /** As Stripe sends it. */
  const thin = (more: object = {}) => ({
    id: 'evt_thin_1',
    object: 'v2.core.event',
    type: 'v1.payment_intent.succeeded',
    livemode: false,
    created: '2026-11-28T06:00:00Z',
    related_object: { id: 'pi_1', type: 'payment_intent', url: PATH },
    ...more,
  });

  const KEY = { WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: STRIPE_KEY };
  const settingsOf = ({ apis }: Story) => ({ ...NOBODY, cardpayments: apis.settings.cardpayments });

  const deliver = async ({ bus }: Story, variables: Record<string, string> = KEY) => {
    const { paymentSenders } = readConfig({ VERCEL_ENV: '', ...variables });
    const until = Date.now() + 15 * SECOND;
    return await relay({ db: bus.db, subscribers: [paymentsFrom(paymentSenders)], until });
  };

  /** Lets the reconciliation's next step be due, and delivers what it found. */
  const step = async (story: Story) => {
    story.now += 31 * MINUTE;
    await story.step(settingsOf(story));
    await deliver(story);
  };

  /** What the webhooks became, newest first. */
  const became = async ({ bus }: Story) => {
    const page = await readWebhooks(bus.db, endpointsOf(readConfig()), webhookQuery.parse({}));
    return page.items.map(({ became: word, why, emitted }) =>
      [word, ...(why === null ? [] : [why]), ...emitted.map(({ topic }) => topic)].join(': '),
    );
  };

  const incidents = async ({ bus }: Story, now?: Date) => {
    await watchIncidents(bus.db, now);
    return await rows<{ message: string }>(
      bus.db,
      'select kind, message from incidents where closed_at is null',
    );
  };

  test('is read by the next step, which is due at once, and means what the whole event means', async ({
    story,
  }) => {
    await intend(story, 'pi_1');
    story.now = Date.now() - MINUTE;
    await story.step(settingsOf(story));
    story.apis.objects.set(PATH, PAID);
    for (const type of [
      'v1.payment_intent.succeeded',
      'v1.payment_intent.created',
      'v2.core.account.updated',
    ])
      await story.post('cardpayments', thin({ id: `evt_${type}`, type }));
    expect(await deliver(story)).toMatchObject({ delivered: 3, deadLettered: 0 });
    expect(await became(story)).toEqual([
      'ignored',
      'ignored',
      `set_aside: it names ${PATH}, which Stripe is asked for`,
    ]);
    story.now = Date.now() + SECOND;
    await story.step(settingsOf(story));
    expect(await deliver(story)).toMatchObject({ delivered: 1 });
    expect(await told(story.bus.db)).toEqual(['pi_1 captured 900']);
    expect((await became(story)).toReversed()).toEqual([
      'acted_on: webhook.cardpayments.received',
      'ignored',
      'ignored',
      'acted_on: payment.captured',
    ]);
    expect(story.apis.asked.filter((path) => !path.startsWith('/v1/events'))).toEqual([PATH]);
    const [captured] = await rows(
      story.bus.db,
      `select payload ->> 'occurredAt' as at from events where topic = 'payment.captured'`,
    );
    expect(captured).toEqual({ at: '2026-11-28T06:00:00.000Z' });
    // Replayed, it is read again and says nothing new.
    await replay(
      story.bus.db,
      { topic: 'webhook.cardpayments.received', since: '1h', include: 'all' },
      'kari',
    );
    await deliver(story);
    await step(story);
    expect(await told(story.bus.db)).toEqual(['pi_1 captured 900']);
    expect(await rows(story.bus.db, 'select from webhooks_set_aside')).toEqual([]);
  });

  test('without a key is an incident that names the variable, and is read when it is replayed with one', async ({
    story,
  }) => {
    await intend(story, 'pi_1');
    story.apis.objects.set(PATH, PAID);
    await story.post('cardpayments', thin());
    expect(await deliver(story, {})).toMatchObject({ deadLettered: 1 });
    const [incident] = await incidents(story);
    expect(incident!.message).toContain('WEBHOOK_CARDPAYMENTS_RECONCILE_KEY');
    await replay(story.bus.db, { topic: 'webhook.cardpayments.received', since: '1h' }, 'kari');
    await deliver(story);
    await step(story);
    expect(await told(story.bus.db)).toEqual(['pi_1 captured 900']);
    expect(await incidents(story)).toEqual([]);
  });

  test.for([
    ['which Stripe does not know', [404], 'answered 404'],
    ['which the key may not read', [403], 'answered 403: the key lacks a permission'],
    ['while Stripe fails', [500], 'answered 500'],
    ['which takes too long', ['hang'], 'did not answer in time'],
    ['which is another', ['other JSON'], 'answered another object'],
    ['which is no JSON', ['html'], 'answered something that cannot be read'],
  ] as const)(
    'names an object %s: it waits with the reason, and keeps nothing back',
    async ([, behaviour, reason], { story }) => {
      await pay(story, 1);
      await intend(story, 'pi_2');
      story.apis.objects.set(PATH, PAID);
      await story.post('cardpayments', thin());
      await deliver(story);
      story.apis.behave(behaviour, null, /payment_intents/);
      await step(story);
      expect(await became(story)).toContain(`set_aside: it names ${PATH}, of which Stripe ${reason}`);
      expect(await story.receipts()).toContain('cardpayments evt_1');
      expect(await story.progress('cardpayments')).toMatchObject({ error: `1 of 1 objects: ${reason}` });
      expect(await incidents(story)).toEqual([]);
      expect(await incidents(story, new Date(Date.now() + 11 * MINUTE))).toMatchObject([
        { kind: 'payment_unread', message: expect.stringContaining(reason) as string },
      ]);
      await step(story);
      expect(
        await rows(story.bus.db, 'select from webhooks_set_aside where reason = $1', ['unread']),
      ).toEqual([]);
      expect(await incidents(story)).toEqual([]);
    },
  );

  test('whose object is gone is let go at an operator’s word', async ({ story }) => {
    await story.post('cardpayments', thin());
    await deliver(story);
    await step(story);
    const [row] = await rows<{ id: string }>(story.bus.db, 'select event_id as id from webhooks_set_aside');
    await acceptWebhook(story.bus.db, { id: row!.id, by: 'kari', reason: 'a test of last year' });
    await deliver(story);
    expect(await rows(story.bus.db, 'select from webhooks_set_aside')).toEqual([]);
    expect(await became(story)).toEqual(['ignored']);
  });

  test('of a connected account is read as that account', async ({ story }) => {
    await intend(story, 'pi_1');
    story.apis.objects.set(`acct_1 ${PATH}`, PAID);
    await story.post('cardpayments', thin({ context: 'acct_1' }));
    await deliver(story);
    await step(story);
    expect(await told(story.bus.db)).toEqual(['pi_1 captured 900']);
  });

  test.for([
    ['another account', { context: 'acct_2' }, { ...KEY, WEBHOOK_CARDPAYMENTS_ACCOUNT: 'acct_1' }],
    ['another mode', { livemode: true }, KEY],
  ] as const)(
    'of %s than configured is refused before it is read',
    async ([, more, variables], { story }) => {
      await story.post('cardpayments', thin(more));
      expect(await deliver(story, variables)).toMatchObject({ deadLettered: 1 });
    },
  );
});
