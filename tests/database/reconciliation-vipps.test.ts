import { describe, expect } from 'vitest';

import { payments } from '../../lib/components/payments.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { drainLive, rows } from '../support/bus.ts';
import { told } from '../support/payments.ts';
import type { VippsEntry } from '../support/provider-apis.ts';
import { intend, NOBODY, pay, test } from '../support/provider-story.ts';
import type { Story } from '../support/provider-story.ts';

describe('Vipps', () => {
  const settingsOf = ({ apis }: Story) => ({ ...NOBODY, walletpayments: apis.settings.walletpayments });
  const logsAsked = ({ apis }: Story) => apis.asked.filter((path) => path.endsWith('/events')).length;

  /** Lets days pass. The cron asks more often, but nothing here changes in three hours. */
  async function passDays(story: Story, days: number): Promise<void> {
    for (const end = story.now + days * DAY; story.now < end; story.now += 3 * HOUR)
      await story.step(settingsOf(story));
  }

  test('is asked the less often the older an open payment is, and finds its late capture within a day', async ({
    story,
  }) => {
    await intend(story, 'wallet-reserved');
    story.log('wallet-reserved', 'AUTHORIZED', 900);
    await passDays(story, 30);
    expect(logsAsked(story)).toBeGreaterThan(25);
    expect(logsAsked(story)).toBeLessThan(40);
    const { pspReference } = story.log('wallet-reserved', 'CAPTURED', 900, { at: story.now });
    await passDays(story, 1.1);
    expect(await story.receipts()).toContain(`walletpayments CAPTURED:wallet-reserved:${pspReference}`);
  });

  test('is no longer asked about a payment that is over', async ({ story }) => {
    const ends: Readonly<Record<string, readonly (readonly [string, number])[]>> = {
      'wallet-aborted': [['ABORTED', 900]],
      'wallet-cancelled': [
        ['AUTHORIZED', 900],
        ['CANCELLED', 900],
      ],
      'wallet-refunded': [
        ['AUTHORIZED', 900],
        ['CAPTURED', 600],
        ['CANCELLED', 300],
        ['REFUNDED', 600],
      ],
    };
    for (const [id, entries] of Object.entries(ends)) {
      await intend(story, id);
      for (const [name, value] of entries) story.log(id, name, value);
    }
    story.now += 20 * MINUTE;
    await passDays(story, 40);
    expect(logsAsked(story)).toBe(3);
  });

  test('with two sales units asks both about each payment, and takes its log in for the endpoint of its own', async ({
    story,
  }) => {
    const { walletpayments } = story.apis.settings;
    const other = { ...walletpayments!, merchantSerialNumber: '654321' } as typeof walletpayments;
    await intend(story, 'wallet-of-654321');
    await intend(story, 'wallet-of-123456');
    const [one, two] = ['wallet-of-654321', 'wallet-of-123456'].map((id) => story.log(id, 'CAPTURED', 900));
    await story.reconcile({ ...NOBODY, walletpayments, walletpayments_2: other });
    expect(await story.receipts()).toEqual([
      `walletpayments CAPTURED:wallet-of-123456:${two!.pspReference}`,
      `walletpayments_2 CAPTURED:wallet-of-654321:${one!.pspReference}`,
    ]);
  });

  test('with the wrong key of one sales unit asks the other, and says so', async ({ story }) => {
    const { walletpayments } = story.apis.settings;
    const wrong = { ...walletpayments!, clientId: 'of-nobody' } as typeof walletpayments;
    await pay(story, 1);
    await story.reconcile({ ...NOBODY, walletpayments: wrong, walletpayments_2: walletpayments });
    expect(await story.receipts()).toMatchObject([expect.stringContaining('walletpayments_2 CAPTURED:')]);
    expect(await story.progress('walletpayments')).toMatchObject({
      error: 'one of 2 sales units: answered 401: it does not accept the key',
    });
  });

  test('finds the refund of a captured payment within a week', async ({ story }) => {
    await intend(story, 'wallet-captured');
    await story.send(story.log('wallet-captured', 'AUTHORIZED', 900));
    await story.send(story.log('wallet-captured', 'CAPTURED', 900));
    await drainLive(story.bus.db, [payments]);
    await passDays(story, 60);
    expect(logsAsked(story)).toBeLessThan(25);
    story.log('wallet-captured', 'REFUNDED', 900, { at: story.now });
    await passDays(story, 7.1);
    await drainLive(story.bus.db, [payments]);
    expect(await told(story.bus.db)).toEqual([
      'wallet-captured reserved 900',
      'wallet-captured captured 900',
      'wallet-captured refunded 900',
    ]);
  });

  test('is asked a dozen payments at a time, the open ones first', async ({ story }) => {
    for (let number = 1; number <= 30; number += 1) await intend(story, `wallet-number-${number}`);
    await rows(
      story.bus.db,
      `update payment_intents set state = 'captured', ask_at = ask_at - interval '1 hour' where id like '%2'`,
    );
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(10 * SECOND);
    expect(logsAsked(story)).toBe(12);
    expect(story.apis.asked.some((path) => path.includes('2/events'))).toBe(false);
  });

  test('answers nonsense about one payment, which keeps back no other', async ({ story }) => {
    await intend(story, 'wallet-strange');
    story.apis.vipps.set('wallet-strange', [{} as VippsEntry]);
    await pay(story, 2);
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toEqual(story.ledger().filter((id) => id.includes('wallet-payment')));
    expect(await story.progress('walletpayments')).toMatchObject({
      failures: 0,
      error: '1 of 3 payments: answered something that cannot be read',
    });
  });

  test('is asked again soon about a payment whose log it did not give once', async ({ story }) => {
    await intend(story, 'wallet-unread');
    await intend(story, 'wallet-read');
    story.now += 20 * HOUR;
    story.log('wallet-unread', 'CAPTURED', 900);
    story.log('wallet-read', 'CREATED', 900);
    story.apis.behave([500], null, /wallet-unread/);
    await story.step(settingsOf(story));
    expect(await story.receipts()).toEqual([]);
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toEqual(story.ledger());
    expect(logsAsked(story)).toBe(3);
  });

  test('whose log names other operations than its webhooks did is not believed: no money is told twice', async ({
    story,
    output,
  }) => {
    await intend(story, 'wallet-two-names');
    await story.send(story.log('wallet-two-names', 'CAPTURED', 900));
    await drainLive(story.bus.db, [payments]);
    story.apis.vipps.set('wallet-two-names', []);
    story.log('wallet-two-names', 'CAPTURED', 900);
    await pay(story, 1);
    await story.reconcile(settingsOf(story));
    await drainLive(story.bus.db, [payments]);
    expect(await told(story.bus.db)).toEqual([
      'wallet-two-names captured 900',
      'wallet-payment-1 captured 900',
    ]);
    expect(output.linesOf('a provider was asked in part')).toMatchObject([
      {
        reason:
          '1 of 2 payments: the log lacks a capture or refund that a webhook reported, so nothing of it was taken in',
      },
    ]);
  });

  test('refuses a token that it gave out before, and is given another one', async ({ story }) => {
    await pay(story, 1);
    await story.reconcile(settingsOf(story));
    story.apis.revokeToken();
    await intend(story, 'wallet-later');
    story.log('wallet-later', 'CAPTURED', 900);
    story.now += 20 * MINUTE;
    expect(await story.step(settingsOf(story))).toBe(MINUTE);
    await story.reconcile(settingsOf(story));
    expect(await story.receipts()).toHaveLength(2);
  });
});
