import type { Page } from 'playwright-core';

import { startDirectory } from '../../dev/stand-ins/directory.ts';
import { test as consoleTest } from './console-test.ts';

/** Vitest's `test` in a real browser, for a console with the file's own stand-in directory. */
export const test = consoleTest
  .extend('directory', { scope: 'file' }, async ({}, { onCleanup }) => {
    const directory = await startDirectory();
    onCleanup(() => directory.close());
    return directory;
  })
  .extend('variables', { scope: 'file' }, ({ directory }) => directory.variables);

/** Without a token in the requests. A page that nobody is signed in for is an error to the browser. */
export const NOBODY = { extraHTTPHeaders: {} };
export const REFUSALS = /status of (401|403|410|502|503)/;

/** Presses the button on the page to sign in, and chooses who to be. */
export async function signInAs(page: Page, person: string): Promise<void> {
  await page.getByRole('button', { name: /^Sign in with 127/ }).click();
  await page.getByRole('link', { name: person }).click();
}
