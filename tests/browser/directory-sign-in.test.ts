import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { forgetEvents } from '../support/scenes.ts';
import { VIEWS, wordsOf } from '../support/console-test.ts';
import { NOBODY, REFUSALS, signInAs, test } from '../support/directory-test.ts';
import { violationsOf } from '../support/page-faults.ts';

const KARI = 'Kari Nordmann, operator';
const OLA = 'Ola Hansen, reader';

const refusing = attach('accounting', {
  'payment.captured': () => {
    throw new PermanentError('the account is closed');
  },
});

test.for(VIEWS)(
  'a person signs in with the directory, is back on the page that they asked for, and signs out here and there, $how',
  async ({ options }, { at, newPage, directory }) => {
    const page = await newPage({ ...options, ...NOBODY }, REFUSALS);
    await page.goto(at('/dead-letters?topic=payment.captured'));
    await signInAs(page, KARI);
    await page.waitForURL(at('/dead-letters?topic=payment.captured'));
    await expect.poll(() => page.locator('.who').innerText()).toContain('Kari Nordmann');
    const cookies = await page.context().cookies();
    const session = cookies.find(({ name }) => name === '__Host-event-bus');
    expect(session).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict', path: '/' });
    const underWay = cookies.find(({ name }) => name === '__Host-event-bus-sign-in');
    expect(underWay).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Lax', path: '/' });

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(at('/sign-in'));
    expect(directory.signedOut.at(-1)).toBe(at('/sign-in'));

    await page.context().addCookies([session!]);
    await page.goto(at(''));
    expect(await wordsOf(page)).toContain('Your session has ended. Sign in again.');
  },
);

test.for([
  { how: 'with script', options: {} },
  { how: 'without script', options: { javaScriptEnabled: false } },
] as const)(
  'a replay that is sent after the hour is not lost: the operator signs in, finds what was typed, and sends it, $how',
  async ({ options }, { at, db, newPage }) => {
    await forgetEvents(db, 'incidents', 'error_groups');
    await emitPayments(db, 1, 1);
    await drainLive(db, [refusing]);
    const replays = async () => (await rows(db, 'select from replays')).length;
    const before = await replays();
    const page = await newPage({ ...options, ...NOBODY }, REFUSALS);
    await page.goto(at('/dead-letters'));
    await signInAs(page, KARI);
    await page
      .getByRole('link', { name: /^Replay…/ })
      .first()
      .click();
    await page.getByLabel('Reason').fill('the account is open again');
    await rows(db, 'update sign_in_codes set expires_at = now()');
    await page.getByRole('button', { name: 'Replay 1 dead letter' }).click();

    await expect.poll(() => wordsOf(page)).toContain('Nothing was done.');
    await signInAs(page, KARI);
    if ('javaScriptEnabled' in options) await page.getByRole('button', { name: 'Continue' }).click();
    await expect.poll(() => wordsOf(page)).toContain('Not sent yet');
    expect(await replays()).toBe(before);
    const panel = page.locator('[data-unsent]');
    expect(await panel.getByLabel('Reason').inputValue()).toBe('the account is open again');
    await panel.getByRole('button', { name: 'Send' }).click();
    await page.waitForURL('**/replays/*');
    expect(await replays()).toBe(before + 1);
  },
);

test('a reader finds no button on any page that changes something, and is told who may', async ({
  at,
  db,
  newPage,
}) => {
  await emitPayments(db, 2, 2);
  await drainLive(db, [refusing]);
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at(''));
  await signInAs(page, OLA);
  await expect.poll(() => page.locator('.who').innerText()).toContain('viewer');
  const links = await page
    .getByRole('navigation', { name: 'Main' })
    .getByRole('link')
    .evaluateAll((found) => found.map((link) => (link as never as { href: string }).href));
  expect(links.length).toBeGreaterThan(5);
  const details: string[] = [];
  for (const list of ['dead-letters', 'events', 'incidents']) {
    await page.goto(at(`/${list}`));
    const pattern = new RegExp(`/${list}/[\\w.-]+$`);
    const found = await page
      .getByRole('main')
      .getByRole('link')
      .evaluateAll((all) => all.map((link) => (link as never as { href: string }).href));
    details.push(...found.filter((href) => pattern.test(href)).slice(0, 1));
  }
  expect(details).toHaveLength(3);
  for (const link of [...links, ...details, at('/topics/payment.captured'), at('/subscribers/accounting')]) {
    await page.goto(link);
    const forms = await page
      .locator('form[method="post"]')
      .evaluateAll((found) =>
        found.map((form) => new URL((form as never as { action: string }).action).pathname),
      );
    expect([link, forms]).toEqual([link, ['/platform/event-bus/sign-out']]);
  }
  // What the button would send, sent all the same.
  const { status, text } = await page.evaluate(async (url) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { accept: 'application/json' },
      body: new URLSearchParams({ topic: 'payment.captured', since: '24h' }),
    });
    return { status: response.status, text: await response.text() };
  }, at('/replay'));
  expect(status).toBe(403);
  expect(text).toContain('None of your roles gives event-bus:replay.');
});

test('the page to sign in and the page of a refusal violate no rule of WCAG', async ({ at, newPage }) => {
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/sign-in'));
  const faults = await violationsOf(page);
  await signInAs(page, 'Per Bibliotek');
  await expect.poll(() => wordsOf(page)).toContain('none of your roles is mapped');
  faults.push(...(await violationsOf(page)));
  expect(faults).toEqual([]);
});
