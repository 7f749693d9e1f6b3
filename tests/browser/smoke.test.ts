import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest';

import { connect } from '../../lib/db/connect.ts';
import type { Connection } from '../../lib/db/connect.ts';
import { emitPayments } from '../support/bus.ts';
import { launchBrowser } from '../support/browser.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { operatorToken } from '../support/operator-token.ts';
import { pageFaults } from '../support/page-faults.ts';
import { createDatabase, freePort } from '../support/postgres.ts';
import { openReceiver } from '../support/receiver.ts';
import type { Receiver } from '../support/receiver.ts';
import { secretsOf } from '../support/webhook-senders.ts';

const SECRET = 'a secret of the tests of smoke tests in a browser';
const ELSEWHERE = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

let folder: string;
let server: LocalServer;
let browser: Browser;
let connection: Connection;
let accounting: Receiver;
let mistakes: string[];
let context: BrowserContext | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postbud-smoke-'));
  const databaseUrl = await createDatabase(inject('postgresUrl'));
  accounting = await openReceiver();
  server = await startLocalServer({
    PORT: String(await freePort()),
    DATA_DIR: folder,
    DATABASE_URL: databaseUrl,
    OPERATOR_JWT_SECRET: SECRET,
    WEBHOOK_CARDPAYMENTS_SECRET: secretsOf.stripe[0],
    WEBHOOK_CARDPAYMENTS_SCHEME: 'stripe',
    WEBHOOK_WALLETPAYMENTS_SECRET: secretsOf.vipps[0],
    WEBHOOK_WALLETPAYMENTS_SCHEME: 'vipps',
    SUBSCRIBER_ACCOUNTING_URL: accounting.url,
    SUBSCRIBER_ACCOUNTING_SECRET: ELSEWHERE,
    SUBSCRIBER_REPORTING_URL: `http://127.0.0.1:${await freePort()}/`,
    SUBSCRIBER_REPORTING_SECRET: ELSEWHERE,
  });
  connection = await connect(databaseUrl);
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await connection?.close();
  await server?.stop();
  await accounting?.close();
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

test.each([
  { how: 'with script', options: { colorScheme: 'light' } as const },
  { how: 'without script', options: { colorScheme: 'dark', javaScriptEnabled: false } as const },
])('an operator starts a smoke test from the doctor, and sees what arrived, $how', async ({ options }) => {
  await emitPayments(connection.db, 1, 3);
  const page = await newPage(options);
  await page.goto(`${server.url}/platform/event-bus/doctor`);
  await page.getByRole('link', { name: 'smoke test' }).click();
  await page.getByRole('button', { name: 'Start a smoke test' }).click();
  await page.waitForURL('**/smoke/*');
  await expect
    .poll(async () => {
      if (options.javaScriptEnabled === false) await page.reload();
      return await page.locator('[data-alert]').first().innerText();
    })
    .toMatch(/7 of 8 tests arrived; reporting did not/);
  const row = async (name: string) =>
    (
      await page
        .getByRole('row', { name: new RegExp(`^${name}`) })
        .first()
        .innerText()
    ).replaceAll(/\s+/g, ' ');
  expect(await row('cardpayments')).toMatch(/arrived 200 .* payments \d+ ms/);
  expect(await row('walletpayments')).toMatch(/arrived 200 .* payments \d+ ms/);
  expect(await row('identityprovider')).toContain('set WEBHOOK_IDENTITYPROVIDER_SECRET');
  expect(await row('reporting')).toContain('the subscriber cannot be reached');
  expect(await row('ledger')).toMatch(/(\d+) of \1 \d+ oldest .* set SUBSCRIBER_LEDGER_URL/);
  if (options.javaScriptEnabled !== false) expect(await pageFaults(page, page.url())).toEqual([]);
});
