import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Browser, Page, Request } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { serveSite } from '../../dev/site-server.ts';
import { chatRoute } from '../../lib/edge/chat/route.ts';
import { inquiryRoute } from '../../lib/edge/inquiry/route.ts';
import { problemCodes, problemValue } from '../../lib/platform/http/problem-codes.ts';
import { launchBrowser } from '../support/browser.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { freePort } from '../support/postgres.ts';

let folder: string;
let server: LocalServer;
let allowed: Awaited<ReturnType<typeof serveSite>>;
let foreign: Awaited<ReturnType<typeof serveSite>>;
let browser: Browser;
let page: Page;
let requests: Request[];
let mistakes: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postbud-site-'));
  const port = await freePort();
  const api = `http://localhost:${port}`;
  allowed = await serveSite(0, api);
  foreign = await serveSite(0, api);
  server = await startLocalServer({
    PORT: String(port),
    DATA_DIR: folder,
    DEMO: 'off',
    CORS_ORIGINS: allowed.url,
    CHAT_RATE_PER_DAY: '4',
    INQUIRY_RATE_PER_10_MINUTES: '50',
  });
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
  await Promise.all([allowed?.close(), foreign?.close()]);
  await rm(folder, { recursive: true, force: true });
});

beforeEach(async () => {
  page = await browser.newPage();
  requests = [];
  mistakes = [];
  page.on('request', (request) => requests.push(request));
  page.on('console', (message) => {
    if (message.type() === 'error') mistakes.push(message.text());
  });
  page.on('pageerror', (error) => mistakes.push(error.message));
});

afterEach(() => page.close());

const open = (site: { url: string }) => page.goto(site.url);

async function ask(question: string): Promise<void> {
  await page.getByLabel('Spørsmål').fill(question);
  await page.getByRole('button', { name: 'Send', exact: true }).click();
}

async function fillInquiry(email = 'kari@example.no'): Promise<void> {
  await page.getByLabel('Navn').fill('Kari Lunde');
  await page.getByLabel('E-post').fill(email);
  await page.getByLabel('Organisasjon').fill('Solvik idrettslag');
  await page.getByLabel('Melding').fill('Vi vil gjerne se en demo.');
  await page.getByRole('button', { name: 'Send inn' }).click();
}

describe('a marketing site on another origin, in a browser', () => {
  it('a site’s page chats in a stream after a preflight', async () => {
    await open(allowed);
    await ask('Har dere et møterom for tolv?');
    const answer = page.locator('#turns li[data-role="assistant"]');
    await expect.poll(() => answer.textContent()).toMatch(/\w{3}/);
    await expect.poll(() => page.locator('#chat-status').textContent()).toBe('');
    // The browser keeps preflights from its own listeners: the server tells of them.
    expect(server.output()).toMatch(/OPTIONS.*\/api\/chat.*204/);
    expect(
      requests.some((request) => request.url().endsWith('/api/chat') && request.method() === 'POST'),
    ).toBe(true);
    expect(mistakes).toEqual([]);
  });

  it('a site’s page sends an inquiry, which becomes a mail', async () => {
    await open(allowed);
    await fillInquiry();
    await expect.poll(() => page.locator('#inquiry-status').textContent()).toContain('Takk');
    expect(mistakes).toEqual([]);
    const sent = requests.find((request) => request.url() === `${server.url}/api/inquiry`);
    expect(sent?.headers()).toMatchObject({
      'content-type': expect.stringMatching(/^multipart\/form-data/),
      'idempotency-key': expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
  });

  it('no address chooses where a page of the site sends what is typed', async () => {
    await page.goto(`${allowed.url}/?api=${encodeURIComponent(foreign.url)}`);
    await fillInquiry();
    await expect.poll(() => page.locator('#inquiry-status').textContent()).toContain('Takk');
  });

  it('a page may call with the headers of its instruments, and reads what was exposed', async () => {
    await open(allowed);
    const exposed = await page.evaluate(async (url) => {
      const { headers } = await fetch(url, {
        method: 'POST',
        body: JSON.stringify({}),
        headers: {
          'content-type': 'application/json',
          'sentry-trace': 'x',
          baggage: 'x=y',
          traceparent: 'x',
          'x-requested-with': 'XMLHttpRequest',
          'cache-control': 'no-cache',
        },
      });
      return headers.get('x-request-id');
    }, `${server.url}/api/inquiry`);
    expect(exposed).toMatch(/^[0-9a-f-]{36}$/);
  });

  describe('without script', () => {
    beforeEach(async () => {
      await page.close();
      page = await browser.newPage({ javaScriptEnabled: false });
    });

    it('a page without script sends an inquiry and goes on to the site’s own page', async () => {
      await open(allowed);
      expect(await page.getByLabel('Spørsmål').isVisible()).toBe(false);
      await fillInquiry();
      await page.waitForURL(`${allowed.url}/takk`);
      expect(await page.textContent('h1')).toBe('Takk for henvendelsen');
    });

    it('a page without script is told which field is wrong, and goes back to what was typed', async () => {
      await open(allowed);
      await fillInquiry('kari@example');
      await page.waitForURL(`${server.url}/api/inquiry`);
      expect(await page.textContent('li')).toBe('E-post er ikke en e-postadresse.');
      await page.goBack();
      expect(await page.getByLabel('Melding').inputValue()).toBe('Vi vil gjerne se en demo.');
    });

    it('a page that hides its origin sends an inquiry, and its visitor sees that it arrived', async () => {
      await page.route(`${allowed.url}/`, async (route) => {
        const response = await route.fetch();
        await route.fulfill({
          response,
          headers: { ...response.headers(), 'referrer-policy': 'no-referrer' },
        });
      });
      await open(allowed);
      const sent = page.waitForRequest(`${server.url}/api/inquiry`);
      await fillInquiry();
      expect((await (await sent).allHeaders())['origin']).toBe('null');
      await page.waitForURL(`${server.url}/api/inquiry`);
      expect(await page.textContent('h1')).toBe('Takk for henvendelsen');
    });

    it('a page of another origin that sends its form is refused with a page', async () => {
      await open(foreign);
      await fillInquiry();
      await page.waitForURL(`${server.url}/api/inquiry`);
      expect(await page.textContent('h1')).toBe('Skjemaet kan ikke brukes herfra');
    });
  });

  it('a site’s page can read an inquiry’s issues and a limit’s Retry-After', async () => {
    await open(allowed);
    const status = () => page.locator('#chat-status').textContent();
    // A day may end among them, and a new count begin.
    for (let turn = 0; turn < 9 && !(await status())?.includes('Prøv igjen'); turn += 1) {
      await ask(`Spørsmål ${turn}`);
      await expect.poll(status).not.toBe('Skriver …');
    }
    expect(await status()).toMatch(/Prøv igjen om \d+ (sekunder|minutter|timer)/);
  });

  it('what a visitor typed stays when the site is offline, and the site says so in Norwegian', async () => {
    await open(allowed);
    await page.context().setOffline(true);
    await ask('Har dere et møterom for tolv?');
    await expect
      .poll(() => page.locator('#chat-status').textContent())
      .toBe('Vi får ikke kontakt. Spørsmålet ditt står der fortsatt. Sjekk nettet og prøv igjen.');
    expect(await page.getByLabel('Spørsmål').inputValue()).toBe('Har dere et møterom for tolv?');
    expect(await page.locator('#turns li').count()).toBe(0);
    await fillInquiry();
    await expect
      .poll(() => page.locator('#inquiry-status').textContent())
      .toBe('Vi får ikke kontakt. Det du skrev, står der fortsatt. Sjekk nettet og prøv igjen.');
    expect(await page.getByLabel('Melding').inputValue()).toBe('Vi vil gjerne se en demo.');

    await page.context().setOffline(false);
    await page.getByRole('button', { name: 'Send inn' }).click();
    await expect.poll(() => page.locator('#inquiry-status').textContent()).toContain('Takk');
    expect(await page.getByLabel('Melding').inputValue()).toBe('');
  });

  it('a visitor who fills in a field wrongly is told which one, in Norwegian', async () => {
    await open(allowed);
    await page.getByRole('button', { name: 'Send inn' }).click();
    const told = () =>
      page.getByLabel('Navn').evaluate((field: { validationMessage: string }) => field.validationMessage);
    expect(await told()).toBe('Fyll ut dette feltet.');
    await fillInquiry('kari@example');
    await expect
      .poll(() => page.locator('#inquiry-status').textContent())
      .toBe('E-post er ikke en gyldig e-postadresse, for eksempel kari@example.no.');
    expect(await page.getByLabel('E-post').getAttribute('aria-invalid')).toBe('true');
    expect(await page.locator('#email-error').textContent()).toContain('kari@example.no');
    expect(await page.getByLabel('Melding').inputValue()).toBe('Vi vil gjerne se en demo.');
  });

  it('the site says each problem of the API in Norwegian', async () => {
    await open(allowed);
    for (const code of [...chatRoute.problems, ...inquiryRoute.problems]) {
      const { status } = problemCodes[code];
      const { detail } = problemValue(code, { detail: 'The English words of the API.' });
      await page.route('**/api/inquiry', (route) =>
        route.request().method() === 'OPTIONS'
          ? route.continue()
          : route.fulfill({
              status,
              headers: {
                'access-control-allow-origin': '*',
                'retry-after': '41',
                'access-control-expose-headers': 'retry-after',
              },
              json: { code, detail },
            }),
      );
      await fillInquiry();
      const words = () => page.locator('#inquiry-status').textContent();
      await expect.poll(words).not.toBe('Sender …');
      expect([code, await words()]).toEqual([code, expect.stringMatching(/[Pp]røv|ikke|for lang/)]);
      expect(await words()).not.toContain(detail);
      await page.unroute('**/api/inquiry');
    }
  });

  it('a page of another origin is refused', async () => {
    await open(foreign);
    await ask('Slipper jeg inn?');
    await expect.poll(() => page.locator('#chat-status').textContent()).not.toBe('Skriver …');
    expect(mistakes.join(' ')).toContain('CORS');
  });
});
