import type { Page } from 'playwright-core';
import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { SECRET, test, wordsOf } from '../support/console-test.ts';
import { operatorToken } from '../support/operator-token.ts';
import { violationsOf } from '../support/page-faults.ts';

const refusing = attach('accounting', {
  'payment.captured': () => {
    throw new PermanentError('the account is closed');
  },
});

async function makeDeadLetter(db: Database): Promise<void> {
  await forgetEvents(db, 'incidents', 'error_groups');
  await emitPayments(db, 1, 1);
  await drainLive(db, [refusing]);
}

async function signIn(page: Page): Promise<void> {
  await page.getByLabel('Access token').fill(await operatorToken({}, SECRET));
  await page.getByRole('button', { name: 'Sign in' }).click();
}

const replays = async (db: Database) => await rows(db, 'select from replays');

test.for([
  { how: 'with script at 1280 px', options: { viewport: { width: 1280, height: 900 } } },
  {
    how: 'without script at 390 px',
    options: { viewport: { width: 390, height: 844 }, javaScriptEnabled: false },
  },
] as const)(
  'an operator whose session expires in the middle of a replay signs in, finds what was typed, and sends it, $how',
  async ({ options }, { at, db, newPage }) => {
    await makeDeadLetter(db);
    // Only in a page with script can it be judged.
    const isScripted = !('javaScriptEnabled' in options);
    const before = await replays(db);
    const page = await newPage({ ...options, extraHTTPHeaders: {} }, /status of 401/);
    await page.goto(at('/sign-in'));
    await signIn(page);
    await page.goto(at('/dead-letters'));
    await page
      .getByRole('link', { name: /^Replay…/ })
      .first()
      .click();
    await page.getByLabel('Reason').fill('the account is open again');
    const preview = page.url();
    await page.context().clearCookies();

    await page.getByRole('button', { name: 'Replay 1 dead letter' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Nothing was done.');
    expect(await wordsOf(page)).toContain('the account is open again');
    expect(page.url()).not.toContain('open');
    expect(await page.context().cookies()).toEqual([]);
    const faults = isScripted ? await violationsOf(page) : [];
    await signIn(page);

    await expect.poll(() => wordsOf(page)).toContain('Not sent yet');
    expect(page.url()).toContain(preview);
    expect(await wordsOf(page)).toContain('Nothing has been replayed yet. This is what the replay would do.');
    expect(await replays(db)).toEqual(before);
    const panel = page.locator('[data-unsent]');
    expect(await panel.getByLabel('Reason').inputValue()).toBe('the account is open again');
    if (isScripted) faults.push(...(await violationsOf(page)));
    await panel.getByRole('button', { name: 'Send' }).click();

    await page.waitForURL('**/replays/*');
    await expect.poll(() => wordsOf(page)).toContain('the account is open again');
    expect(await replays(db)).toHaveLength(before.length + 1);
    expect(faults).toEqual([]);
  },
);
