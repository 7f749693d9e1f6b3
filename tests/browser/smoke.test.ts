import { expect } from 'vitest';

import { emitPayments } from '../support/bus.ts';
import { VIEWS, test as consoleTest } from '../support/console-test.ts';
import { pageFaults } from '../support/page-faults.ts';
import { freePort } from '../support/postgres.ts';
import { openReceiver } from '../support/receiver.ts';

const ELSEWHERE = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

/** Accounting answers; nobody is there where reporting should be. */
const test = consoleTest.extend('variables', { scope: 'file' }, async ({}, { onCleanup }) => {
  const accounting = await openReceiver();
  onCleanup(() => accounting.close());
  return {
    SUBSCRIBER_ACCOUNTING_URL: accounting.url,
    SUBSCRIBER_ACCOUNTING_SECRET: ELSEWHERE,
    SUBSCRIBER_REPORTING_URL: `http://127.0.0.1:${await freePort()}/`,
    SUBSCRIBER_REPORTING_SECRET: ELSEWHERE,
  };
});

test.for(VIEWS)(
  'an operator starts a smoke test, and sees on its event’s page what arrived, $how',
  async ({ options }, { at, db, newPage }) => {
    await emitPayments(db, 1, 3);
    const page = await newPage(options);
    await page.goto(at(''));
    await page.getByRole('button', { name: 'Smoke test' }).click();
    await page.waitForURL('**/events/*');
    expect(await page.locator('#done').innerText()).toContain('sent to 7 subscribers.');
    const row = page.locator('#to-reporting');
    await expect
      .poll(async () => {
        if ('javaScriptEnabled' in options) await page.reload();
        return await row.innerText();
      })
      .toContain('cannot be reached');
    if (!('javaScriptEnabled' in options)) expect(await pageFaults(page, page.url())).toEqual([]);
    await page.screenshot({ path: `/tmp/shot-smoke-${options.colorScheme}.png`, fullPage: true });
  },
);
