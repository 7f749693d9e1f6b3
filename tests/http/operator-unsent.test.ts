import { describe, expect } from 'vitest';

import { HOME } from '../../lib/console/kit/links.ts';
import {
  ask,
  bearer,
  BROWSER,
  consoleOf,
  cookie,
  FORM,
  nextIn,
  now,
  ORIGIN,
  OWN_PAGE,
  test,
  token,
} from '../support/operator-console.ts';
import type { Asking } from '../support/operator-console.ts';

const PREVIEW = `${HOME}/replay?since=24h`;
const TYPED = { topic: 'payment.captured', reason: 'ledger is "back" <b>æ' };

/** What a page of ours sends whose session has ended. */
const sent = (more: Record<string, string> = {}, fields: Record<string, string> = TYPED): Asking => ({
  method: 'POST',
  headers: { ...OWN_PAGE, referer: ORIGIN + PREVIEW, ...FORM, ...more },
  body: String(new URLSearchParams(fields)),
});

/** The hidden field in which a page carries a form. */
const unsentIn = (page: string) =>
  /name="unsent"\s+value="([^"]*)"/
    .exec(page)?.[1]
    ?.replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

const signIn = (shown: string, unsent: string, next = PREVIEW): Asking => ({
  method: 'POST',
  headers: { ...OWN_PAGE, ...FORM },
  body: String(new URLSearchParams({ token: shown, next, unsent })),
});

describe('a form that is sent without a session', () => {
  test.for<[string, () => Promise<Record<string, string>>]>([
    ['whose cookie is gone', async () => ({})],
    ['whose token has expired', async () => await cookie({ exp: now() - 60 })],
  ])('a form %s does nothing, and is kept in the form to sign in with', async ([, session]) => {
    const under = consoleOf();
    const { status, text, headers } = await ask(under, `${HOME}/replay`, sent(await session()));
    expect([status, under.visits]).toEqual([401, []]);
    expect(text).toContain('Nothing was done.');
    expect(text).not.toContain('invalid or has expired');
    expect(text).toContain('ledger is &quot;back&quot; &lt;b&gt;æ');
    expect(nextIn(text)).toBe(PREVIEW);
    expect(JSON.parse(unsentIn(text) ?? '')).toEqual({
      path: `${HOME}/replay`,
      summary: 'A page',
      scope: 'event-bus:replay',
      fields: TYPED,
    });
    expect(headers).not.toHaveProperty('set-cookie');
  });

  test('signing in sends it on to its page, which shows it and does nothing until it is sent', async () => {
    const under = consoleOf();
    const asked = await ask(under, `${HOME}/replay`, sent());
    const signedIn = await ask(under, `${HOME}/sign-in`, signIn(await token(), unsentIn(asked.text)!));
    expect([signedIn.status, signedIn.headers['location']]).toEqual([307, `${PREVIEW}&unsent=1`]);
    const again = await ask(under, signedIn.headers['location']!, {
      ...signIn('', unsentIn(asked.text)!),
      headers: { ...OWN_PAGE, ...FORM, ...(await cookie({ name: 'Ola Nordmann' })) },
    });
    expect(again.status).toBe(200);
    expect(again.text).toContain(`at ${ORIGIN}${PREVIEW}`);
    expect(again.text).toContain('It is logged as yours: Ola Nordmann.');
    expect(again.text).toContain('name="reason" value="ledger is &quot;back&quot; &lt;b&gt;æ"');
    expect(under.visits.map(({ operator }) => operator.name)).toEqual(['Ola Nordmann']);
  });

  test('a wrong token, or one that may not do it, keeps the form', async () => {
    const under = consoleOf();
    const { text } = await ask(under, `${HOME}/replay`, sent());
    const reader = await token({ scope: 'event-bus:read' });
    for (const [shown, status, words] of [
      ['a.b.c', 401, 'The token is invalid or has expired.'],
      [reader, 403, 'The token lacks the scope event-bus:replay.'],
    ] as const) {
      const refused = await ask(under, `${HOME}/sign-in`, signIn(shown, unsentIn(text)!));
      expect(refused.status).toBe(status);
      expect(refused.text).toContain(words);
      expect(unsentIn(refused.text)).toBe(unsentIn(text));
      expect(refused.headers).not.toHaveProperty('set-cookie');
    }
  });

  test('a form whose session has become another’s, who may not do it, is kept', async () => {
    const { status, text } = await ask(
      consoleOf(),
      `${HOME}/replay`,
      sent(await cookie({ scope: 'event-bus:read' })),
    );
    expect(status).toBe(403);
    expect(text).toContain('The token lacks the scope event-bus:replay.');
    expect(unsentIn(text)).toContain('ledger is');
  });

  test.for([
    ['another site', { ...BROWSER, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['a sibling site', { ...BROWSER, 'sec-fetch-site': 'same-site', origin: 'https://www.postbud.example' }],
    ['nowhere', BROWSER],
  ] as const)('what %s has filled in is not kept, and shown nowhere', async ([, headers]) => {
    const under = consoleOf();
    const asked = await ask(under, `${HOME}/replay`, { ...sent(), headers: { ...headers, ...FORM } });
    expect([asked.status, unsentIn(asked.text), nextIn(asked.text)]).toEqual([401, undefined, HOME]);
    expect(asked.text).not.toContain('ledger is');
    const forged = JSON.stringify({
      path: `${HOME}/replay`,
      summary: 'x',
      scope: 'event-bus:replay',
      fields: TYPED,
    });
    for (const more of [{}, await cookie()]) {
      const shown = await ask(under, `${PREVIEW}&unsent=1`, {
        ...signIn('', forged),
        headers: { ...headers, ...FORM, ...more },
      });
      expect(shown.status).toBe('cookie' in more ? 403 : 401);
      expect(shown.text).not.toContain('ledger is');
    }
    expect(under.visits).toEqual([]);
  });

  test.for([
    'https://evil.example/replay',
    '//evil.example',
    `${HOME}/sign-out`,
    '/api/chat',
    'javascript:alert(1)',
  ])('a form that would be sent to %s is not shown', async (path) => {
    const forged = JSON.stringify({ path, summary: 'x', scope: 'event-bus:replay', fields: TYPED });
    const { status, text } = await ask(consoleOf(), `${PREVIEW}&unsent=1`, {
      ...signIn('', forged),
      headers: { ...OWN_PAGE, ...FORM, ...(await cookie()) },
    });
    expect(status).toBe(200);
    expect(text).not.toContain('Not sent yet');
  });

  test('a form of an address that is no page leads to the page that it names itself, or to the overview', async () => {
    const from = (referer: string, fields = {}) =>
      ask(consoleOf(), `${HOME}/replay`, sent({ referer }, { ...TYPED, ...fields }));
    expect(nextIn((await from('nonsense')).text)).toBe(HOME);
    expect(nextIn((await from(`${ORIGIN}${HOME}/sign-out`)).text)).toBe(HOME);
    const next = `${HOME}/topics/payment.captured`;
    expect(nextIn((await from(`${ORIGIN}/elsewhere`, { next })).text)).toBe(next);
    expect(nextIn((await from(`${ORIGIN}${PREVIEW}&unsent=1`)).text)).toBe(PREVIEW);
  });

  test('a program is told so, and nothing is kept for it', async () => {
    const { status, json } = await ask(consoleOf(), `${HOME}/replay`, {
      ...sent({ accept: 'application/json', ...(await bearer({ exp: now() - 60 })) }),
    });
    expect([status, json['code']]).toEqual([401, 'invalid_token']);
  });
});
