import { expect } from 'vitest';

import type { DirectoryBehaviour } from '../../dev/stand-ins/directory.ts';
import { wordsOf } from '../support/console-test.ts';
import { NOBODY, REFUSALS, signInAs, test } from '../support/directory-test.ts';

const KARI = 'Kari Nordmann, operator';

test.for<[DirectoryBehaviour, string]>([
  ['unsigned', 'its signature or its form is wrong'],
  ['shared secret', 'its signature or its form is wrong'],
  ['wrong signature', 'its signature or its form is wrong'],
  ['wrong issuer in the address', 'it is from another issuer (iss)'],
  ['denied', 'you declined, or may not use this application'],
])(
  'an answer that is “%s” signs nobody in, and the page leads on to another try',
  async ([how, words], { at, newPage, directory }) => {
    directory.behave(how);
    const page = await newPage(NOBODY, REFUSALS);
    await page.goto(at('/replays'));
    await signInAs(page, KARI);
    await expect.poll(() => wordsOf(page)).toContain(words);
    directory.behave('right');
    const names = (await page.context().cookies()).map(({ name }) => name);
    expect(names).not.toContain('__Host-event-bus');
    await page.goto(at('/replays'));
    expect(await wordsOf(page)).toContain('Sign in to the event bus');
  },
);

test('a person is told that the directory went away while it signed them in, and signs in when it is back', async ({
  at,
  newPage,
  directory,
}) => {
  directory.behave('right');
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/replays'));
  await page.getByRole('button', { name: /^Sign in with 127/ }).click();
  const chosen = await page.getByRole('link', { name: KARI }).getAttribute('href');
  // The answer that the directory sends the browser back with, for whose code it no longer gives a token.
  const { headers } = await fetch(new URL(chosen ?? '', directory.issuer), { redirect: 'manual' });
  directory.behave(503);
  await page.goto(headers.get('location') ?? '');
  expect(await wordsOf(page)).toContain(
    `No usable answer from the directory ${new URL(directory.issuer).host}`,
  );
  directory.behave('right');
  await signInAs(page, KARI);
  await page.waitForURL(at('/replays'));
});
