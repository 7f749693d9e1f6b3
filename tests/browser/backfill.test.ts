import { expect } from 'vitest';

import { storedWithoutLedger } from '../support/backfills.ts';
import { rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, test, wordsOf } from '../support/console-test.ts';
import { pageFaults } from '../support/page-faults.ts';

test.for(VIEWS)(
  'an operator backfills from the subscriber’s page, watches it going on, and stops it, $how',
  async ({ options }, { at, db, newPage }) => {
    await forgetEvents(db, 'backfills');
    await storedWithoutLedger(db, 1, 6);
    const page = await newPage(options);
    await page.goto(at('/subscribers/ledger'));
    await page
      .getByRole('link', { name: /^Backfill….*payment\.captured/ })
      .first()
      .click();
    await expect.poll(() => wordsOf(page)).toContain('Backfill 6 deliveries?');
    await page.getByLabel('Since').fill('29d');
    await page.getByRole('button', { name: 'Preview again' }).click();
    await page.waitForURL('**since=29d');
    await expect.poll(() => wordsOf(page)).toContain('Backfill 6 deliveries?');
    await page.getByLabel('Deliveries a minute').fill('1');
    await page.getByLabel('Reason').fill('the ledger is new');
    await page.getByRole('button', { name: 'Backfill 6 deliveries' }).click();
    await page.waitForURL('**/backfills/*');
    await expect
      .poll(() => wordsOf(page))
      .toMatch(/Under way: 1 of 6 written.* 0 delivered, 1 waiting\. .*1 a minute, about 5 min/);
    // With script the page follows it by itself. Without, it leaves time to write a reason.
    await rows(db, `update backfills set written = 4, next_at = now() + interval '1 hour'`);
    if ('javaScriptEnabled' in options) await page.getByRole('link', { name: 'Refresh' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Under way: 4 of 6 written');

    await page.getByText('Stop…').click();
    await page.getByLabel('Reason').fill('too fast');
    await page.getByRole('button', { name: 'Stop the backfill' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Stopped: 4 of 6 written.');
    await page.getByRole('link', { name: '← Operations' }).click();
    await expect.poll(() => wordsOf(page)).toContain('the ledger is new');
    expect(await wordsOf(page)).toContain('Stop backfill');
  },
);

test('the pages of backfills meet WCAG 2.2 A and AA in light and dark, and nothing on them scrolls sideways', async ({
  at,
  db,
  newPage,
}) => {
  await forgetEvents(db, 'backfills');
  await storedWithoutLedger(db, 1, 120);
  const page = await newPage();
  const subscription = 'topic=payment.captured&subscriber=ledger';
  const paths = [
    `/backfill?${subscription}&since=60d`,
    '/backfill?topic=payment.captured&subscriber=accounting&since=30d',
    '/topics/payment.captured',
    '/subscribers/ledger',
    '/replays?only=backfills',
  ];
  const faults: string[] = [];
  for (const path of paths) faults.push(...(await pageFaults(page, at(path))));
  await page.goto(at(`/backfill?${subscription}&since=30d&perMinute=40`));
  await page.getByLabel('Reason').fill('the ledger is new');
  await page.getByLabel('Type 120 to confirm').fill('120');
  await page.getByRole('button', { name: 'Backfill 120 deliveries' }).click();
  await page.waitForURL('**/backfills/*');
  for (const url of [
    page.url(),
    // While it is under way, there is no preview of another one.
    ...paths.filter((path) => !path.endsWith('=60d')).map(at),
    at(`/replays?only=backfills&${subscription}`),
    at('/replays'),
  ])
    faults.push(...(await pageFaults(page, url)));
  expect(faults).toEqual([]);
});
