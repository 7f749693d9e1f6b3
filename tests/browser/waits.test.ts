import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import { deliveriesOf, haltsOf } from '../support/records.ts';
import { delayRetries, forgetEvents } from '../support/scenes.ts';
import { VIEWS, test as consoleTest, wordsOf } from '../support/console-test.ts';
import { pageFaults } from '../support/page-faults.ts';
import { freePort } from '../support/postgres.ts';

/** The ledger is elsewhere, and nobody is there; accounting halts, and no handler of it is here. */
const test = consoleTest.extend('variables', { scope: 'file' }, async () => ({
  SUBSCRIBER_LEDGER_URL: `http://127.0.0.1:${await freePort()}/`,
  SUBSCRIBER_LEDGER_SECRET: `whsec_${Buffer.alloc(24, 7).toString('base64')}`,
}));

const silent = attach(
  'ledger',
  {
    'payment.captured': () => {
      throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
    },
  },
  { outage: 'wait' },
);

const halting = attach(
  'accounting',
  {
    'payment.captured': ({ orderingKey }) => {
      if (orderingKey === 'booking 1') throw new PermanentError('the period is closed');
    },
  },
  { afterDeadLetter: 'halt' },
);

/** Booking 1 halts for accounting, with one delivery behind; the ledger does not answer. @returns the dead letter's id. */
async function makeTrouble(db: Database): Promise<string> {
  await forgetEvents(db, 'outages', 'incidents', 'error_groups');
  for (const number of [...numbers(1, 4), 1])
    await emitPayments(db, number, number, { orderingKey: `booking ${number}` });
  await drainLive(db, [silent, halting]);
  // That nobody is there is known once a delivery finds nobody again.
  await delayRetries(db, '-1 hour');
  await drainLive(db, [silent, halting]);
  const dead = (await deliveriesOf(db, 'accounting')).find(({ state }) => state === 'dead_lettered');
  return dead!.id;
}

test.for(VIEWS)(
  'an operator finds the halted lane on the overview and lets it go on, $how',
  async ({ options }, { at, db, newPage }) => {
    await makeTrouble(db);
    const page = await newPage(options);
    await page.goto(at(''));
    await page
      .getByRole('link', { name: 'accounting refused deliveries on payment.captured: 1 lane is halted' })
      .click();
    await page
      .locator('#held')
      .getByRole('link', { name: /^Dismiss…/ })
      .click();
    await expect.poll(() => wordsOf(page)).toContain('1 halted lane goes on.');
    await page.getByLabel('Reason').fill('booked by hand');
    await page.getByRole('button', { name: 'Dismiss 1 dead letter' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Dismissed 1 dead letter, which can still be replayed.');
    await expect
      .poll(() => wordsOf(page))
      .toContain('accounting refused deliveries on payment.captured: over');
    expect(await haltsOf(db)).toEqual([]);
  },
);

test('an operator sees who does not answer, and probes from the page of the subscriber', async ({
  at,
  db,
  newPage,
}) => {
  await makeTrouble(db);
  const page = await newPage();
  await page.goto(at(''));
  expect(await wordsOf(page)).toMatch(
    /ledger is unreachable: 5 deliveries wait in \d lanes until it answers\./,
  );
  await page.goto(at('/subscribers/ledger'));
  expect(await wordsOf(page)).toMatch(
    /ledger has been unreachable since [\d:]+(?: UTC)?\. 5 deliveries wait/,
  );
  await page.getByRole('button', { name: 'Probe now ledger' }).click();
  await expect.poll(() => wordsOf(page)).toContain('Probing ledger: one of its');
});

test('the pages of an outage and of a halted lane meet WCAG 2.2 A and AA in light and dark, have no two buttons of one name, and scroll nothing sideways at 390 and 320 px', async ({
  at,
  db,
  newPage,
}) => {
  const dead = await makeTrouble(db);
  const page = await newPage();
  await page.goto(at('/incidents'));
  const incidents = await page
    .locator('.incidents a')
    .evaluateAll((links) => links.map((one) => one.getAttribute('href') ?? ''));
  const events = await rows<{ id: string }>(db, 'select id::text from events order by seq');
  const faults: string[] = [];
  for (const path of [
    '',
    '/incidents',
    ...incidents.map((one) => one.replace('/platform/event-bus', '')),
    '/topics/payment.captured',
    '/subscribers/ledger',
    '/dead-letters',
    `/dead-letters/${dead}`,
    `/events/${events.at(0)!.id}`,
    `/events/${events.at(-1)!.id}`,
  ])
    faults.push(...(await pageFaults(page, at(path))));
  expect(incidents).toHaveLength(2);
  expect(faults).toEqual([]);
}, 200_000);

/** Of each open form: its parts that something else lies upon, or that lie outside of the page. */
const COVERED = `[...document.querySelectorAll('details[open] form')].flatMap((form) => {
  const parts = [form, ...form.querySelectorAll('p, label, input:not([type=hidden]), button')];
  return parts.flatMap((part) => {
    part.scrollIntoView({ block: 'center' });
    const { left, right, top, bottom } = part.getBoundingClientRect();
    const places = [0.02, 0.25, 0.5, 0.75, 0.98].flatMap((across) =>
      [0.1, 0.5, 0.9].map((down) => [left + across * (right - left), top + down * (bottom - top)]));
    const on = places.map(([x, y]) => document.elementFromPoint(x, y)).find((one) => !one || !form.contains(one));
    return on === undefined ? [] : [part.localName + ' is under ' + (on?.outerHTML.slice(0, 60) ?? 'nothing')];
  });
})`;

test('the form of a skip can be read at every width, on the pages of the event, the topic, the incident and the subscriber', async ({
  at,
  db,
  newPage,
}) => {
  await forgetEvents(db, 'outages', 'incidents', 'error_groups');
  const failing = attach('ledger', {
    'payment.captured': () => {
      throw new Error('the calendar of the venue is locked by an import that has not ended');
    },
  });
  await emitPayments(db, 1, 2);
  await drainLive(db, [failing]);
  // The server relays too.
  await delayRetries(db, '1 hour', `state = 'failing'`);
  const [event] = await rows<{ id: string }>(db, 'select id::text from events order by seq limit 1');
  const page = await newPage();
  await page.goto(at('/incidents'));
  const incident = await page.locator('.incidents a').first().getAttribute('href');
  const covered: string[] = [];
  for (const path of [
    `/events/${event!.id}`,
    '/topics/payment.captured',
    incident!.replace('/platform/event-bus', ''),
    '/subscribers/ledger',
  ])
    for (const width of [390, 768, 1080, 1081, 1280, 1440, 1600, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      await page.goto(at(path));
      await page.locator('summary', { hasText: 'Skip…' }).first().click();
      const found = await page.evaluate<string[]>(COVERED);
      covered.push(...found.map((part) => `${path} at ${width} px: ${part}`));
      const isWhole = await page.locator('details[open] form').evaluate((form) => form.clientWidth >= 300);
      if (!isWhole) covered.push(`${path} at ${width} px: the form is narrow`);
    }
  expect(covered).toEqual([]);
}, 200_000);
