import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { drainLive, emitPayments } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { refreshSoon, VIEWS, test } from '../support/console-test.ts';

/** Bookings delivers these payments; what it is given beyond the third is rejected, where that is wanted. */
async function deliver(db: Database, from: number, to: number, isRefused = false): Promise<void> {
  await emitPayments(db, from, to);
  const handle = () => {
    if (isRefused) throw new PermanentError('the period is closed');
  };
  await drainLive(db, [attach('accounting', { 'payment.captured': handle })]);
}

const emptied = async (db: Database) => await forgetEvents(db, 'outages', 'incidents', 'error_groups');

test('without script the events are a list, with times in UTC and the word UTC', async ({
  at,
  db,
  newPage,
}) => {
  await emptied(db);
  await deliver(db, 1, 3);
  const page = await newPage({ colorScheme: 'dark', javaScriptEnabled: false, timezoneId: 'Europe/Oslo' });
  await page.goto(at('/events?subscriber=accounting'));
  expect(await page.locator('#events tbody tr').count()).toBe(3);
  for (const time of await page.locator('time').allInnerTexts())
    expect(time).toMatch(/^[\w ]*\d\d:\d\d(:\d\d)? UTC$/);
  expect(await page.locator('footer').innerText()).toBe('Times are in UTC.');
});

test.for(['Europe/Oslo', 'America/St_Johns'])(
  'times are in the zone of the browser (%s), or in UTC by a switch that is remembered',
  async (zone, { at, db, newPage }) => {
    await emptied(db);
    await deliver(db, 1, 1);
    const page = await newPage({ timezoneId: zone });
    await page.goto(at('/events?subscriber=accounting'));
    const cell = page.locator('#events time').first();
    const instant = new Date((await cell.getAttribute('datetime'))!);
    const inZone = (timeZone: string) => instant.toLocaleTimeString('en-GB', { timeZone });
    expect(await cell.innerText()).toContain(inZone(zone));
    expect(await cell.innerText()).not.toContain('UTC');
    expect(await cell.getAttribute('title')).toContain(zone);
    expect(await page.locator('footer').innerText()).toContain(`Times are in ${zone}.`);

    await page.getByRole('button', { name: 'Show UTC' }).press('Enter');
    await expect.poll(() => cell.innerText()).toContain(`${inZone('UTC')} UTC`);
    await page.goto(at('/events'));
    expect(await page.locator('footer').innerText()).toContain('Times are in UTC.');
    await page.getByRole('button', { name: `Show ${zone}` }).click();
    expect(await page.locator('footer').innerText()).toContain(`Times are in ${zone}.`);
  },
);

test('an address that ends in a malformed percent sign stops nothing', async ({ at, newPage }) => {
  const page = await newPage();
  await page.goto(at('/events#%'));
  await page.getByRole('heading', { name: 'Events' }).waitFor();
  await page.evaluate(`location.hash = '%E0%A4'`);
});

test('the title says how many incidents happen now, and changes with them', async ({ at, db, newPage }) => {
  await emptied(db);
  const page = await newPage();
  await page.goto(at(''));
  await expect.poll(() => page.title()).toBe('Overview · Postbud');
  await emitPayments(db, 1, 1);
  await drainLive(db, [
    attach('accounting', {
      'payment.captured': () => {
        throw new Error('not now');
      },
    }),
  ]);
  await refreshSoon(page);
  await expect.poll(() => page.title()).toBe('(1) Overview · Postbud');
});

test.for(VIEWS)('a list is saved as CSV from its page, $how', async ({ options }, { at, db, newPage }) => {
  await emptied(db);
  await deliver(db, 1, 2, true);
  const page = await newPage({ ...options, acceptDownloads: true });
  await page.goto(at('/dead-letters'));
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Dead letters, all that match' }).click(),
  ]);
  expect(download.suggestedFilename()).toMatch(/^dead-letters-[\d-]+\.csv$/);
});
