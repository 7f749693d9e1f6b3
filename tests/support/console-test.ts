import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { expect, inject, test as base } from 'vitest';

import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { launchBrowser } from './browser.ts';
import { startLocalServer } from './local-server.ts';
import { operatorToken } from './operator-token.ts';
import { createDatabase, freePort } from './postgres.ts';

/** Signs the tokens that the server accepts. */
export const SECRET = 'a secret of the tests in a browser';

/** How operators look at the console: the two ways that a page must work. */
export const VIEWS = [
  { how: 'with script', options: { colorScheme: 'light' } },
  { how: 'without script', options: { colorScheme: 'dark', javaScriptEnabled: false } },
] as const;

/**
 * Vitest's `test` for the operators' console, in a real browser. Its fixtures:
 *
 * - `variables`: those of the server. A file that needs some extends the fixture:
 *   `const test = consoleTest.extend('variables', { scope: 'file' }, async () => ({ … }))`.
 * - `db`: the server's database, a Postgres of the file's own.
 * - `at(path)`: the address of a page.
 * - `newPage(options?, expected?)`: opens a page whose requests have an operator's token. The test fails when that page logs
 *   an error other than those expected.
 */
export const test = base
  .extend('variables', { scope: 'file' }, (): Readonly<Record<string, string>> => ({}))
  .extend('databaseUrl', { scope: 'file' }, async () => await createDatabase(inject('postgresUrl')))
  .extend('at', { scope: 'file' }, async ({ variables, databaseUrl }, { onCleanup }) => {
    const folder = await mkdtemp(join(tmpdir(), 'postbud-console-'));
    const server = await startLocalServer({
      PORT: String(await freePort()),
      DATA_DIR: folder,
      DATABASE_URL: databaseUrl,
      OPERATOR_JWT_SECRET: SECRET,
      ...variables,
    });
    onCleanup(async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    });
    return (path: string) => `${server.url}/platform/event-bus${path}`;
  })
  .extend('db', { scope: 'file' }, async ({ databaseUrl }, { onCleanup }): Promise<Database> => {
    const { db, close } = await connect(databaseUrl);
    onCleanup(close);
    return db;
  })
  .extend('browser', { scope: 'file' }, async ({}, { onCleanup }) => {
    const browser = await launchBrowser();
    onCleanup(() => browser.close());
    return browser;
  })
  .extend('newPage', async ({ browser }, { onCleanup }) => {
    const contexts: BrowserContext[] = [];
    const mistakes: string[] = [];
    onCleanup(async () => {
      for (const context of contexts) await context.close();
      expect(mistakes).toEqual([]);
    });
    return async (options: BrowserContextOptions = {}, expected = /^(?!)/): Promise<Page> => {
      const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        extraHTTPHeaders: { authorization: `Bearer ${await operatorToken({}, SECRET)}` },
        ...options,
      });
      contexts.push(context);
      const page = await context.newPage();
      // What the content security policy refuses is told here too.
      page.on('console', (message) => {
        if (message.type() === 'error' && !expected.test(message.text())) mistakes.push(message.text());
      });
      page.on('pageerror', (error) => mistakes.push(error.message));
      return page;
    };
  });

/** Has an open page ask again within a second. */
export async function refreshSoon(page: Page): Promise<void> {
  await page.evaluate(`document.querySelector('main').dataset.refresh = 1`);
}

/** Gives the words of a page's main part, however they are laid out. */
export async function wordsOf(page: Page): Promise<string> {
  return (await page.getByRole('main').innerText()).replaceAll(/\s+/g, ' ');
}
