import { expect } from 'vitest';

import type { DirectoryBehaviour } from '../../dev/stand-ins/directory.ts';
import { wordsOf } from '../support/console-test.ts';
import { NOBODY, REFUSALS, signInAs, test } from '../support/directory-test.ts';

const KARI = 'Kari Nordmann, operator';

// First, while the server does not know the directory yet.
test('a person is told that the directory is away, and signs in when it is back', async ({
  at,
  newPage,
  directory,
}) => {
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/replays'));
  directory.behave(503);
  await page.getByRole('button', { name: /^Sign in with 127/ }).click();
  await expect
    .poll(() => wordsOf(page))
    .toContain(`No usable answer from the directory ${new URL(directory.issuer).host}`);
  directory.behave('right');
  await signInAs(page, KARI);
  await page.waitForURL(at('/replays'));
});

test.for<[DirectoryBehaviour, string]>([
  ['wrong nonce', 'it belongs to another sign-in (nonce)'],
  ['wrong audience', 'it is for another application (aud)'],
  ['wrong issuer', 'it is from another issuer (iss)'],
  ['expired', 'it has expired, or does not say when (exp)'],
  ['code used twice', 'did not take its own code'],
])(
  'nobody is signed in by an answer that is “%s”, and the page says why',
  async ([how, words], { at, newPage, directory }) => {
    const page = await newPage(NOBODY, REFUSALS);
    await page.goto(at('/replays'));
    directory.behave(how);
    await signInAs(page, KARI);
    await expect.poll(() => wordsOf(page)).toContain(words);
    directory.behave('right');
    const cookies = await page.context().cookies();
    expect(cookies.map(({ name }) => name)).toEqual(['__Host-event-bus-sign-in']);
  },
);

test('a person whom no role fits reads why, and signs in as someone else', async ({
  at,
  newPage,
  directory,
}) => {
  directory.behave('right');
  const page = await newPage(NOBODY, REFUSALS);
  await page.goto(at('/replays'));
  await signInAs(page, 'Per Bibliotek');
  await expect
    .poll(() => wordsOf(page))
    .toContain(
      'Signed in as Per Bibliotek, but none of your roles is mapped. The directory sent /ansatte, /bibliotek.',
    );
  await signInAs(page, KARI);
  await page.waitForURL(at('/replays'));
});
