import { expect } from 'vitest';

import { VIEWS, test as consoleTest, refreshSoon, SECRET, wordsOf } from '../support/console-test.ts';
import { gateTo } from '../support/gate.ts';
import { runProgram } from '../support/local-server.ts';
import { operatorToken } from '../support/operator-token.ts';
import { pageFaults } from '../support/page-faults.ts';
import { PATIENTLY } from '../support/patience.ts';

const test = consoleTest
  .extend('gate', { scope: 'file' }, async ({ databaseUrl }, { onCleanup }) => {
    const gate = await gateTo(databaseUrl);
    onCleanup(gate.stop);
    return gate;
  })
  .extend('variables', { scope: 'file' }, async ({ gate }): Promise<Readonly<Record<string, string>>> => {
    return { DATABASE_URL: gate.url };
  });

const AWAY = /No answer from the database since [\w :]*\d\d:\d\d/;
const UNAVAILABLE = /status of 503/;

test.for([1280, 390])(
  'an open page says that the database is away in the place of its figures, and shows them again once it is back, %i px wide',
  async (width, { at, gate, newPage }) => {
    const page = await newPage({ viewport: { width, height: 900 } }, UNAVAILABLE);
    await page.goto(at(''));
    await expect.poll(() => wordsOf(page)).toContain('All quiet');
    gate.set('closed');
    await expect.poll(() => wordsOf(page)).toMatch(AWAY);
    expect(await wordsOf(page)).not.toContain('All quiet');
    expect(await page.title()).toMatch(/^No answer from the database/);
    const [first] = AWAY.exec(await wordsOf(page))!;
    await page.waitForResponse('**/platform/event-bus');
    await expect.poll(() => wordsOf(page)).toContain(first);
    gate.set('open');
    await expect.poll(() => wordsOf(page)).toContain('All quiet');
    expect(await page.title()).toMatch(/^Overview/);
  },
);

test.for(VIEWS)(
  'a page that is opened while the database is away says so, and comes by itself once it is back, $how',
  async ({ options }, { at, gate, newPage }) => {
    const page = await newPage(options, UNAVAILABLE);
    gate.set('closed');
    expect((await page.goto(at('/events')))?.status()).toBe(503);
    expect(await wordsOf(page)).toMatch(AWAY);
    gate.set('open');
    await expect.poll(() => wordsOf(page)).toContain('newest first');
    expect(await wordsOf(page)).not.toMatch(AWAY);
  },
);

test('what is being typed stays while the database is away, and the page says so above it', async ({
  at,
  gate,
  newPage,
}) => {
  const page = await newPage({}, UNAVAILABLE);
  await page.goto(at('/timers'));
  const field = page.getByLabel('Timer key');
  await field.fill('payment');
  gate.set('closed');
  await expect
    .poll(() => page.locator('[data-live]').innerText())
    .toMatch(/^No answer from the database since [\w :]+, as of/);
  expect(await field.inputValue()).toBe('payment');
  gate.set('open');
});

test('a database that takes connections and says nothing is away too', async ({ at, gate, newPage }) => {
  const page = await newPage({}, UNAVAILABLE);
  await page.goto(at(''));
  await expect.poll(() => wordsOf(page)).toContain('All quiet');
  gate.set('silent');
  await refreshSoon(page);
  await expect.poll(() => wordsOf(page)).toMatch(AWAY);
  gate.set('open');
  await expect.poll(() => wordsOf(page), PATIENTLY).toContain('All quiet');
});

test('programs get a problem with the status 503, and the command line says the same and ends with 3', async ({
  at,
  gate,
}) => {
  const token = await operatorToken({}, SECRET);
  gate.set('closed');
  const answer = await fetch(at(''), { headers: { authorization: `Bearer ${token}` } });
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
  expect(await answer.json()).toMatchObject({
    code: 'database_unavailable',
    detail: expect.stringMatching(/^No answer from the database since .*\d\d:\d\d\b.* UTC\.$/),
  });
  const { origin } = new URL(at(''));
  const ended = await runProgram('cli/postbud.mjs', { POSTBUD_URL: origin, POSTBUD_TOKEN: token }, [
    'topics',
  ]);
  expect(ended).toMatchObject({ code: 3, output: expect.stringMatching(AWAY) });
  gate.set('open');
});

test('the page that says so meets WCAG 2.2 A and AA in light and dark, and scrolls nothing sideways at 390 and 320 px', async ({
  at,
  gate,
  newPage,
}) => {
  gate.set('closed');
  const page = await newPage({}, UNAVAILABLE);
  expect(await pageFaults(page, at(''))).toEqual([]);
  gate.set('open');
});
