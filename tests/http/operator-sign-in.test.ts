import { describe, expect } from 'vitest';

import { HOME, nextPath } from '../../lib/console/kit/links.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import {
  ask,
  bearer,
  BROWSER,
  consoleOf,
  cookie,
  nextIn,
  NOON,
  now,
  ORIGIN,
  OWN_PAGE,
  shared,
  signInWith,
  test,
  token,
} from '../support/operator-console.ts';

describe('signing in', () => {
  const attributesOf = (cookieLine: string | undefined) => String(cookieLine).split('; ').slice(1).toSorted();

  test('signing in keeps the token in a cookie for this host alone, and goes on', async () => {
    const good = await token();
    const next = `${HOME}/topics/payment.captured?since=24h`;
    const { status, headers, text } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(good, next));
    expect([status, text, headers['location']]).toEqual([303, '', next]);
    expect(headers['set-cookie']).toMatch(/^__Host-event-bus=/);
    expect(headers['set-cookie']?.split(/[=;]/)[1]).toBe(good);
    expect(attributesOf(headers['set-cookie'])).toEqual([
      'HttpOnly',
      'Max-Age=300',
      'Path=/',
      'SameSite=Strict',
      'Secure',
    ]);
  });

  test.for<[hours: number, unit: string, seconds: number]>([
    [1, 'hour', HOUR / SECOND],
    [8, 'hours', (8 * HOUR) / SECOND],
    [9, 'hours', (8 * HOUR) / SECOND],
    [24 * 365, 'hours', (8 * HOUR) / SECOND],
  ])(
    'a session with a token of %i %s lasts as long as the token, and 8 hours at most',
    async ([hours, , seconds]) => {
      const good = await token({ exp: now() + (hours * HOUR) / SECOND });
      const { headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(good));
      expect(headers['set-cookie']).toContain(`; Max-Age=${seconds};`);
    },
  );

  test('a session with a token that ends in a year lasts until the token is too old', async () => {
    const settings = { ...shared, maxAgeSeconds: HOUR / SECOND };
    const good = await token({ iat: now() - 600, exp: now() + (365 * DAY) / SECOND });
    const { headers } = await ask(consoleOf({ settings }), `${HOME}/sign-in`, signInWith(good));
    const maxAge = Number(/Max-Age=(\d+)/.exec(headers['set-cookie'] ?? '')?.[1]);
    expect(maxAge).toBeGreaterThan(2900);
    expect(maxAge).toBeLessThanOrEqual(3000);
    const tooOld = await token({ iat: now() - 3700, exp: now() + (365 * DAY) / SECOND });
    expect((await ask(consoleOf({ settings }), `${HOME}/sign-in`, signInWith(tooOld))).status).toBe(401);
    expect((await ask(consoleOf(), `${HOME}/sign-in`, signInWith(tooOld))).status).toBe(303);
  });

  test('a token within the clock tolerance after its end gives no session', async () => {
    const { status, headers } = await ask(
      consoleOf(),
      `${HOME}/sign-in`,
      signInWith(await token({ exp: now() - 5 })),
    );
    expect([status, headers['set-cookie']]).toEqual([401, undefined]);
  });

  test('signing in takes a token pasted with its scheme and a line break', async () => {
    const good = await token();
    const { status, headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(` Bearer ${good}\r\n`));
    expect([status, headers['set-cookie']?.includes(`=${good};`)]).toEqual([303, true]);
  });

  test('the cookie of a sign-in opens the pages', async () => {
    const under = consoleOf();
    const signedIn = await ask(under, `${HOME}/sign-in`, signInWith(await token()));
    const kept = signedIn.headers['set-cookie']?.split(';')[0] ?? '';
    const { status, text } = await ask(under, HOME, { headers: { ...OWN_PAGE, cookie: kept } });
    expect(status).toBe(200);
    expect(text).toContain('kari@solvik.example.no');
    expect(text).toContain('Preview');
  });

  test('signing in with a wrong token shows the form again, with the same destination', async () => {
    const next = `${HOME}/dead-letters?topic=payment.captured&since=24h`;
    const answer = await ask(
      consoleOf(),
      `${HOME}/sign-in`,
      signInWith('kanarifugl.kanarifugl.kanarifugl', next),
    );
    expect(answer.status).toBe(401);
    expect(answer.text).toContain('The token is invalid or has expired.');
    expect(nextIn(answer.text)).toBe(next);
    expect(answer.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
  });

  test('signing in without a token is refused with 400', async () => {
    const { status, text } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith('  '));
    expect(status).toBe(400);
    expect(text).toContain('paste a token');
  });

  test('signing in with a token longer than a cookie is refused with 400', async () => {
    const long = await token({ roles: 'x'.repeat(3000) });
    expect(long.length).toBeGreaterThan(4000);
    const { status, headers, text } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(long));
    expect([status, headers['set-cookie']]).toEqual([400, undefined]);
    expect(text).toContain('The token is longer than 4000 bytes');
    expect(text).toContain('name="token"');
  });

  test('a program that signs in is answered with JSON', async () => {
    const good = await token();
    const signIn = (sent: string) =>
      ask(consoleOf(), `${HOME}/sign-in`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
        body: JSON.stringify({ token: sent, next: `${HOME}/replays` }),
        token: sent,
      });
    const taken = await signIn(good);
    expect([taken.status, taken.json]).toEqual([200, { next: `${HOME}/replays` }]);
    expect(taken.headers['set-cookie']).toContain(good);
    const refused = await signIn('kanarifugl.kanarifugl.kanarifugl');
    expect([refused.status, refused.type, refused.json['code']]).toEqual([
      401,
      'application/problem+json',
      'invalid_token',
    ]);
  });

  test('the sign-in form keeps the destination of a link, if it is ours', async () => {
    const query = new URLSearchParams({ next: `${HOME}/replays?cursor=a%2Fb` });
    const { status, text } = await ask(consoleOf(), `${HOME}/sign-in?${query}`, { headers: BROWSER });
    expect([status, nextIn(text)]).toEqual([200, `${HOME}/replays?cursor=a%2Fb`]);
    const elsewhere = await ask(consoleOf(), `${HOME}/sign-in?next=//evil.example`, { headers: BROWSER });
    expect(nextIn(elsewhere.text)).toBe(HOME);
    expect((await ask(consoleOf(), `${HOME}/sign-in`)).json['detail']).toContain('Authorization: Bearer');
  });

  test.each<[string, Record<string, string>]>([
    ['another site', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['a sibling site', { 'sec-fetch-site': 'same-site', origin: 'https://www.postbud.example' }],
    ['nowhere', {}],
    ['a page of another origin, with an old browser', { origin: 'https://evil.example' }],
  ])('signing in by a form of %s is refused with any token', async (_, from) => {
    const good = await token();
    for (const more of [{}, await bearer(), await cookie()]) {
      const sent = signInWith(good, HOME, { ...BROWSER, ...more, ...from });
      const { status, text, headers } = await ask(consoleOf(), `${HOME}/sign-in`, sent);
      expect([status, headers['set-cookie']]).toEqual([403, undefined]);
      expect(text).toContain('cross_site_request');
    }
  });

  test('a form of another site does not use up the visitor’s tries', async () => {
    const under = consoleOf();
    for (let index = 0; index < 12; index += 1) {
      const sent = signInWith('a.b.c', HOME, { ...BROWSER, 'sec-fetch-site': 'cross-site' });
      expect((await ask(under, `${HOME}/sign-in`, sent)).status).toBe(403);
    }
    expect((await ask(under, `${HOME}/sign-in`, signInWith(await token()))).status).toBe(303);
  });
});

describe('the destination after signing in', () => {
  test.each([
    HOME,
    `${HOME}/`,
    `${HOME}/topics/payment.captured`,
    `${HOME}/dead-letters?topic=payment.captured&since=24h&q=a%2Fb%20c`,
    `${HOME}/replay?next=https://evil.example/`,
    `${HOME}/dead-letters/0190a1b2-17`,
  ])('the destination %s is kept', (next) => {
    expect(nextPath(next)).toBe(next);
  });

  test.each([
    '',
    '/',
    '/api/chat',
    '/platform',
    `${HOME}2`,
    `${HOME}.evil.example`,
    `${HOME}@evil.example`,
    'https://evil.example/platform/event-bus',
    'https:/platform/event-bus',
    `${ORIGIN}${HOME}`,
    '//evil.example/platform/event-bus',
    '///evil.example/platform/event-bus',
    String.raw`\\evil.example/platform/event-bus`,
    String.raw`/\evil.example/platform/event-bus`,
    String.raw`/platform/event-bus\..\..\evil`,
    '/\t/evil.example/platform/event-bus',
    '/\n/evil.example',
    ` ${HOME}`,
    `${HOME} `,
    `${HOME}\u0000`,
    `${HOME}\r\nset-cookie: a=b`,
    `${HOME}/../../evil`,
    `${HOME}/%2e%2e/%2e%2e/evil`,
    `${HOME}/.%2E/evil`,
    `${HOME}//evil.example`,
    `${HOME}/%2f%2fevil.example`,
    `${HOME}/%5cevil.example`,
    `${HOME}/%252e%252e/evil`,
    `${HOME}/%0d%0aset-cookie:%20a=b`,
    `${HOME}/%00`,
    'javascript:alert(1)',
    'data:text/html,x',
    'platform/event-bus',
    './platform/event-bus',
    `?${HOME}`,
    `#${HOME}`,
    `${HOME}/sign-in`,
    `${HOME}/sign-out`,
    `${HOME}/sign-in/`,
    `${HOME}/sign-in?next=x`,
    `${HOME}/sign-in/directory/callback?code=x&state=y`,
    `${HOME}/æ`,
    `${HOME}/\u{2028}`,
    `/platform/event-bus?q=${'x'.repeat(8000)}`,
  ])('the destination %j becomes the overview', (next) => {
    expect(nextPath(next)).toBe(HOME);
  });

  test('signing in goes to the overview instead of another site', async () => {
    const sent = signInWith(await token(), '//evil.example/platform/event-bus');
    expect((await ask(consoleOf(), `${HOME}/sign-in`, sent)).headers['location']).toBe(HOME);
  });

  test('no destination becomes the overview', () => {
    expect([nextPath(null), nextPath(undefined)]).toEqual([HOME, HOME]);
  });
});

describe('the limits of signing in', () => {
  const tries = async (under: Pick<Endpoint, 'fetch'>, times: number, address = '192.0.2.7') => {
    const statuses = [];
    for (let index = 0; index < times; index += 1) {
      const from = { ...OWN_PAGE, 'x-forwarded-for': address };
      statuses.push((await ask(under, `${HOME}/sign-in`, signInWith('a.b.c', HOME, from))).status);
    }
    return statuses;
  };

  test('a visitor may try 10 tokens a minute, right or wrong', async () => {
    const under = consoleOf();
    expect(await tries(under, 11)).toEqual([...Array<number>(10).fill(401), 429]);
    const { status, type, headers, text } = await ask(under, `${HOME}/sign-in`, signInWith(await token()));
    expect([status, type]).toEqual([429, 'text/html; charset=utf-8']);
    expect(headers).toMatchObject({
      'retry-after': '60',
      'ratelimit-policy': '"sign-in-min";q=10;w=60, "sign-in-hour";q=60;w=3600',
      ratelimit: '"sign-in-min";r=0;t=60',
    });
    expect(text).toContain('Too many calls: 10 are allowed in a minute. Try again in 60 seconds.');
    expect(await tries(under, 1, '198.51.100.1')).toEqual([401]);
  });

  test('a visitor may try 60 tokens an hour', async () => {
    let at = NOON;
    const under = consoleOf({ limiter: new MemoryLimiter({ now: () => at }) });
    for (let minute = 0; minute < 6; minute += 1, at += MINUTE) await tries(under, 10);
    expect(await tries(under, 1)).toEqual([429]);
    at = NOON + HOUR;
    expect(await tries(under, 1)).toEqual([401]);
  });

  test('each answer to a try says how many are left, and a program is limited too', async () => {
    const under = consoleOf();
    const sent = signInWith('a.b.c', HOME, { ...OWN_PAGE, accept: 'application/json' });
    expect((await ask(under, `${HOME}/sign-in`, sent)).headers['ratelimit']).toBe('"sign-in-min";r=9;t=60');
    await tries(under, 9);
    expect((await ask(under, `${HOME}/sign-in`, sent)).json).toMatchObject({ code: 'rate_limited' });
  });

  test('the form and the pages are not counted as tries', async () => {
    const under = consoleOf();
    for (let index = 0; index < 12; index += 1) {
      expect((await ask(under, `${HOME}/sign-in`, { headers: BROWSER })).status).toBe(200);
      expect((await ask(under, HOME, { headers: BROWSER })).status).toBe(401);
    }
    expect(await tries(under, 1)).toEqual([401]);
  });
});

describe('signing out', () => {
  test('signing out removes the cookie and shows the form', async () => {
    const headers = { ...OWN_PAGE, ...(await cookie()) };
    const answer = await ask(consoleOf(), `${HOME}/sign-out`, { method: 'POST', headers });
    expect([answer.status, answer.headers['location']]).toEqual([303, `${HOME}/sign-in`]);
    expect(answer.headers['set-cookie']?.split('; ').toSorted()).toEqual([
      'HttpOnly',
      'Max-Age=0',
      'Path=/',
      'SameSite=Strict',
      'Secure',
      '__Host-event-bus=',
    ]);
  });

  test('signing out works when the session is over', async () => {
    const answer = await ask(consoleOf(), `${HOME}/sign-out`, { method: 'POST', headers: OWN_PAGE });
    expect(answer.status).toBe(303);
  });

  test('another site or a link cannot sign an operator out', async () => {
    const headers = { ...BROWSER, ...(await cookie()), 'sec-fetch-site': 'cross-site' };
    const forced = await ask(consoleOf(), `${HOME}/sign-out`, { method: 'POST', headers });
    expect([forced.status, forced.headers['set-cookie']]).toEqual([403, undefined]);
    const linked = await ask(consoleOf(), `${HOME}/sign-out`, { headers: OWN_PAGE });
    expect([linked.status, linked.headers['allow']]).toEqual([405, 'POST']);
  });
});
