import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readUIMessageStream } from 'ai';
import type { ChatTransport, UIMessage } from 'ai';
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

const GUIDE = await readFile(new URL('../../docs/site.md', import.meta.url), 'utf8');

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
    CHAT_RATE_PER_DAY: '7',
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

describe('the pieces of docs/site.md', () => {
  /** The code of the page, by the name in its first line. */
  const piece = (name: string) => {
    const [, code = ''] = new RegExp(`\\\`\\\`\\\`\\w+\\n(${name}[^]*?)\\\`\\\`\\\``).exec(GUIDE) ?? [];
    expect(code).not.toBe('');
    return code.replaceAll('https://postbud.example.no', server.url);
  };
  const form = () => piece('<form');
  const script = (name: string) => piece(`// ${name}`);

  /** Opens a page of the site and puts a document in its place. */
  async function openWith(markup: string, ...scripts: string[]): Promise<void> {
    const code = scripts.map((text) => `<script>${text}</script>`).join('');
    await page.goto(`${allowed.url}/takk`);
    await page.setContent(`<!doctype html>${markup}${code}`);
  }

  async function fillForm(email: string): Promise<void> {
    await page.getByLabel('Navn').fill('Kari Lunde');
    await page.getByLabel('E-post').fill(email);
    await page.getByLabel('Organisasjon').fill('Solvik idrettslag');
    await page.getByLabel('Melding').fill('Vi vil gjerne se en demo, sa siden.');
    await page.getByRole('button').click();
  }

  it('the form of the guide sends an inquiry without script, and its visitor comes back', async () => {
    await openWith(form());
    await fillForm('kari@example.no');
    await page.waitForURL(`${allowed.url}/takk`);
    expect(await page.textContent('h1')).toBe('Takk for henvendelsen');
  });

  it('the form of the guide sends an inquiry with script, and names a wrong field', async () => {
    await openWith(form(), script('problem.js'), script('inquiry.js'));
    await fillForm('kari@example');
    const status = page.getByRole('status');
    await expect.poll(() => status.textContent()).toBe('Rett opp: E-post.');
    await fillForm('kari.lunde@example.no');
    await expect.poll(() => status.textContent()).toBe('Takk! Vi svarer på e-post.');
    const answers = requests.filter((request) => request.url() === `${server.url}/api/inquiry`);
    expect(new Set(answers.map((request) => request.headers()['idempotency-key'])).size).toBe(2);
  });

  it('the guide’s inquiry as JSON is sent, and throws the problem', async () => {
    await openWith('', script('problem.js'), script('inquiry-json.js'));
    const fields = { name: 'Kari', email: 'kari@example.no', organization: 'Solvik' };
    const send = (sent: object) =>
      page.evaluate(`sendInquiry(${JSON.stringify(sent)}).then(() => 'sent', (problem) => problem)`);
    expect(await send(fields)).toBe('sent');
    expect(await send({ ...fields, name: '' })).toMatchObject({
      code: 'validation_failed',
      words: 'Rett opp: Navn.',
    });
  });

  it('the guide’s chat yields an answer in pieces, says that it was cut, and throws its problem', async () => {
    await openWith('', script('problem.js'), script('chat.js'));
    const said = async (content: string) =>
      await page.evaluate<{ pieces: string[]; code?: string }>(
        `(async () => {
          const pieces = [];
          try {
            for await (const text of ask([{ role: 'user', content: ${JSON.stringify(content)} }])) pieces.push(text);
          } catch ({ code }) {
            return { pieces, code };
          }
          return { pieces };
        })()`,
      );
    const whole = await said('Har dere et møterom?');
    expect([whole.pieces.length > 5, whole.pieces.join('')]).toEqual([
      true,
      expect.stringContaining('stand-in'),
    ]);
    expect((await said('[[max-tokens]]')).pieces.at(-1)).toBe(' …');
    expect(await said('[[529]]')).toEqual({ pieces: [], code: 'provider_unavailable' });
  });

  it('the guide’s transport gives useChat the answer', async () => {
    const file = join(folder, 'transport.mjs');
    // The page's own import, found from here.
    const code = script('transport.js').replace(`'ai'`, JSON.stringify(import.meta.resolve('ai')));
    await writeFile(file, code);
    const { transport } = (await import(file)) as { transport: ChatTransport<UIMessage> };
    const stream = await transport.sendMessages({
      chatId: 'c1',
      trigger: 'submit-message',
      messageId: undefined,
      abortSignal: undefined,
      messages: [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Har dere et møterom?' }] }],
    });
    let last: UIMessage | undefined;
    for await (const message of readUIMessageStream({ stream })) last = message;
    expect(last?.parts).toMatchObject([{ type: 'text', text: expect.stringContaining('stand-in') }]);
  });
});

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
    for (let turn = 0; turn < 15 && !(await status())?.includes('Prøv igjen'); turn += 1) {
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

  it.each([
    [
      { kept: true, mayBeSent: true },
      'Vi har tatt vare på henvendelsen. Du trenger ikke å sende den på nytt.',
    ],
    [
      { kept: false, mayBeSent: true },
      'Vi vet ikke om henvendelsen kom fram. Det du skrev, står der fortsatt.',
    ],
  ])('the visitor of an inquiry that was not mailed (%j) reads what became of it', async (members, words) => {
    await open(allowed);
    const headers = { 'access-control-allow-origin': '*' };
    await page.route('**/api/inquiry', (route) =>
      route.request().method() === 'OPTIONS'
        ? route.continue()
        : route.fulfill({ status: 502, headers, json: { code: 'email_failed', ...members } }),
    );
    await fillInquiry();
    await expect.poll(() => page.locator('#inquiry-status').textContent()).toBe(words);
  });

  it('a page of another origin is refused', async () => {
    await open(foreign);
    await ask('Slipper jeg inn?');
    await expect.poll(() => page.locator('#chat-status').textContent()).not.toBe('Skriver …');
    expect(mistakes.join(' ')).toContain('CORS');
  });
});
