import { expect } from 'vitest';

import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, test, wordsOf } from '../support/console-test.ts';
import { pageFaults } from '../support/page-faults.ts';

const PERSON = { userId: 'usr_3071', name: 'Kari Lunde', email: 'kari.lunde@example.no' };

test.for(VIEWS)(
  'an operator erases a person, and sees what became of it, $how',
  async ({ options }, { at, db, newPage }) => {
    await forgetEvents(db, 'notifications', 'erasures');
    await emitAlone(db, 'user.profile.updated', payloadOf('user.profile.updated', PERSON));
    const page = await newPage(options);
    await page.goto(at('/replays'));
    await page.getByLabel('Names of the person').fill(PERSON.userId);
    await page.getByRole('button', { name: 'Preview the erasure' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Erase 1 event?');
    expect(await wordsOf(page)).toContain('Names usr_3071 and k…@…');
    expect(await wordsOf(page)).not.toContain('kari');
    await page.getByLabel('Reason').fill('request 2026-114');
    await page.getByLabel('Type usr_3071 to confirm').fill(PERSON.userId);
    await page.getByRole('button', { name: 'Erase 1 event' }).click();
    await page.waitForURL('**/erasures/*');
    await expect
      .poll(async () => {
        if ('javaScriptEnabled' in options) await page.reload();
        return await wordsOf(page);
      })
      .toContain('1 event named the person.');
    const [event] = await rows<{ id: string; payload: object }>(db, 'select id::text, payload from events');
    expect(JSON.stringify(event)).not.toMatch(/kari|lunde/i);
    await page.goto(at(`/events/${event!.id}`));
    expect(await wordsOf(page)).toMatch(/erased/i);
  },
);

test('the pages of erasures meet WCAG 2.2 A and AA in light and dark, and nothing on them scrolls sideways', async ({
  at,
  db,
  newPage,
}) => {
  await forgetEvents(db, 'notifications', 'erasures');
  const { id } = await emitAlone(
    db,
    'user.profile.updated',
    payloadOf('user.profile.updated', { ...PERSON, userId: 'usr_204' }),
  );
  const page = await newPage();
  await page.goto(at('/replays'));
  await page.getByLabel('Names of the person').fill('usr_204');
  await page.getByRole('button', { name: 'Preview the erasure' }).click();
  await page.getByLabel('Reason').fill('request 2026-115');
  await page.getByLabel('Type usr_204 to confirm').fill('usr_204');
  await page.getByRole('button', { name: 'Erase 1 event' }).click();
  await page.waitForURL('**/erasures/*');
  const faults: string[] = [];
  for (const url of [page.url(), at('/replays?only=erasures'), at(`/events/${id}`), at('/replays')])
    faults.push(...(await pageFaults(page, url)));
  expect(faults).toEqual([]);
});
