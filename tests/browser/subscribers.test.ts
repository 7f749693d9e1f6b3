import { expect } from 'vitest';

import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, test, wordsOf } from '../support/console-test.ts';
import { ledger, refuse } from '../support/ledger.ts';
import { pageFaults } from '../support/page-faults.ts';

const WIDTHS = [1280, 390];

test.for(VIEWS.flatMap((view) => WIDTHS.map((width) => ({ ...view, width }))))(
  'an operator finds who paused a component and why on its page, and ends the pause there, $how at $width px',
  async ({ options, width }, { at, db, newPage }) => {
    await forgetEvents(db, 'error_groups');
    await rows(
      db,
      `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
       values ('ledger', '', clock_timestamp(), 'kari', 'the ledger moves')`,
    );
    const page = await newPage({ ...options, viewport: { width, height: 900 } });
    await page.goto(at('/subscribers'));
    await page.getByRole('link', { name: 'ledger', exact: true }).click();
    await expect.poll(() => wordsOf(page)).toContain('ledger is paused for all its topics by kari since');
    expect(await wordsOf(page)).toContain('the ledger moves');
    await page.getByRole('button', { name: 'Resume ledger for all its topics' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Resumed ledger');
    expect(await wordsOf(page)).not.toContain('ledger is paused');
    expect(await rows(db, 'select from pauses')).toEqual([]);
  },
);

test('the list of subscribers and the pages that show a pause and a limit meet WCAG 2.2 A and AA, and scroll nothing sideways at 390 and 320 px', async ({
  at,
  db,
  newPage,
}) => {
  await forgetEvents(db, 'error_groups');
  await emitPayments(db, 1, 3);
  await drainLive(db, [ledger(refuse, { rate: '1/m' })]);
  await rows(
    db,
    `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
     values ('ledger', '', clock_timestamp(), 'kari', 'the ledger moves')`,
  );
  const page = await newPage();
  const faults: string[] = [];
  for (const path of ['/subscribers', '/subscribers/ledger'])
    faults.push(...(await pageFaults(page, at(path))));
  expect(faults).toEqual([]);
  expect(await wordsOf(page)).toMatch(/rate_limited until [\d:]+.*: at 1\/m all that waits is through in/);
}, 200_000);
