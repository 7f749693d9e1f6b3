import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';

import { launchBrowser } from '../support/browser.ts';
import { refreshSoon } from '../support/console-test.ts';
import { runProgram, startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { pageFaults } from '../support/page-faults.ts';
import { PATIENTLY } from '../support/patience.ts';
import { freePort } from '../support/postgres.ts';

let folder: string;
let server: LocalServer;
let browser: Browser;
let link: string;
let ownToken: string;
let mistakes: string[];
let context: BrowserContext | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postbud-console-'));
  server = await startLocalServer({ PORT: String(await freePort()), DATA_DIR: folder });
  await vi.waitUntil(() => server.output().includes('Next: npm run demo'), PATIENTLY);
  link = /\S+\/platform\/event-bus\/sign-in\?code=\S+/.exec(server.output())?.[0] ?? '';
  ownToken = (await mint()).token;
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

afterEach(async () => {
  await context?.close();
  expect(mistakes).toEqual([]);
});

const at = (path: string) => `${server.url}/platform/event-bus${path}`;

async function newPage(options: BrowserContextOptions = {}): Promise<Page> {
  context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  mistakes = [];
  // What the content security policy refuses is told here too.
  page.on('console', (message) => {
    if (message.type() === 'error') mistakes.push(message.text());
  });
  page.on('pageerror', (error) => mistakes.push(error.message));
  return page;
}

/** Opens the overview with a token in each request: a visitor may sign in only ten times a minute. */
async function openConsole(page: Page, token = ownToken): Promise<void> {
  await page.setExtraHTTPHeaders({ authorization: `Bearer ${token}` });
  await page.goto(at(''));
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

/** What `npm run token` prints. */
async function mint(scope = 'event-bus:read event-bus:replay event-bus:reveal event-bus:erase') {
  const { output } = await runProgram('dev/token.ts', { DATA_DIR: folder }, ['--scope', scope]);
  return {
    token: /eyJ\S+/.exec(output)?.[0] ?? '',
    link: /\S+\/sign-in\?code=\S+/.exec(output)?.[0] ?? '',
  };
}

/** Follows a new link; without script it takes a click. */
async function signIn(page: Page, hasScript = true): Promise<void> {
  await page.goto((await mint()).link);
  if (!hasScript) await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

/** What the page says, as it is read. */
const words = async (page: Page) => (await page.getByRole('main').innerText()).replaceAll(/\s+/g, ' ');

const nav = (page: Page, name: string | RegExp) =>
  page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name });

describe('an operator in a browser', () => {
  it.each([
    { how: 'with script, in light', options: { colorScheme: 'light' } as const },
    { how: 'without script, in dark', options: { colorScheme: 'dark', javaScriptEnabled: false } as const },
  ])(
    '$how: signs in, sees the overview, opens the dead letter that the demo left, previews, replays, watches it delivered, and sets the held lane going',
    async ({ options }) => {
      const page = await newPage(options);
      await signIn(page, !('javaScriptEnabled' in options));
      await expect.poll(() => words(page)).toContain('accounting');
      await nav(page, /Dead letters\s*1/).click();
      await page.getByRole('link', { name: /Details/ }).click();
      // Waited for, as all that a click leads to: what is there of a page before the rest of it has come can be read.
      await expect.poll(() => words(page)).toContain('answered 410');

      await page.getByRole('link', { name: /Replay…/ }).click();
      await expect.poll(() => words(page)).toContain('Nothing has been replayed yet');
      await expect.poll(() => words(page)).toMatch(/accounting is still failing/);
      await page.getByLabel('Reason').fill('the period is open again');
      await page.getByRole('button', { name: 'Replay 1 dead letter' }).click();

      await page.waitForURL('**/replays/*');
      // The page follows the replay by itself, with script and without.
      await expect.poll(() => words(page)).toContain('Replayed: 1 of 1 delivered');
      await nav(page, 'Operations').click();
      await expect.poll(() => words(page)).toContain('the period is open again');
      expect(await words(page)).toContain('developer');

      await page.goto(at('/topics/payment.captured'));
      await expect.poll(() => words(page)).toContain('Held by');
      await page.getByRole('button', { name: /Retry now/ }).click();
      await expect.poll(() => words(page)).toContain('Retried payment.captured to accounting');
      // The page itself shows how it goes on, with script and without.
      await expect.poll(() => words(page)).not.toContain('Held by');
      await nav(page, 'Overview').click();
      await expect.poll(() => words(page)).toContain('All quiet');

      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.goto(at(''));
      await page.getByLabel('Access token').waitFor();
      // For whoever comes next: a dead letter, and a lane that waits.
      mistakes = mistakes.filter((mistake) => !mistake.includes('401'));
      await runProgram('dev/demo.ts', { DATA_DIR: folder });
    },
    180_000,
  );

  it('an operator goes from the overview’s alert to “confirmed” in three clicks, on the page of the incident', async () => {
    const page = await newPage();
    await signIn(page);
    await page.getByRole('link', { name: /dead letter left/ }).click();
    await page.getByRole('link', { name: 'Replay 1 dead letter…' }).click();
    await page.getByLabel('Reason').fill('the period is open again');
    await page.getByRole('button', { name: 'Replay 1 dead letter' }).click();
    await page.waitForURL('**/incidents/*');
    await expect.poll(() => words(page)).toContain('over, but now it fails with 500: down for maintenance');

    await nav(page, 'Overview').click();
    await page.getByRole('link', { name: /1 lane is blocked/ }).click();
    await page.getByRole('button', { name: 'Retry 1 lane now' }).click();
    await expect.poll(() => words(page)).toContain(': over.');
    await runProgram('dev/demo.ts', { DATA_DIR: folder });
  }, 300_000);

  it('an operator pauses a subscriber with a reason, and resumes it', async () => {
    const page = await newPage();
    await openConsole(page);
    await page.goto(at('/topics/user.signed_up'));
    await page.getByRole('table').getByRole('link', { name: 'intelligence', exact: true }).click();
    const row = page.getByRole('row', { name: /^user\.signed_up/ });
    await row.getByText('Pause…').click();
    await row.getByLabel(/Reason/).fill('its model is trained anew');
    await row.getByRole('button', { name: 'Pause this topic' }).click();
    await expect.poll(() => words(page)).toContain('intelligence is paused for user.signed_up by');
    expect(await words(page)).toContain('its model is trained anew');
    await page.getByRole('button', { name: /Resume/ }).click();
    await expect.poll(() => words(page)).not.toContain('intelligence is paused for user.signed_up by');
  });

  it('a link on another site leads to its page, signed in', async () => {
    const page = await newPage();
    await signIn(page);
    // Another site: another host, on which the browser has no cookie of ours to send.
    const other = at('/dead-letters?topic=payment.captured');
    await page.goto(`data:text/html,<a href="${other}">look</a>`);
    await page.getByRole('link', { name: 'look' }).click();
    await page.getByRole('heading', { name: 'Dead letters', exact: true }).waitFor();
    expect(page.url()).toContain('topic=payment.captured');
  });

  it('the sign-in link of npm start signs in once, and then says how to get another', async () => {
    const page = await newPage();
    expect(link.length).toBeLessThan(100);
    await page.goto(link);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.goto(link);
    await page.getByText('The link was used already').waitFor();
    expect(await words(page)).toContain('Get another with npm run token, or paste a token.');
    await page.getByLabel('Access token').fill(ownToken);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    mistakes = mistakes.filter((mistake) => !mistake.includes('410'));
  });

  it('a topic is picked by typing, and one that there is not is answered with the nearest', async () => {
    const page = await newPage();
    await openConsole(page);
    await nav(page, 'Events').click();
    await page.getByRole('combobox', { name: 'Topic' }).fill('payment.capture');
    await page.keyboard.press('Enter');
    await expect.poll(() => words(page)).toContain('did you mean payment.captured?');
    await page.goBack();
    await page.getByRole('combobox', { name: 'Topic' }).fill('payment.captured');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/events?topic=payment.captured*');
    mistakes = mistakes.filter((mistake) => !mistake.includes('400'));
  });

  it('a page that no longer refreshes does not look fresh', async () => {
    const page = await newPage();
    await openConsole(page);
    const dot = () =>
      page.evaluate<string>(`getComputedStyle(document.querySelector('.dot')).backgroundColor`);
    const green = await dot();
    await page.getByRole('button', { name: 'Stop refreshing' }).click();
    await expect.poll(() => words(page)).toMatch(/Not refreshing, as of \d\d:\d\d:\d\d/);
    expect(await dot()).not.toBe(green);
    await page.getByRole('button', { name: 'Refresh again' }).click();
    await expect.poll(() => words(page)).toContain('Updated');
    expect(await dot()).toBe(green);
    // The connection ends within the answer, once.
    await page.evaluate(`(() => {
      const { text } = Response.prototype;
      Response.prototype.text = async () => {
        Object.assign(Response.prototype, { text });
        throw new TypeError('network error');
      };
    })()`);
    await refreshSoon(page);
    await expect.poll(() => words(page)).toContain('Not updated: the server did not answer, as of');
    await refreshSoon(page);
    await expect.poll(() => words(page)).toContain('Updated');
    await page.route('**/platform/event-bus', (route) => route.abort());
    await refreshSoon(page);
    await expect.poll(() => words(page)).toContain('Not updated: the server did not answer, as of');
    expect(await dot()).not.toBe(green);
    mistakes = [];
  });

  it('a page asks again only when it is answered, however slow the server is', async () => {
    const page = await newPage();
    await openConsole(page);
    let [open, most, answered] = [0, 0, 0];
    await page.route('**/platform/event-bus', async (route) => {
      most = Math.max(most, ++open);
      await new Promise((resolve) => void setTimeout(resolve, 2500));
      open--;
      answered++;
      await route.abort();
    });
    await page.evaluate(`document.querySelector('main').dataset.refresh = '1'`);
    await expect.poll(() => answered).toBeGreaterThan(1);
    expect(most).toBe(1);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.close();
    mistakes = [];
  });

  it('without script no dot says that a page is fresh', async () => {
    const page = await newPage({ javaScriptEnabled: false });
    await openConsole(page);
    expect(await page.locator('.dot').isVisible()).toBe(false);
  });

  it('a reveal is logged once, however often its page is loaded again', async () => {
    const page = await newPage();
    await openConsole(page, (await mint('event-bus:read event-bus:reveal')).token);
    const logged = async () => {
      await page.goto(at('/replays'));
      return await page.getByRole('cell', { name: 'Reveal', exact: true }).count();
    };
    const before = await logged();
    await page.goto(at('/dead-letters'));
    await page
      .getByRole('link', { name: /Details/ })
      .first()
      .click();
    await page.getByRole('heading', { name: 'Payload' }).waitFor();
    // The dead letter of the demo has nothing to hide, and so no form.
    await page.evaluate(`(() => {
      const form = document.createElement('form');
      const path = location.pathname.replace('dead-letters', 'events').split('.')[0];
      Object.assign(form, { method: 'post', action: path + '/reveal' });
      form.innerHTML = '<input name="reason" value="the tenant asks">';
      document.body.append(form);
      form.submit();
    })()`);
    await expect.poll(() => words(page)).toContain('personal data shown until');
    await page.reload();
    await page.reload();
    expect(await words(page)).toContain('personal data shown until');
    expect(await logged()).toBe(before + 1);
  });

  it('the keyboard alone leads from the overview to the preview of a replay', async () => {
    const page = await newPage();
    await openConsole(page);
    const focused = () =>
      page.evaluate<[words: string, outline: string]>(
        '[document.activeElement.textContent.trim(), getComputedStyle(document.activeElement).outlineStyle]',
      );
    const follow = async (words: RegExp) => {
      await expect
        .poll(async () => {
          await page.keyboard.press('Tab');
          return (await focused())[0];
        })
        .toMatch(words);
      expect((await focused())[1]).not.toBe('none');
      await page.keyboard.press('Enter');
    };
    await follow(/^Skip to content$/);
    await page.reload();
    await follow(/^Dead letters/);
    await page.getByRole('heading', { name: 'Dead letters', exact: true }).waitFor();
    await follow(/^Details/);
    await follow(/^Replay…/);
    await page.getByRole('heading', { name: 'Replay 1 dead letter?' }).waitFor();
  });

  it.each([390, 1280, 1440])(
    'no other button comes to lie under the pointer where a form opens, %i px wide',
    async (width) => {
      const page = await newPage({ viewport: { width, height: 900 } });
      await openConsole(page);
      let opened = 0;
      for (const path of ['/topics/payment.captured', '/subscribers/ledger']) {
        await page.goto(at(path));
        await page.getByRole('button', { name: 'Stop refreshing' }).click();
        for (const summary of await page.locator('.acts details.act > summary').all()) {
          await summary.scrollIntoViewIfNeeded();
          const { x, y, width: wide, height: high } = (await summary.boundingBox())!;
          const [left, top] = [x + wide / 2, y + high / 2];
          await page.mouse.click(left, top);
          const under = await page.evaluate(
            `document.elementFromPoint(${left}, ${top})?.closest('button, a')?.textContent ?? null`,
          );
          expect(under, `${path} ${await summary.innerText()}`).toBeNull();
          await summary.click();
          opened += 1;
        }
      }
      expect(opened).toBeGreaterThan(2);
    },
  );

  it('a selection stays while the page does not refresh', async () => {
    const page = await newPage();
    await openConsole(page);
    await page.goto(at('/dead-letters'));
    await page.getByRole('row').getByRole('checkbox').last().check();
    await expect.poll(() => page.getByText('Not refreshing').count()).toBeGreaterThan(0);
    expect(await page.getByText('1 selected', { exact: true }).count()).toBe(1);
    await page.getByRole('button', { name: /Replay 1 selected/ }).click();
    await page.getByRole('heading', { name: 'Replay 1 dead letter?' }).waitFor();
  });
});

describe('every page', () => {
  const paths = async (page: Page) => {
    await page.goto(at('/dead-letters'));
    const one = await page
      .getByRole('link', { name: /Details/ })
      .first()
      .getAttribute('href');
    await page.goto(at('/topics/payment.captured'));
    const held = await page.locator('#held a[href*="/events/"]').first().getAttribute('href');
    await page.goto(at('/events'));
    const event = await page.locator('td.about a').first().getAttribute('href');
    await page.goto(at('/replays'));
    const replay = await page.locator('main a[href*="/replays/"]').first().getAttribute('href');
    await page.goto(at('/incidents'));
    // One that happens now, and one that is closed.
    const incidents = [page.locator('.incidents a').first(), page.locator('.incidents a').last()];
    return [
      '',
      '?show=all',
      '/incidents',
      '/incidents?state=closed&subscriber=nobody',
      ...(await Promise.all(incidents.map((link) => link.getAttribute('href')))).map((path) =>
        path!.replace('/platform/event-bus', ''),
      ),
      '/topics/payment.captured',
      '/events',
      '/events?q=nothing-like-it',
      event!.replace('/platform/event-bus', ''),
      '/webhooks',
      '/subscribers/ledger',
      '/dead-letters',
      '/dead-letters?q=nothing-like-it',
      one!.replace('/platform/event-bus', ''),
      `/replay?deliveryIds=${one!.split('/').at(-1)}`,
      '/replay?topic=payment.failed&since=24h',
      held!.replace('/platform/event-bus', ''),
      '/webhooks',
      '/webhooks?limit=1',
      '/webhooks?id=nothing-like-it',
      '/replays',
      replay!.replace('/platform/event-bus', ''),
      '/topics/no.such.topic',
      '/sign-in',
      '/subscribers',
      '/replays?only=backfills',
    ];
  };

  it('every page meets WCAG 2.2 A and AA in light and dark, has no two buttons of one name, and nothing on it scrolls sideways at 390 and 320 px', async () => {
    const page = await newPage();
    // Its held lane waits for a minute.
    await runProgram('dev/demo.ts', { DATA_DIR: folder });
    await openConsole(page);
    const violations: string[] = [];
    for (const path of await paths(page)) violations.push(...(await pageFaults(page, at(path))));
    expect(violations).toEqual([]);
    mistakes = mistakes.filter((mistake) => !/40[014]/.test(mistake));
  }, 300_000);
});
