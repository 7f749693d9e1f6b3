import { expect } from 'vitest';

import { rows } from '../support/bus.ts';
import { wordsOf } from '../support/console-test.ts';
import { NOBODY, REFUSALS, signInAs, test } from '../support/directory-test.ts';

// Four files play sign-ins, each on a server of its own: a visitor may sign in ten times a minute.

const KARI = 'Kari Nordmann, operator';

test('a person who follows a link from elsewhere keeps the session', async ({ at, newPage, directory }) => {
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/events'));
  await signInAs(page, KARI);
  await page.waitForURL(at('/events'));
  await page.goto(`${directory.issuer}/.well-known/openid-configuration`);
  await page.evaluate(`location.href = '${at('/replays')}'`);
  await page.waitForURL(/\/replays/);
  await expect.poll(() => page.locator('.who').innerText()).toContain('Kari Nordmann');
});

test('two tabs of a browser sign in beside each other', async ({ at, newPage }) => {
  const first = await newPage(NOBODY, REFUSALS);
  const second = await first.context().newPage();
  await first.goto(at('/replays'));
  await second.goto(at('/events'));
  for (const page of [first, second]) await page.getByRole('button', { name: /^Sign in with 127/ }).click();
  for (const page of [second, first]) await page.getByRole('link', { name: KARI }).click();
  await first.waitForURL(at('/replays'));
  await second.waitForURL(at('/events'));
  for (const page of [first, second])
    await expect.poll(() => page.locator('.who').innerText()).toContain('Kari Nordmann');
});

test('a sign-in that takes longer than an hour is begun again', async ({ at, newPage, db, directory }) => {
  directory.behave('right');
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/replays'));
  await page.getByRole('button', { name: /^Sign in with 127/ }).click();
  await page.waitForURL(/\/authorize/);
  await rows(db, 'update sign_in_codes set expires_at = now()');
  await page.getByRole('link', { name: KARI }).click();
  await expect.poll(() => wordsOf(page)).toContain('took longer than an hour');
  await signInAs(page, KARI);
  await expect.poll(() => page.locator('.who').innerText()).toContain('Kari Nordmann');
});

test('a person signs out while the directory is away, and the old cookie opens nothing', async ({
  at,
  newPage,
  directory,
}) => {
  directory.behave('right');
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/replays'));
  await signInAs(page, KARI);
  await page.waitForURL(at('/replays'));
  const cookies = await page.context().cookies();
  directory.behave(503);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(/\/sign-out\?/);
  directory.behave('right');
  await page.context().addCookies(cookies);
  await page.goto(at('/replays'));
  await expect.poll(() => wordsOf(page)).toContain('Your session has ended. Sign in again.');
});

test('an answer is taken once, with its state and in its browser', async ({ at, newPage, directory }) => {
  directory.behave('right');
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/replays'));
  await page.getByRole('button', { name: /^Sign in with 127/ }).click();
  const chosen = await page.getByRole('link', { name: KARI }).getAttribute('href');
  // The answer that the directory would send the browser back with, to be used elsewhere first.
  const { headers } = await fetch(new URL(chosen ?? '', directory.issuer), { redirect: 'manual' });
  const answer = headers.get('location') ?? '';
  const stranger = await newPage(NOBODY, REFUSALS);
  const wrongState = new URL(answer);
  wrongState.searchParams.set('state', 'x'.repeat(43));
  for (const [tab, url] of [
    [stranger, answer],
    [page, wrongState.href],
  ] as const) {
    await tab.goto(url);
    expect(await wordsOf(tab)).toContain('This sign-in was finished already, was begun in another browser');
  }
  await page.goto(answer);
  await page.waitForURL(at('/replays'));
  await page.goto(answer);
  expect(await wordsOf(page)).toContain('This sign-in was finished already');
});
