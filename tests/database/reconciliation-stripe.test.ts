import { describe, expect } from 'vitest';

import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { NOBODY, pay, test } from '../support/provider-story.ts';
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
