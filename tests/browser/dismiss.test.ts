import { expect } from 'vitest';

import { drainLive, emitPayments } from '../support/bus.ts';
import { countDeliveries } from '../support/records.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, test, wordsOf } from '../support/console-test.ts';
import { ledger, refuse } from '../support/ledger.ts';
import { pageFaults } from '../support/page-faults.ts';

const WIDTHS = [1280, 390];

test.for(VIEWS.flatMap((view) => WIDTHS.map((width) => ({ ...view, width }))))(
  'an operator dismisses all that match, after a preview, and reads it in the log, $how at $width px',
  async ({ options, width }, { at, db, newPage }) => {
    await forgetEvents(db, 'error_groups');
    await emitPayments(db, 1, 101);
    await drainLive(db, [ledger(refuse)]);
    const page = await newPage({ ...options, viewport: { width, height: 900 } });
    await page.goto(at('/dead-letters?subscriber=ledger'));
    await page.getByRole('link', { name: 'Dismiss all 101 that match…' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Dismiss 101 dead letters?');
    expect(await wordsOf(page)).toMatch(/payment\.captured ledger 101/);
    // Axe is a script.
    if (!('javaScriptEnabled' in options)) expect(await pageFaults(page, page.url())).toEqual([]);
    await page.getByLabel('Reason').fill('test data');
    await page.getByLabel('Type 101 to confirm').fill('101');
    await page.getByRole('button', { name: 'Dismiss 101 dead letters' }).click();
    await expect
      .poll(() => wordsOf(page))
      .toContain('Dismissed 101 dead letters, which can still be replayed.');
    await page.goto(at('/replays'));
    expect(await wordsOf(page)).toContain('test data');
  },
);

test('an operator dismisses the selected rows', async ({ at, db, newPage }) => {
  await forgetEvents(db, 'error_groups');
  await emitPayments(db, 1, 3);
  await drainLive(db, [ledger(refuse)]);
  const page = await newPage();
  await page.goto(at('/dead-letters'));
  await page
    .getByRole('checkbox', { name: /^Select payment/ })
    .first()
    .check();
  await page.getByRole('button', { name: 'Dismiss selected…' }).click();
  await page.getByLabel('Reason').fill('test data');
  await page.getByRole('button', { name: 'Dismiss 1 dead letter' }).click();
  await expect.poll(() => wordsOf(page)).toContain('Dismissed 1 dead letter, which can still be replayed.');
  expect(await countDeliveries(db, 'dismissed_at is not null')).toBe(1);
});
