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
  signInWith,
  test,
  token,
} from '../support/operator-console.ts';

describe('a browser without a session', () => {
  const PAGE = `${HOME}/topics/payment.captured?since=24h&q=a%20%26%20b`;

  test('a browser without a session gets the form with 401, and goes on to its page after it', async () => {
    const answer = await ask(consoleOf(), PAGE, { headers: BROWSER });
    expect([answer.status, answer.type]).toEqual([401, 'text/html; charset=utf-8']);
    expect(answer.headers['www-authenticate']).toBe('Bearer');
    expect(nextIn(answer.text)).toBe(PAGE);
    expect(answer.text).not.toContain('role="alert"');
    const signedIn = await ask(
      consoleOf(),
      `${HOME}/sign-in`,
      signInWith(await token(), nextIn(answer.text)),
    );
    expect(signedIn.headers['location']).toBe(PAGE);
  });

  test('a browser whose session has ended is told so above the form', async () => {
    const headers = { ...BROWSER, ...(await cookie({ exp: now() - 60 })) };
    const { status, text } = await ask(consoleOf(), PAGE, { headers });
    expect(status).toBe(401);
    expect(text).toContain('The token is invalid or has expired.');
    expect(nextIn(text)).toBe(PAGE);
  });

  test('a form sent without a session is not sent again after signing in', async () => {
    const headers = { ...OWN_PAGE, ...FORM };
    const answer = await ask(consoleOf(), `${HOME}/replay`, { method: 'POST', headers, body: 'topic=x' });
    expect([answer.status, nextIn(answer.text)]).toEqual([401, HOME]);
  });

  test('the form escapes the address that was asked for', async () => {
    const { text } = await ask(consoleOf(), `${HOME}/topics/x?q="><script>alert(1)</script>`, {
      headers: BROWSER,
    });
    expect(text).not.toContain('<script>alert');
  });

  test('a program without a token gets a problem with 401', async () => {
    const { status, type, json, headers } = await ask(consoleOf(), PAGE);
    expect([status, type]).toEqual([401, 'application/problem+json']);
    expect(json).toMatchObject({ code: 'unauthorized', title: 'Unauthorized', status: 401 });
    expect(headers['www-authenticate']).toBe('Bearer');
  });
});

describe('a link from a mail or a chat', () => {
  const PAGE = `${HOME}/topics/payment.captured?since=24h&q=a+b`;
  const LINKED = { ...BROWSER, 'sec-fetch-site': 'cross-site' };
  const refreshIn = (text: string) =>
    /http-equiv="refresh" content="0; ?url=([^"]*)"/i.exec(text)?.[1]?.replaceAll('&amp;', '&');

  test('a page linked from a mail is asked for again from here, and then comes with the cookie', async () => {
    const under = consoleOf();
    const bounced = await ask(under, PAGE, { headers: LINKED });
    expect(bounced.status).toBe(200);
    expect(bounced.headers).not.toHaveProperty('www-authenticate');
    const again = refreshIn(bounced.text) ?? '';
    expect(again).toBe(`${ORIGIN}${PAGE}&b=1`);
    const headers = { ...OWN_PAGE, ...(await cookie()) };
    const { status, text } = await ask(under, again, { headers });
    expect(status).toBe(200);
    expect(text).toContain(`at ${ORIGIN}${PAGE.replaceAll('&', '&amp;')}`);
    expect(text).not.toContain('b=1');
  });

  test('a linked page is asked for again only once, before the form without the mark', async () => {
    for (const site of ['same-origin', 'cross-site']) {
      const headers = { ...BROWSER, 'sec-fetch-site': site };
      const answer = await ask(consoleOf(), `${PAGE}&b=1`, { headers });
      expect([answer.status, nextIn(answer.text)]).toEqual([401, PAGE]);
    }
  });

  test('a link to the overview, which has no query, is asked for again too', async () => {
    const { text } = await ask(consoleOf(), HOME, { headers: LINKED });
    expect(refreshIn(text)).toBe(`${ORIGIN}${HOME}?b=1`);
    expect(nextIn((await ask(consoleOf(), `${HOME}?b=1`, { headers: OWN_PAGE })).text)).toBe(HOME);
  });

  test('a parameter b of another value stays in the address', async () => {
    const { text } = await ask(consoleOf(), `${HOME}?b=2`, { headers: OWN_PAGE });
    expect(nextIn(text)).toBe(`${HOME}?b=2`);
  });

  test.each<[string, string, Record<string, string>, number]>([
    ['the cookie', 'GET', { cookie: '__Host-event-bus=a.b.c' }, 401],
    ['a Bearer token', 'GET', { authorization: 'Bearer a.b.c' }, 401],
    ['no wish for a page', 'GET', { accept: '*/*' }, 401],
    ['another method', 'POST', {}, 401],
    ['no navigation', 'GET', { 'sec-fetch-mode': 'no-cors' }, 401],
    ['a sibling site', 'GET', { 'sec-fetch-site': 'same-site' }, 401],
    ['an address that was typed', 'GET', { 'sec-fetch-site': 'none' }, 401],
  ])('a linked page is answered at once with %s', async (_, method, headers, status) => {
    const answer = await ask(consoleOf(), `${HOME}/replay`, { method, headers: { ...LINKED, ...headers } });
    expect([answer.status, refreshIn(answer.text)]).toEqual([status, undefined]);
  });

  test('a link to nowhere or to the form is answered at once', async () => {
    expect((await ask(consoleOf(), `${HOME}/nowhere`, { headers: LINKED })).status).toBe(404);
    const signIn = await ask(consoleOf(), `${HOME}/sign-in`, { headers: LINKED });
    expect([signIn.status, nextIn(signIn.text)]).toEqual([200, HOME]);
  });
});

describe('an address', () => {
  const get = async (path: string, method = 'GET', accept = 'application/json') =>
    await ask(consoleOf(), path, { method, headers: { ...(await bearer()), accept } });

  test.each([
    ['/topics/payment.captured', 'payment.captured'],
    ['/topics/payment.captured/', 'payment.captured'],
    ['/topics/a%2Fb', 'a/b'],
    ['/topics/%C3%A6', 'æ'],
    ['/topics/constructor', 'constructor'],
    ['/topics/__proto__', '__proto__'],
  ])('the address %s has the parameter %j', async (path, topic) => {
    const { status, json } = await get(HOME + path);
    expect([status, json['parameters']]).toEqual([200, { topic }]);
  });

  test('the address of the function’s file works too', async () => {
    expect((await get(`/api${HOME}/topics/x`)).json).toMatchObject({ parameters: { topic: 'x' } });
  });

  test.each([
    '/nowhere',
    '/topics',
    '/topics/',
    '/topics//',
    '/topics/a/b',
    '/topics/%',
    '/topics/%ZZ',
    '/topics/%E0%A4',
    '/topics/%00',
    '/topics/a%0Ab',
    '//topics/a',
    '2',
  ])('the address %s is answered 404 to any method', async (path) => {
    for (const method of ['GET', 'POST', 'PUT', 'OPTIONS', 'DELETE']) {
      const { status, json } = await get(HOME + path, method);
      expect([status, json['code']]).toEqual([404, 'not_found']);
    }
    const page = await get(HOME + path, 'GET', BROWSER.accept);
    expect([page.status, page.type]).toEqual([404, 'text/html; charset=utf-8']);
    expect(page.text).toContain('There is nothing at this address.');
  });

  test.each([
    ['', 'OPTIONS', 'GET, HEAD'],
    ['/replay', 'PATCH', 'GET, HEAD, POST'],
    ['/sign-in', 'PUT', 'GET, HEAD, POST'],
    ['/sign-out', 'GET', 'POST'],
    ['/sign-out', 'HEAD', 'POST'],
  ])('the address %j is answered 405 to %s, with its methods', async (path, method, allow) => {
    const { status, headers } = await get(HOME + path, method);
    expect([status, headers['allow']]).toEqual([405, allow]);
  });

  test('the page of an address that only takes forms links to the list of what was sent to it', async () => {
    const page = await get(`${HOME}/sign-out`, 'GET', BROWSER.accept);
    expect([page.status, page.text]).toEqual([405, expect.stringContaining(`href="${HOME}/replays"`)]);
  });

  test.each(['application/json', BROWSER.accept])(
    'HEAD is answered as GET, without the body, for %s',
    async (accept) => {
      const head = await get(HOME, 'HEAD', accept);
      const whole = await get(HOME, 'GET', accept);
      expect([head.status, head.type, head.text]).toEqual([200, whole.type, '']);
      const unknown = await ask(consoleOf(), HOME, { method: 'HEAD', headers: { accept } });
      expect([unknown.status, unknown.text]).toEqual([401, '']);
    },
  );

  test.each(['image/png', 'text/html;q=0, application/json;q=0'])(
    'a request with Accept %s is refused with 406 before anything is done',
    async (accept) => {
      const under = consoleOf();
      const headers = { ...(await bearer()), accept, 'content-type': 'application/json' };
      for (const [path, method] of [
        [HOME, 'GET'],
        [`${HOME}/sign-in`, 'GET'],
        [`${HOME}/replay`, 'POST'],
      ] as const) {
        const answer = await ask(under, path, {
          method,
          headers,
          ...(method === 'POST' && { body: '{"topic":"x"}' }),
        });
        expect([answer.status, answer.json['code']]).toEqual([406, 'not_acceptable']);
      }
      expect(under.visits).toEqual([]);
    },
  );
});

describe('the answer to a change', () => {
  const send = async (headers: Record<string, string>, body: string) =>
    await ask(consoleOf(), `${HOME}/replay`, { method: 'POST', headers, body });

  test('a change by a form goes on to a page', async () => {
    const headers = { ...OWN_PAGE, ...FORM, ...(await cookie()) };
    const { status, headers: answered, text } = await send(headers, 'topic=payment.captured');
    expect([status, answered['location'], text]).toEqual([303, `${HOME}/replays/1`, '']);
  });

  test('a change by a program is answered with JSON', async () => {
    const headers = { ...(await bearer()), 'content-type': 'application/json' };
    const { status, json } = await send(headers, '{"topic":"payment.captured"}');
    expect([status, json]).toEqual([200, { replayed: 'payment.captured' }]);
  });

  test.each([
    ['application/json', '{}', 400, 'validation_failed'],
    ['application/json', '{"topic":', 400, 'validation_failed'],
    ['application/x-www-form-urlencoded', 'topics=x', 400, 'validation_failed'],
    ['text/plain', 'topic=x', 415, 'unsupported_media_type'],
    ['multipart/form-data; boundary=x', '--x--', 415, 'unsupported_media_type'],
    ['application/json', JSON.stringify({ topic: 'x'.repeat(64 * 1024) }), 413, 'body_too_large'],
  ])('a change with a wrong body is not done: %s %.20s', async (type, body, status, code) => {
    const answer = await send({ ...(await bearer()), 'content-type': type }, body);
    expect([answer.status, answer.json['code']]).toEqual([status, code]);
    const page = await send({ ...OWN_PAGE, ...(await cookie()), 'content-type': type }, body);
    expect([page.status, page.type]).toEqual([status, 'text/html; charset=utf-8']);
  });
});

describe('a problem', () => {
  test('a problem is a page for a browser, with its request id', async () => {
    const headers = { ...OWN_PAGE, ...(await cookie()) };
    const { status, text, headers: answered } = await ask(consoleOf(), `${HOME}/missing`, { headers });
    expect(status).toBe(404);
    expect(text).toContain('There is no such dead letter.');
    expect(text).toContain(answered['x-request-id']);
    expect(text).toContain('Sign out');
  });

  test('an error of ours is answered 500 without its message', async ({ log }) => {
    for (const accept of [BROWSER.accept, 'application/json']) {
      const headers = { ...OWN_PAGE, ...(await cookie()), accept };
      const { status, text } = await ask(consoleOf(), `${HOME}/broken`, { headers });
      expect(status).toBe(500);
      expect(text).toContain('The request failed on our side.');
      expect(text + log()).not.toContain('kanarifugl');
    }
  });

  test('a page shows how many incidents are happening and how many dead letters there are, and is shown without when they cannot be counted', async () => {
    const badges = async () => {
      throw new Error('the database is away');
    };
    const headers = { ...OWN_PAGE, ...(await cookie()) };
    const { status, text } = await ask(consoleOf({ badges }), HOME, { headers });
    expect(status).toBe(200);
    expect(text).not.toContain('pill dead');
    const counted = (await ask(consoleOf(), HOME, { headers })).text;
    expect(counted).toMatch(/Incidents <span class="pill dead"\s*>1<span class="vh"> happening now/);
    expect(counted).toMatch(/Dead letters <span class="pill dead"\s*>3</);
  });
});
