import { expect } from 'vitest';

import type { Database } from '../../lib/platform/db/connect.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { test as consoleTest, wordsOf } from '../support/console-test.ts';
import { ledger } from '../support/ledger.ts';
import { pageFaults } from '../support/page-faults.ts';
import { answer, openReceiver } from '../support/receiver.ts';
import type { Receiver } from '../support/receiver.ts';

const test = consoleTest
  .extend('receiver', { scope: 'file' }, async ({}, { onCleanup }) => {
    const receiver = await openReceiver();
    onCleanup(receiver.close);
    return receiver;
  })
  .extend('variables', { scope: 'file' }, ({ receiver }) => ({
    SUBSCRIBER_LEDGER_URL: receiver.url,
    SUBSCRIBER_LEDGER_SECRET: `whsec_${Buffer.alloc(24, 7).toString('base64')}`,
  }));

const WIDTHS = [1280, 390];
const VERDICT = 'Not delivered to ledger: it answered 500 “licence expired”; next try';

/**
 * Payments stop at the ledger, which is back by now. The server's relay may look on yet, from a retry of the test before: it
 * finds the ledger as it is.
 *
 * @returns the id of the event that holds the others.
 */
async function stopPayments(db: Database, receiver: Receiver): Promise<string> {
  await forgetEvents(db, 'error_groups', 'incidents', 'pauses');
  receiver.behave = (response) => response.writeHead(500).end('licence expired');
  const [first] = await emitPayments(db, 1, 3);
  await drainLive(db, [
    ledger(() => {
      throw Object.assign(new Error('the subscriber answered 500: licence expired'), { code: 'http_500' });
    }),
  ]);
  await expect
    .poll(() => rows(db, `select attempts from exceptions where event_id = '${first}' and attempts > 0`))
    .toEqual([{ attempts: 1 }]);
  receiver.behave = answer(204);
  return first!;
}

test.for(WIDTHS)(
  '“payments stopped”: two clicks lead from the overview by the incident to the reason, and try it there, at %i px',
  async (width, { at, db, newPage, receiver }) => {
    await stopPayments(db, receiver);
    const page = await newPage({ viewport: { width, height: 900 } });
    await page.goto(at(''));
    await page.getByRole('link', { name: /^ledger answers 500 on payment\.captured/ }).click();
    await expect.poll(() => wordsOf(page)).toContain('1 of 5 attempts');
    expect(await wordsOf(page)).toContain('licence expired');
    await page
      .getByRole('button', { name: /^Try once/ })
      .first()
      .click();
    await expect.poll(() => wordsOf(page)).toContain('Tried payment.captured to ledger');
    await expect.poll(() => wordsOf(page), { timeout: 10_000 }).toContain(': over.');
  },
);

test.for(WIDTHS)(
  '“payments stopped”: an id leads in three clicks from any page to the reason and its retry, at %i px',
  async (width, { at, db, newPage, receiver }) => {
    const eventId = await stopPayments(db, receiver);
    const page = await newPage({ viewport: { width, height: 900 } });
    await page.goto(at('/timers'));
    const find = page.getByRole('searchbox', { name: 'Find an event' });
    await find.click();
    await find.fill('pi_3QxSolvik48213');
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    await page.locator(`a[href$="/events/${eventId}"]`).first().click();
    await expect.poll(() => wordsOf(page)).toContain(VERDICT);
    expect(await wordsOf(page)).toContain('1 of 5 attempts');
    expect(await page.getByRole('button', { name: /^Retry now/ }).isVisible()).toBe(true);
    expect(await page.getByRole('button', { name: /^Try once/ }).isVisible()).toBe(true);
  },
);

test.for(WIDTHS)(
  'the retry on a subscriber’s page retries the delivery that it stands beside, and the page says how it ended, at %i px',
  async (width, { at, db, newPage, receiver }) => {
    await stopPayments(db, receiver);
    const page = await newPage({ viewport: { width, height: 900 } });
    await page.goto(at('/subscribers'));
    await page.getByRole('link', { name: 'ledger', exact: true }).click();
    await expect.poll(() => wordsOf(page)).toContain('1 of 5 attempts');
    await page.getByRole('button', { name: 'Retry now payment.captured to ledger' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Retried payment.captured to ledger');
    await expect.poll(() => wordsOf(page), { timeout: 10_000 }).not.toContain('1 of 5 attempts');
    expect(page.url()).toContain('/subscribers/ledger');
    expect(await rows(db, 'select action from operator_actions order by at desc limit 1')).toEqual([
      { action: 'retry' },
    ]);
  },
);

test('the pages of a held lane meet WCAG 2.2 A and AA, and scroll nothing sideways at 390 and 320 px', async ({
  at,
  db,
  newPage,
  receiver,
}) => {
  const eventId = await stopPayments(db, receiver);
  const page = await newPage();
  const faults: string[] = [];
  for (const path of ['/subscribers/ledger', '/topics/payment.captured', `/events/${eventId}`])
    faults.push(...(await pageFaults(page, at(path))));
  await page.goto(at('/incidents'));
  await page.getByRole('link', { name: /^ledger answers 500/ }).click();
  await page.getByRole('heading', { name: 'When it is fixed' }).waitFor();
  faults.push(...(await pageFaults(page, page.url())));
  expect(faults).toEqual([]);
}, 200_000);
