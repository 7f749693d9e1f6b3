import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, wordsOf } from '../support/console-test.ts';
import { NOBODY, REFUSALS, signInAs, test } from '../support/directory-test.ts';
import { pageFaults } from '../support/page-faults.ts';

const SHOWN = VIEWS.flatMap((view) => [1280, 390].map((width) => ({ ...view, width })));

const PEOPLE = {
  Kari: { sub: 'b81e4c7a-2d96-4f53-a0c4-5e6f17d98b20', name: 'Kari Nordmann', groups: ['/drift'] },
  Ingrid: { sub: '0d4f7a91-33c8-4b0e-9a6d-1c52e8f7b364', name: 'Ingrid Hansen', groups: ['/drift'] },
};
const CALLED = 'Kari Nordmann (b81e4c7a-2d96…)';

const refusing = attach('accounting', {
  'payment.captured': () => {
    throw new PermanentError('the account is closed');
  },
});

test.for(SHOWN)(
  'the second of two operators reads the name of the first, who acknowledged and replayed, $how at $width px',
  async ({ options, width }, { at, db, newPage, directory }) => {
    await forgetEvents(db, 'incidents', 'error_groups', 'replays', 'operator_names');
    await emitPayments(db, 1, 2);
    await drainLive(db, [refusing]);
    directory.employ(PEOPLE);
    const signedIn = async (person: keyof typeof PEOPLE) => {
      const page = await newPage({ ...options, ...NOBODY, viewport: { width, height: 900 } }, /4\d\d/);
      await page.goto(at('/incidents'));
      await signInAs(page, person);
      await expect.poll(() => wordsOf(page)).toContain('happening now');
      return page;
    };
    const kari = await signedIn('Kari');
    const ingrid = await signedIn('Ingrid');

    await kari.locator('.incidents a').first().click();
    await kari.getByText('Acknowledge…').click();
    await kari.getByLabel('Note').fill('the bank is called');
    await kari.getByRole('button', { name: 'Acknowledge', exact: true }).click();
    await expect.poll(() => wordsOf(kari)).toContain(`Acknowledged by ${CALLED} at`);

    await ingrid.goto(at('/incidents'));
    expect(await wordsOf(ingrid)).toMatch(
      /acknowledged by Kari Nordmann \(b81e4c7a-2d96…\) .*: the bank is called/,
    );
    await ingrid.goto(at('/replay?topic=payment.captured&subscriber=accounting&since=24h'));
    await ingrid.getByLabel('Reason').fill('the account is open');

    await kari.goto(at('/replay?topic=payment.captured&subscriber=accounting&since=24h'));
    await kari.getByLabel('Reason').fill('the account is open');
    await kari.getByRole('button', { name: 'Replay 2 dead letters' }).click();
    await kari.waitForURL('**/replays/*');

    await ingrid.getByRole('button', { name: 'Replay 2 dead letters' }).click();
    await expect.poll(() => wordsOf(ingrid)).toContain('Nothing to replay');
    await ingrid.getByRole('link', { name: 'what operators did' }).click();
    await expect.poll(() => wordsOf(ingrid)).toContain(CALLED);

    expect(JSON.stringify(await rows(db, 'select * from operator_actions'))).not.toContain('Nordmann');
    expect(JSON.stringify(await rows(db, 'select * from replays'))).not.toContain('Nordmann');
  },
);

test('pages with the longest name meet WCAG 2.2 A and AA, and scroll nothing sideways at 390 and 320 px', async ({
  at,
  db,
  newPage,
}) => {
  await rows(db, 'truncate operator_names, pauses');
  const page = await newPage({}, REFUSALS);
  await page.request.post(at('/subscribers/ledger/pause'), { data: { reason: 'maintenance' } });
  const [paused] = await rows<{ by: string }>(db, 'select paused_by as by from pauses');
  await rows(db, `insert into operator_names (subject, name, seen_at) values ($1, repeat('k', 60), now())`, [
    paused!.by,
  ]);
  const faults = [];
  for (const path of ['', '/incidents', '/replays', '/subscribers', '/subscribers/ledger'])
    faults.push(...(await pageFaults(page, at(path))));
  expect(await wordsOf(page)).toContain(`paused for all its topics by ${'k'.repeat(60)} (`);
  expect(faults).toEqual([]);
});
