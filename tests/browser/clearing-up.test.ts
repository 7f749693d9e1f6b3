import type { Page } from 'playwright-core';
import { expect } from 'vitest';

import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { drainLive, storeBacklog } from '../support/bus.ts';
import { countDeliveries } from '../support/records.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, test, wordsOf } from '../support/console-test.ts';
import { pageFaults } from '../support/page-faults.ts';

const TOPICS = [
  'payment.captured',
  'payment.refunded',
  'payment.deposit.held',
  'payment.deposit.released',
  'payment.dispute.opened',
] as const satisfies readonly TopicName[];

const WHAT = [
  'account',
  'period',
  'voucher',
  'currency',
  'tenant',
  'ledger series',
  'cost centre',
  'tax code',
];

const ledger = (handle: (place: number) => void) => {
  let place = 0;
  const next = () => handle(place++);
  return subscriber('ledger', Object.fromEntries(TOPICS.map((topic) => [topic, next])));
};

/** Dead letters of every topic, each with eight errors. */
async function died(db: Database, ofTopic: number): Promise<void> {
  await forgetEvents(db, 'error_groups', 'replays');
  for (const topic of TOPICS) await storeBacklog(db, topic, ofTopic);
  const refusing = ledger((place) => {
    throw new PermanentError(`the ${WHAT[place % WHAT.length]!} is closed`);
  });
  await drainLive(db, [refusing]);
}

/** Counts what an operator does on a page. */
function counting(page: Page) {
  const did = { clicks: 0, fields: 0 };
  return {
    did,
    click: async (role: 'link' | 'button' | 'checkbox', name: string | RegExp) => {
      did.clicks += 1;
      await page.getByRole(role, { name }).first().click();
    },
    fill: async (label: string, text: string) => {
      did.fields += 1;
      await page.getByLabel(label).fill(text);
    },
  };
}

test.for(VIEWS)(
  'an operator replays the errors that are checked, of several topics, $how',
  async ({ options }, { at, db, newPage }) => {
    await died(db, 16);
    const page = await newPage(options);
    await page.goto(at('/dead-letters'));
    for (const topic of TOPICS.slice(0, 2))
      await page.getByRole('checkbox', { name: `Select the period is closed, ${topic} to ledger` }).check();
    await page.getByRole('button', { name: /^Replay (2 )?selected errors…$/ }).click();
    await expect.poll(() => wordsOf(page)).toContain('Replay 4 dead letters?');
    expect(await wordsOf(page)).toContain('payment.captured ledger 2');
    expect(await wordsOf(page)).toContain('payment.refunded ledger 2');
    // Axe is a script.
    if (!('javaScriptEnabled' in options)) expect(await pageFaults(page, page.url())).toEqual([]);
    await page.getByLabel('Reason').fill('the period is open again');
    await page.getByRole('button', { name: 'Replay 4 dead letters' }).click();
    await drainLive(db, [ledger(() => undefined)]);
    await expect.poll(() => wordsOf(page)).toContain('Replay of several topics');
    await page.reload();
    expect(await wordsOf(page)).toContain('Replayed: 4 of 4 delivered');
    expect(await countDeliveries(db, 'dead_lettered_at is not null')).toBe(76);
  },
);

test('10,000 dead letters of 40 errors in five topics are replayed after one preview', async ({
  at,
  db,
  newPage,
}) => {
  await died(db, 2000);
  const page = await newPage();
  const { did, click, fill } = counting(page);
  await page.goto(at('/dead-letters'));
  expect(await wordsOf(page)).toContain('By error 40 errors');
  const began = Date.now();
  await click('checkbox', 'Select all on this page');
  await click('button', 'Replay 40 selected errors…');
  await expect.poll(() => wordsOf(page)).toContain('Replay 10,000 dead letters?');
  const previewed = Date.now();
  await fill('Reason', 'the new year is open');
  await fill('Type 10000 to confirm', '10000');
  await click('button', 'Replay 10,000 dead letters');
  await expect.poll(() => wordsOf(page), { timeout: 30 * SECOND }).toContain('Replay of several topics');
  const confirmed = Date.now();
  await drainLive(db, [ledger(() => undefined)]);
  await expect
    .poll(() => wordsOf(page), { timeout: 30 * SECOND })
    .toContain('Replayed: 10,000 of 10,000 delivered');
  const seconds = (from: number, to: number) => ((to - from) / SECOND).toFixed(1);
  process.stdout.write(
    `From the list to “all replayed”: ${did.clicks} clicks and ${did.fields} fields; ${seconds(began, previewed)} s to the preview, ` +
      `${seconds(previewed, confirmed)} s until all were put back, ${seconds(confirmed, Date.now())} s until all were delivered.\n`,
  );
  expect(did).toEqual({ clicks: 3, fields: 2 });
  expect(await countDeliveries(db, 'dead_lettered_at is not null')).toBe(0);
});

test('on a phone, the cards of checked errors are marked, and not the row that checks all', async ({
  at,
  db,
  newPage,
}) => {
  await died(db, 8);
  const page = await newPage({ viewport: { width: 390, height: 900 } });
  await page.goto(at('/dead-letters'));
  await page.getByRole('checkbox', { name: 'Select all on this page' }).first().check();
  const marks = await page.evaluate<boolean[]>(
    `Array.from(document.querySelector('table').rows, (row) => getComputedStyle(row).backgroundColor !== 'rgba(0, 0, 0, 0)')`,
  );
  expect(marks).toEqual([false, ...Array.from({ length: 40 }, () => true)]);
});

test('on a phone the page names who is signed in, and has no button to stop what stands still', async ({
  at,
  db,
  newPage,
}) => {
  await died(db, 8);
  const page = await newPage({ viewport: { width: 390, height: 900 } });
  await page.goto(at('/dead-letters'));
  await page.getByText('kari@solvik.example.no').waitFor();
  await page.getByRole('button', { name: 'Stop refreshing' }).waitFor();
  await page.getByRole('row').getByRole('checkbox').last().check();
  await page.getByText('Not refreshing, as of').waitFor();
  await page.getByRole('button', { name: 'Stop refreshing' }).waitFor({ state: 'hidden' });
  await page.getByRole('row').getByRole('checkbox').last().uncheck();
  await page.getByRole('row').getByRole('checkbox').last().blur();
  await page.getByRole('button', { name: 'Stop refreshing' }).waitFor();
});

test.for(['light', 'dark'] as const)(
  'the kind of an error stands out from the row that is checked, in %s',
  async (colorScheme, { at, db, newPage }) => {
    await died(db, 8);
    const page = await newPage({ colorScheme });
    await page.goto(at('/dead-letters'));
    await page.getByRole('row').getByRole('checkbox').last().check();
    const [text, ground] = await page.evaluate<[string, string]>(`(() => {
      const { color, backgroundColor } = getComputedStyle(document.querySelector('tr:has(.check input:checked) .tag'));
      return [color, backgroundColor];
    })()`);
    // That of WCAG for small text, at its higher level.
    expect(contrastOf(text, ground)).toBeGreaterThan(7);
  },
);

/** The contrast of two colours, as WCAG computes it. @see https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio */
function contrastOf(...colours: readonly string[]): number {
  const [darker, lighter] = colours
    .map((colour) => {
      const [red, green, blue] = (colour.match(/\d+/g) ?? []).map((part) => {
        const share = Number(part) / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
    })
    .toSorted((one, other) => one - other);
  return (lighter! + 0.05) / (darker! + 0.05);
}
