import { generateKeyPair, SignJWT } from 'jose';
import { describe, expect } from 'vitest';

import { HOME } from '../../lib/console/kit/links.ts';
import { InvalidConfiguration } from '../../lib/platform/config.ts';
import {
  ask,
  bearer,
  BROWSER,
  claimsOf,
  consoleOf,
  cookie,
  expected,
  FORM,
  now,
  ORIGIN,
  OWN_PAGE,
  signInWith,
  test,
  token,
} from '../support/operator-console.ts';
import type { ConsoleOptions } from '../support/operator-console.ts';
import { freePort } from '../support/postgres.ts';

// Which tokens are valid is proven in tests/unit/operator-token.test.ts.

describe('an operator', () => {
  test('an operator is let in by a Bearer token and by the cookie', async () => {
    const under = consoleOf();
    expect((await ask(under, HOME, { headers: await bearer({ name: 'Kari Nordmann' }) })).json).toEqual({
      subject: 'kari@solvik.example.no',
      name: 'Kari Nordmann',
      via: 'bearer',
      parameters: {},
    });
    expect((await ask(under, HOME, { headers: await cookie() })).json).toMatchObject({ via: 'cookie' });
    expect(under.visits[0]?.operator.scopes).toEqual(new Set(['event-bus:read', 'event-bus:replay']));
  });

  test('an invalid token lets nobody in, by header, cookie or form, and is repeated nowhere', async () => {
    const under = consoleOf();
    const expired = await token({ exp: now() - 60 });
    for (const headers of [
      { authorization: `Bearer ${expired}` },
      { cookie: `__Host-event-bus=${expired}` },
    ]) {
      const answer = await ask(under, HOME, { headers, token: expired });
      expect([answer.status, answer.json['code']]).toEqual([401, 'invalid_token']);
      expect(answer.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
    }
    const signingIn = await ask(under, `${HOME}/sign-in`, signInWith(expired));
    expect(signingIn).toMatchObject({ status: 401, type: 'text/html; charset=utf-8' });
    expect(signingIn.headers).not.toHaveProperty('set-cookie');
    expect(under.visits).toEqual([]);
  });
});

describe('a scope', () => {
  test.for([
    ['GET', HOME, 'event-bus:reader', 'event-bus:read'],
    ['POST', `${HOME}/replay`, 'event-bus:read event-bus:reveal', 'event-bus:replay'],
  ] as const)('a %s of %s with the scope %j is refused with 403', async ([method, path, scope, needed]) => {
    const under = consoleOf();
    const answer = await ask(under, path, { method, headers: await bearer({ scope }) });
    expect([answer.status, answer.json['code']]).toEqual([403, 'insufficient_scope']);
    expect(answer.headers['www-authenticate']).toBe(`Bearer error="insufficient_scope", scope="${needed}"`);
    expect(under.visits).toEqual([]);
  });

  test('an operator without the scope is told so on a page, and stays signed in', async () => {
    const headers = { ...OWN_PAGE, ...(await cookie({ scope: 'event-bus:replay' })) };
    const { status, text } = await ask(consoleOf(), HOME, { headers });
    expect(status).toBe(403);
    expect(text).toContain('The token lacks the scope event-bus:read.');
    expect(text).toContain('Sign out');
  });

  test('signing in needs a token with event-bus:read', async () => {
    const other = await token({ scope: 'event-bus:replay event-bus:reader' });
    const { status, text, headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(other));
    expect(status).toBe(403);
    expect(text).toContain('The token lacks the scope event-bus:read.');
    expect(text).toContain('name="token"');
    expect(headers).not.toHaveProperty('set-cookie');
  });
});

describe('a change with the cookie', () => {
  const replay = async (headers: Record<string, string>) => {
    const under = consoleOf();
    const answer = await ask(under, `${HOME}/replay`, {
      method: 'POST',
      headers: { ...FORM, ...headers },
      body: 'topic=payment.captured',
    });
    return { ...answer, done: under.visits.length };
  };

  test.each<[string, Record<string, string>]>([
    ['another site', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['another site that names our origin', { 'sec-fetch-site': 'cross-site', origin: ORIGIN }],
    ['a sibling site', { 'sec-fetch-site': 'same-site', origin: 'https://www.postbud.example' }],
    ['no page at all', { 'sec-fetch-site': 'none' }],
    ['a page that the browser does not name', { 'sec-fetch-site': '' }],
    ['a sender without these headers', {}],
    ['a page without an origin', { origin: 'null' }],
    ['a page of another origin', { origin: 'https://evil.example' }],
    ['a page of another port', { origin: `${ORIGIN}:8443` }],
    ['a page without HTTPS', { origin: 'http://postbud.example' }],
    ['a page whose origin begins like ours', { origin: `${ORIGIN}.evil.example` }],
    ['a page with our referrer alone', { referer: `${ORIGIN}${HOME}` }],
  ])('a change with the cookie is refused from %s', async (_, headers) => {
    const { status, json, done } = await replay({ ...(await cookie()), ...headers });
    expect([status, json['code'], done]).toEqual([403, 'cross_site_request', 0]);
    expect(json['detail']).toContain('Nothing was changed');
  });

  test.each<[string, Record<string, string>]>([
    ['the browser says', { 'sec-fetch-site': 'same-origin' }],
    ['an old browser’s Origin says', { origin: ORIGIN }],
  ])('a change with the cookie is done when %s that the page is ours', async (_, headers) => {
    const { status, done } = await replay({ ...(await cookie()), ...headers });
    expect([status, done]).toEqual([200, 1]);
  });

  test('a refused change is answered with a page in a browser', async () => {
    const headers = { ...BROWSER, ...(await cookie()), 'sec-fetch-site': 'cross-site' };
    const { status, type, text } = await replay(headers);
    expect([status, type]).toEqual([403, 'text/html; charset=utf-8']);
    expect(text).toContain('Nothing was changed');
  });

  test('a change with a Bearer token may come from anywhere', async () => {
    for (const site of ['cross-site', 'same-site', 'none']) {
      const headers = { ...(await bearer()), 'sec-fetch-site': site, origin: 'https://evil.example' };
      expect(await replay(headers)).toMatchObject({ status: 200, done: 1 });
    }
    expect(await replay({ ...(await cookie()), ...(await bearer()) })).toMatchObject({ status: 200 });
  });

  test('a page may be read with the cookie from another site', async () => {
    const headers = { ...(await cookie()), 'sec-fetch-site': 'cross-site' };
    expect((await ask(consoleOf(), HOME, { headers })).status).toBe(200);
    expect((await ask(consoleOf(), HOME, { method: 'HEAD', headers })).status).toBe(200);
  });
});

describe('access that cannot be checked', () => {
  const cases: readonly [string, () => Promise<ConsoleOptions['settings']>, string, string][] = [
    ['nothing is configured', async () => ({ ...expected, kind: 'none' }), 'operators_not_configured', '60'],
    [
      'the key server is down',
      async () => ({ ...expected, kind: 'jwks', url: `http://127.0.0.1:${await freePort()}/` }),
      'key_server_unavailable',
      '30',
    ],
    [
      'a variable is wrong',
      async () => () => {
        throw new InvalidConfiguration('OPERATOR_JWT_SECRET', 'must be at least 32 bytes');
      },
      'misconfigured',
      '60',
    ],
  ];

  test.for(cases)('access is answered 503 to everybody where %s', async ([, settings, code, seconds]) => {
    const under = consoleOf({ settings: (await settings())! });
    // Signed by a key that may be the key server's.
    const { privateKey } = await generateKeyPair('RS256');
    const good = await new SignJWT(claimsOf())
      .setProtectedHeader({ alg: 'RS256', kid: 'key-1' })
      .sign(privateKey);
    const asProgram = { headers: { authorization: `Bearer ${good}` }, token: good };
    const { status, json, headers } = await ask(under, HOME, asProgram);
    expect([status, json['code'], headers['retry-after']]).toEqual([503, code, seconds]);
    const asBrowser = { headers: { ...OWN_PAGE, cookie: `__Host-event-bus=${good}` }, token: good };
    for (const page of [
      await ask(under, HOME, asBrowser),
      await ask(under, `${HOME}/sign-in`, signInWith(good)),
    ]) {
      expect([page.status, page.type]).toEqual([503, 'text/html; charset=utf-8']);
      expect(page.headers['retry-after']).toBe(seconds);
      expect(page.text).toContain(json['detail']);
      expect(page.headers).not.toHaveProperty('set-cookie');
    }
    expect(under.visits).toEqual([]);
  });
});

describe('the log', () => {
  test('every request leaves one log line, without its token, query or cookie', async ({ log }) => {
    const under = consoleOf();
    const good = await token();
    const headers = { ...OWN_PAGE, cookie: `__Host-event-bus=${good}` };
    await ask(under, `${HOME}?q=kanarifugl`, { headers, token: good });
    await ask(under, `${HOME}/sign-in`, signInWith(good));
    await ask(under, `${HOME}/sign-in`, signInWith(`${good}x`));
    await ask(under, HOME, { headers: { authorization: `Bearer ${good}` }, token: good });
    expect(
      log()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).status as number),
    ).toEqual([200, 303, 401, 200]);
    expect(log()).not.toContain('kanarifugl');
  });
});
