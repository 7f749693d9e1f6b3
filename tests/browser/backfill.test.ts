import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest';

import { connect } from '../../lib/db/connect.ts';
import type { Connection } from '../../lib/db/connect.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { rows } from '../support/bus.ts';
import { launchBrowser } from '../support/browser.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { operatorToken } from '../support/operator-token.ts';
import { pageFaults } from '../support/page-faults.ts';
import { createDatabase, freePort } from '../support/postgres.ts';

const SECRET = 'a secret of the tests of backfills in a browser';

let folder: string;
let server: LocalServer;
let browser: Browser;
let connection: Connection;
let mistakes: string[];
let context: BrowserContext | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postbud-backfill-'));
  const databaseUrl = await createDatabase(inject('postgresUrl'));
  server = await startLocalServer({
    PORT: String(await freePort()),
    DATA_DIR: folder,
    DATABASE_URL: databaseUrl,
    OPERATOR_JWT_SECRET: SECRET,
  });
  connection = await connect(databaseUrl);
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await connection?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

afterEach(async () => {
  await context?.close();
  expect(mistakes).toEqual([]);
});

async function newPage(options: BrowserContextOptions): Promise<Page> {
  context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    extraHTTPHeaders: { authorization: `Bearer ${await operatorToken({}, SECRET)}` },
    ...options,
  });
  const page = await context.newPage();
  mistakes = [];
  page.on('console', (message) => {
    if (message.type() === 'error') mistakes.push(message.text());
  });
  page.on('pageerror', (error) => mistakes.push(error.message));
  return page;
}

const at = (path: string) => `${server.url}/platform/event-bus${path}`;
const words = async (page: Page) => (await page.getByRole('main').innerText()).replaceAll(/\s+/g, ' ');

test.each([
  { how: 'with script', options: { colorScheme: 'light' } as const },
  { how: 'without script', options: { colorScheme: 'dark', javaScriptEnabled: false } as const },
])(
  'an operator backfills from the topic’s page, watches it going on, and stops it, $how',
  async ({ options }) => {
    await rows(connection.db, 'truncate events, awaiting_fan_out, deliveries, lanes, backlog, backfills');
    await storedWithoutLedger(connection.db, 1, 6);
    const page = await newPage(options);
    await page.goto(at('/topics/payment.captured'));
    await page.getByRole('link', { name: /^Backfill…/ }).click();
    await expect.poll(() => words(page)).toContain('Backfill 6 deliveries?');
    await page.getByLabel('Per minute').fill('1');
    await page.getByRole('button', { name: 'Preview again' }).click();
    await expect.poll(() => words(page)).toContain('1 a minute: about 6 min');
    await page.getByLabel('Reason').fill('the ledger is new');
    await page.getByRole('button', { name: 'Backfill 6 deliveries' }).click();
    await page.waitForURL('**/backfills/*');
    await expect
      .poll(() => words(page))
      .toMatch(/Under way: 1 of 6 written.* 0 delivered, 1 waiting because ledger is not attached/);
    // The page follows it by itself.
    await rows(connection.db, `update backfills set written = 4, next_at = now() + interval '1 hour'`);
    await expect.poll(() => words(page)).toContain('Under way: 4 of 6 written');

    await page.getByText('Stop…').click();
    await page.getByLabel('Reason').fill('too fast');
    await page.getByRole('button', { name: 'Stop the backfill' }).click();
    await expect.poll(() => words(page)).toContain('Stopped: 4 of 6 written.');
    await page.getByRole('link', { name: '← Backfills' }).click();
    await expect.poll(() => words(page)).toContain('the ledger is new');
    expect(await words(page)).toContain('stopped');
  },
);

test('the pages of backfills meet WCAG 2.2 A and AA in light and dark, and nothing on them scrolls sideways', async () => {
  await rows(connection.db, 'truncate events, awaiting_fan_out, deliveries, lanes, backlog, backfills');
  await storedWithoutLedger(connection.db, 1, 120);
  const page = await newPage({});
  const subscription = 'topic=payment.captured&subscriber=ledger';
  const paths = [
    `/backfill?${subscription}&since=60d`,
    '/backfill?topic=payment.captured&subscriber=accounting&since=30d',
    '/topics/payment.captured',
    '/subscribers/ledger',
    '/backfills',
  ];
  const faults: string[] = [];
  for (const path of paths) faults.push(...(await pageFaults(page, at(path))));
  await page.goto(at(`/backfill?${subscription}&since=30d&perMinute=40`));
  await page.getByLabel('Reason').fill('the ledger is new');
  await page.getByLabel('Type 120 to confirm').fill('120');
  await page.getByRole('button', { name: 'Backfill 120 deliveries' }).click();
  await page.waitForURL('**/backfills/*');
  for (const url of [page.url(), ...paths.map(at), at(`/backfills?${subscription}`), at('/replays')])
    faults.push(...(await pageFaults(page, url)));
  expect(faults).toEqual([]);
});
