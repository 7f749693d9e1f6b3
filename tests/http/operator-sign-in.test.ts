import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { exportJWK, exportPKCS8, exportSPKI, generateKeyPair, SignJWT } from 'jose';
import type { JWTPayload } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { InvalidConfiguration } from '../../lib/config.ts';
import type { OperatorSettings } from '../../lib/config.ts';
import type { Endpoint } from '../../lib/http/guarded-endpoint.ts';
import { HOME } from '../../lib/operators/page/links.ts';
import { html } from '../../lib/markup.ts';
import { layout } from '../../lib/operators/page/layout.ts';
import { nextPath } from '../../lib/operators/access/next-path.ts';
import { operatorRoute } from '../../lib/operators/access/route.ts';
import type { OperatorVisit } from '../../lib/operators/access/route.ts';
import { accessRoutes } from '../../lib/operators/access/routes.ts';
import { MemoryLimiter } from '../../lib/rate-limit/memory.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/time.ts';
import { operatorFunction } from '../support/operator-function.ts';
import { freePort } from '../support/postgres.ts';

const ORIGIN = 'https://postbud.example';
const NOON = Date.UTC(2026, 10, 21, 12);
const SECRET = 'an operator secret of the tests, 32 bytes and more';
const expected = { issuer: 'postbud', audience: 'postbud-operators', maxAgeSeconds: 86_400 };
const shared: OperatorSettings = { ...expected, kind: 'secret', secret: Buffer.from(SECRET) };

let lines: string;
beforeEach(() => {
  // A token's times and the reading of them are of one moment.
  vi.useFakeTimers({ toFake: ['Date'], now: NOON });
  lines = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => (lines += String(text)).length > 0);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

// The console under test: a page of each kind, and the session's own.

interface ConsoleOptions {
  readonly settings?: OperatorSettings | (() => OperatorSettings);
  readonly deadLetters?: () => Promise<number | null>;
  readonly limiter?: MemoryLimiter;
}

const seen = z.object({
  subject: z.string(),
  name: z.string(),
  via: z.enum(['bearer', 'cookie']),
  parameters: z.record(z.string(), z.string()),
});

function consoleOf({
  settings = shared,
  deadLetters = async () => 3,
  limiter = new MemoryLimiter({ now: () => NOON }),
}: ConsoleOptions = {}) {
  const visits: Pick<OperatorVisit, 'operator' | 'parameters'>[] = [];
  const page = {
    scope: 'event-bus:read' as const,
    summary: 'A page',
    answer: seen,
    examples: {},
    handle: async ({ operator, parameters }: Pick<OperatorVisit, 'operator' | 'parameters'>) => {
      visits.push({ operator, parameters });
      const { subject, name, via } = operator;
      return { subject, name, via, parameters: { ...parameters } };
    },
    page: (_: unknown, context: Parameters<typeof layout>[1]) =>
      layout({ title: 'A page', section: null, content: html`<p>at ${context.url.href}</p>` }, context),
  };
  const { fetch } = operatorFunction({
    settings,
    environment: 'Preview',
    deadLetters,
    limiter,
    routes: [
      ...accessRoutes,
      operatorRoute({ ...page, id: 'home', path: HOME }),
      operatorRoute({
        ...page,
        id: 'topic',
        path: `${HOME}/topics/{topic}`,
        parameters: { topic: z.string() },
      }),
      operatorRoute({ ...page, id: 'preview', path: `${HOME}/replay` }),
      operatorRoute({
        ...page,
        id: 'replay',
        path: `${HOME}/replay`,
        scope: 'event-bus:replay',
        body: z.object({ topic: z.string('write a topic') }),
        answer: z.object({ replayed: z.string() }),
        handle: async (visit) => {
          await page.handle(visit);
          return { replayed: visit.body.topic };
        },
        goOn: () => `${HOME}/replays/1`,
      }),
      operatorRoute({
        ...page,
        id: 'missing',
        path: `${HOME}/missing`,
        unknown: 'There is no such dead letter.',
        handle: async () => null,
      }),
      operatorRoute({
        ...page,
        id: 'broken',
        path: `${HOME}/broken`,
        handle: async () => {
          throw new Error('connection to postgres://kanarifugl failed');
        },
      }),
    ],
  });
  return { fetch, visits };
}

const BROWSER = {
  accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'sec-fetch-mode': 'navigate',
  'x-forwarded-for': '192.0.2.7',
};
const OWN_PAGE = { ...BROWSER, 'sec-fetch-site': 'same-origin', origin: ORIGIN };
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

interface Asking {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** Must not be in the answer, but for the cookie, nor in the log. */
  readonly token?: string;
}

/** Sends a request, and checks what holds of every answer. */
async function ask({ fetch }: Pick<Endpoint, 'fetch'>, path: string, asking: Asking = {}) {
  const { method = 'GET', headers = {}, body, token = '' } = asking;
  const response = await fetch(
    new Request(new URL(path, ORIGIN), { method, headers, ...(body !== undefined && { body }) }),
  );
  const text = await response.text();
  const answered = Object.fromEntries(response.headers);
  expect(answered).toMatchObject({
    vary: 'Accept, Cookie, Authorization',
    'cache-control': 'no-store',
    'x-request-id': expect.stringMatching(/^[\w-]{36}$/),
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
  });
  const type = answered['content-type'] ?? '';
  if (token) {
    const { 'set-cookie': _, ...others } = answered;
    for (const part of token.split('.').filter(({ length }) => length > 8)) {
      expect(text + JSON.stringify(others) + lines).not.toContain(part);
    }
  }
  return {
    status: response.status,
    type,
    headers: answered,
    text,
    json: type.endsWith('json') && text ? (JSON.parse(text) as Record<string, unknown>) : {},
  };
}

/** The hidden field of the form to sign in with; undefined where there is no form. */
const nextIn = (page: string) => /name="next"\s+value="([^"]*)"/.exec(page)?.[1]?.replaceAll('&amp;', '&');

// Tokens, good and bad.

const now = () => Math.floor(Date.now() / SECOND);

/** What a good token says, but for what the test says otherwise; a claim that is undefined is left out. */
const claimsOf = (claims: JWTPayload = {}): JWTPayload => ({
  iss: expected.issuer,
  aud: expected.audience,
  sub: 'kari@solvik.example.no',
  iat: now(),
  exp: now() + 300,
  scope: 'event-bus:read event-bus:replay',
  ...claims,
});

const without = (name: string) => claimsOf({ [name]: undefined });

const token = (claims: JWTPayload = {}) =>
  new SignJWT(claimsOf(claims)).setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(Buffer.from(SECRET));

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token with whatever header, which no library would write. */
function forged(header: object, sign: (signed: string) => string, claims = claimsOf()): string {
  const signed = `${encoded(header)}.${encoded(claims)}`;
  return `${signed}.${sign(signed)}`;
}

const hmacWith = (secret: string | Buffer) => (signed: string) =>
  createHmac('sha256', secret).update(signed).digest('base64url');

const bearer = async (claims?: JWTPayload) => ({ authorization: `Bearer ${await token(claims)}` });
const cookie = async (claims?: JWTPayload) => ({ cookie: `__Host-event-bus=${await token(claims)}` });

// A key server, and an attacker's, which nobody must ever ask.

let servers: Server[];
let keyServerUrl: string;
let attackerUrl: string;
let fetchedFromAttacker: string[];
let keys: Awaited<ReturnType<typeof generateKeyPair>>;
let attackerKeys: Awaited<ReturnType<typeof generateKeyPair>>;
let keySet: string;
let attackerKeySet: string;

beforeAll(async () => {
  keys = await generateKeyPair('RS256', { extractable: true });
  attackerKeys = await generateKeyPair('RS256', { extractable: true });
  const { publicKey: curve } = await generateKeyPair('ES256', { extractable: true });
  keySet = JSON.stringify({
    keys: [
      { ...(await exportJWK(keys.publicKey)), kid: 'key-1', use: 'sig' },
      { ...(await exportJWK(curve)), kid: 'key-2', use: 'sig' },
    ],
  });
  attackerKeySet = JSON.stringify({
    keys: [{ ...(await exportJWK(attackerKeys.publicKey)), kid: 'key-1', use: 'sig' }],
  });
  fetchedFromAttacker = [];
  const keyServer = createServer((_, response) => response.end(keySet));
  const attacker = createServer((request, response) => {
    fetchedFromAttacker.push(request.url ?? '');
    response.end(attackerKeySet);
  });
  servers = [keyServer, attacker];
  [keyServerUrl = '', attackerUrl = ''] = await Promise.all(servers.map(urlOf));
});
afterAll(() => {
  for (const server of servers) server.close().closeAllConnections();
});

async function urlOf(server: Server): Promise<string> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`;
}

const jwks = (): OperatorSettings => ({ ...expected, kind: 'jwks', url: keyServerUrl });

/** Signed by the key server's key; with a header of the test's. */
const issued = (claims: JWTPayload = claimsOf(), header: object = {}) =>
  new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'key-1', ...header }).sign(keys.privateKey);

/** Signed by the attacker's key. */
const attacked = (header: object) =>
  new SignJWT(claimsOf()).setProtectedHeader({ alg: 'RS256', ...header }).sign(attackerKeys.privateKey);

type Attack = readonly [name: string, make: () => string | Promise<string>];

const KIDS = [
  ['a path to an empty file', '../../../../../../dev/null', ''],
  ['a path to a file that is known', '/proc/sys/kernel/randomize_va_space', '2\n'],
  ['SQL', `nothing' UNION SELECT 'kanarifugl' --`, 'kanarifugl'],
  ['a shell command', 'key-1|echo kanarifugl', 'kanarifugl\n'],
  ['a prototype', '__proto__', '[object Object]'],
] as const;

const attacks: readonly Attack[] = [
  ...['none', 'None', 'NONE', 'nOnE'].map((alg): Attack => [
    `alg: ${alg}, without a signature`,
    () => forged({ alg, typ: 'JWT' }, () => ''),
  ]),
  ['alg: none, with a signature', () => forged({ alg: 'none' }, hmacWith(SECRET))],
  ['no alg', () => forged({ typ: 'JWT' }, hmacWith(SECRET))],
  ['an alg that is a list', () => forged({ alg: ['HS256'] }, hmacWith(SECRET))],
  ['a signature of an empty secret', () => forged({ alg: 'HS256' }, hmacWith(''))],
  ...KIDS.map(([name, kid, secret]): Attack => [
    `a kid that is ${name}`,
    () => forged({ alg: 'HS256', kid }, hmacWith(secret)),
  ]),
  ['a kid that is a URL', () => attacked({ kid: attackerUrl })],
  ['a kid that is no string', () => forged({ alg: 'HS256', kid: { $ne: null } }, hmacWith('kanarifugl'))],
  [
    'an embedded jwk',
    async () => attacked({ jwk: { ...(await exportJWK(attackerKeys.publicKey)), alg: 'RS256' } }),
  ],
  [
    'an embedded jwk under the name of a key of ours',
    async () => attacked({ kid: 'key-1', jwk: await exportJWK(attackerKeys.publicKey) }),
  ],
  [
    'an embedded jwk that is a secret',
    () =>
      forged(
        { alg: 'HS256', jwk: { kty: 'oct', k: Buffer.from('kanarifugl').toString('base64url') } },
        hmacWith('kanarifugl'),
      ),
  ],
  ['a jku', () => attacked({ jku: attackerUrl, kid: 'key-1' })],
  ['an x5u', () => attacked({ x5u: attackerUrl, kid: 'key-1' })],
  ['an x5c', () => attacked({ x5c: ['MIIB'], kid: 'key-1' })],
  [
    'a critical header that nobody knows',
    () => forged({ alg: 'HS256', crit: ['x'], x: 1 }, hmacWith(SECRET)),
  ],
  ['five parts', async () => `${await token()}.a.b`],
  ['nothing but dots', () => '..'],
];

/** Those that are wrong in what they say; signed as they should be. */
const wrongClaims: readonly (readonly [name: string, claims: () => JWTPayload])[] = [
  ['that has expired', () => claimsOf({ exp: now() - 60 })],
  ['whose exp is a word', () => claimsOf({ exp: 'never' as unknown as number })],
  ['that is older than a day', () => claimsOf({ iat: now() - 86_500 })],
  [
    'that is older than a day and ends in 9999',
    () => claimsOf({ iat: now() - 86_500, exp: 253_402_300_799 }),
  ],
  ['that is of now and ends in 9999', () => claimsOf({ exp: 253_402_300_799 })],
  ['that ends after the end of numbers', () => claimsOf({ exp: 1e308 })],
  ['that was issued in the future', () => claimsOf({ iat: now() + 60 })],
  ['that was issued in 9999', () => claimsOf({ iat: 253_402_300_700, exp: 253_402_300_799 })],
  ['without exp', () => without('exp')],
  ['without iat', () => without('iat')],
  ['without sub', () => without('sub')],
  ['with a blank sub', () => claimsOf({ sub: ' ' })],
  ['without scope', () => without('scope')],
  ['whose nbf is in the future', () => claimsOf({ nbf: now() + 60 })],
  ['of another issuer', () => claimsOf({ iss: 'postbud.example' })],
  ['of no issuer', () => without('iss')],
  ['for another audience', () => claimsOf({ aud: 'postbud' })],
  ['for other audiences', () => claimsOf({ aud: ['postbud', 'others'] })],
  ['for no audience', () => without('aud')],
];

/** Shows a token in each of the ways there are. None may let it in, or tell it. */
async function isRefused(shownToken: string, settings: OperatorSettings): Promise<void> {
  const under = consoleOf({ settings });
  const asHeader = await ask(under, HOME, {
    headers: { authorization: `Bearer ${shownToken}` },
    token: shownToken,
  });
  expect([asHeader.status, asHeader.json['code']]).toEqual([401, 'invalid_token']);
  expect(asHeader.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
  const asCookie = await ask(under, HOME, {
    headers: { cookie: `__Host-event-bus=${shownToken}` },
    token: shownToken,
  });
  expect([asCookie.status, asCookie.json['code']]).toEqual([401, 'invalid_token']);
  const signingIn = await ask(under, `${HOME}/sign-in`, signInWith(shownToken));
  expect(signingIn).toMatchObject({ status: 401, type: 'text/html; charset=utf-8' });
  expect(signingIn.text).toContain('The token is invalid or has expired.');
  expect(signingIn.headers).not.toHaveProperty('set-cookie');
  expect(under.visits).toEqual([]);
}

const signInWith = (
  shownToken: string,
  next?: string,
  headers: Record<string, string> = OWN_PAGE,
): Asking => ({
  method: 'POST',
  headers: { ...headers, ...FORM },
  body: String(new URLSearchParams({ token: shownToken, ...(next !== undefined && { next }) })),
  token: shownToken,
});

describe('an operator', () => {
  test('is let in with a token, and is told apart by how it came', async () => {
    const claims = { name: 'Kari Nordmann' };
    const under = consoleOf();
    expect((await ask(under, HOME, { headers: await bearer(claims) })).json).toEqual({
      subject: 'kari@solvik.example.no',
      name: 'Kari Nordmann',
      via: 'bearer',
      parameters: {},
    });
    const withCookie = { cookie: `a=b; __Host-event-bus=${await token()}; c` };
    expect((await ask(under, HOME, { headers: withCookie })).json).toMatchObject({ via: 'cookie' });
    expect(under.visits[0]?.operator.scopes).toEqual(new Set(['event-bus:read', 'event-bus:replay']));
  });

  test.each([undefined, '', ' ', 17, { first: 'Kari' }])(
    'whose name is %j goes by the subject',
    async (name) => {
      const { json } = await ask(consoleOf(), HOME, { headers: await bearer({ name }) });
      expect(json['name']).toBe('kari@solvik.example.no');
    },
  );

  test('is let in with a token of the key server', async () => {
    const headers = { authorization: `Bearer ${await issued()}` };
    expect((await ask(consoleOf({ settings: jwks() }), HOME, { headers })).status).toBe(200);
  });

  test('who sends both is known by Authorization', async () => {
    const headers = { ...(await cookie({ sub: 'cookie' })), ...(await bearer({ sub: 'bearer' })) };
    expect((await ask(consoleOf(), HOME, { headers })).json).toMatchObject({
      subject: 'bearer',
      via: 'bearer',
    });
  });

  test.each(['', 'Bearer', 'Bearer ', 'Basic a2FyaTprYXJp', 'Bearer two words', 'Token abc'])(
    'who sends authorization %j is not let in by the cookie instead',
    async (authorization) => {
      const answer = await ask(consoleOf(), HOME, { headers: { ...(await cookie()), authorization } });
      expect([answer.status, answer.json['code']]).toEqual([401, 'unauthorized']);
    },
  );

  test('who sends a wrong Bearer token is not let in by the cookie instead', async () => {
    const headers = { ...(await cookie()), authorization: 'Bearer abc' };
    expect((await ask(consoleOf(), HOME, { headers })).status).toBe(401);
  });

  test.each(['event-bus=', '__host-event-bus=', '__Host-event-bus2=', 'x__Host-event-bus='])(
    'is not known by a cookie of another name: %s',
    async (name) => {
      const answer = await ask(consoleOf(), HOME, { headers: { cookie: name + (await token()) } });
      expect([answer.status, answer.json['code']]).toEqual([401, 'unauthorized']);
    },
  );
});

describe('a forged token lets nobody in', () => {
  test.each(attacks)('with %s, where there is a shared secret', async (_, make) => {
    await isRefused(await make(), shared);
    expect(fetchedFromAttacker).toEqual([]);
  });

  test.each(attacks)('with %s, where there is a key server', async (_, make) => {
    await isRefused(await make(), jwks());
    expect(fetchedFromAttacker).toEqual([]);
  });

  test.each<[string, () => Promise<string>]>([
    ['PEM', () => exportSPKI(keys.publicKey)],
    ['PEM without its last line break', async () => (await exportSPKI(keys.publicKey)).trim()],
    ['JWK', async () => JSON.stringify(await exportJWK(keys.publicKey))],
    ['JWK set', async () => keySet],
    ['modulus', async () => String((await exportJWK(keys.publicKey)).n)],
  ])('signed with the public key as if it were a secret: its %s', async (_, publicKey) => {
    for (const header of [{ alg: 'HS256' }, { alg: 'HS256', kid: 'key-1' }]) {
      await isRefused(forged(header, hmacWith(await publicKey())), jwks());
    }
  });

  test('signed with RS256 where there is a shared secret', async () => {
    await isRefused(await issued(), shared);
    await isRefused(await attacked({}), shared);
    const pem = await exportPKCS8(keys.privateKey);
    await isRefused(forged({ alg: 'HS256' }, hmacWith(pem)), shared);
  });

  test('signed with HS256 and the very secret where there is a key server', async () => {
    await isRefused(await token(), jwks());
  });

  test('with a signature of zeros, which some libraries took for valid', async () => {
    const zeros = () => Buffer.alloc(64).toString('base64url');
    await isRefused(forged({ alg: 'ES256', kid: 'key-2' }, zeros), jwks());
  });

  test('with a jku beside a key that is ours is taken for its key, and the jku is not fetched', async () => {
    const good = await issued(claimsOf(), { jku: attackerUrl, x5u: attackerUrl });
    const headers = { authorization: `Bearer ${good}` };
    expect((await ask(consoleOf({ settings: jwks() }), HOME, { headers })).status).toBe(200);
    expect(fetchedFromAttacker).toEqual([]);
  });
});

describe('a token', () => {
  test.each(wrongClaims)('%s lets nobody in', async (_, claims) => {
    await isRefused(await token(claims()), shared);
    await isRefused(await issued(claims()), jwks());
  });
});

describe('scopes are whole words', () => {
  const refused = async (scope: unknown, method = 'GET', path = HOME) => {
    const under = consoleOf();
    const answer = await ask(under, path, { method, headers: await bearer({ scope }) });
    expect(under.visits).toEqual([]);
    return {
      status: answer.status,
      code: answer.json['code'],
      challenge: answer.headers['www-authenticate'],
    };
  };

  test.each([
    'event-bus:reader',
    'xevent-bus:read',
    'event-bus:read,event-bus:replay',
    'EVENT-BUS:READ',
    'event-bus',
    'event-bus:*',
    'event-bus:replay',
    'event-bus:read\tevent-bus:replay',
    '',
    ['event-bus:read'],
    ['event-bus:read', 'event-bus:replay'],
    { 'event-bus:read': true },
    17,
  ])('%j is not event-bus:read', async (scope) => {
    expect(await refused(scope)).toEqual({
      status: 403,
      code: 'insufficient_scope',
      challenge: 'Bearer error="insufficient_scope", scope="event-bus:read"',
    });
  });

  test('a reader does not replay, whatever the page shows', async () => {
    expect(await refused('event-bus:read event-bus:reveal', 'POST', `${HOME}/replay`)).toMatchObject({
      status: 403,
      code: 'insufficient_scope',
    });
  });

  test('and whoever lacks one is told so on a page, signed in as they are', async () => {
    const headers = { ...OWN_PAGE, ...(await cookie({ scope: 'event-bus:replay' })) };
    const { status, text } = await ask(consoleOf(), HOME, { headers });
    expect(status).toBe(403);
    expect(text).toContain('The token lacks the scope event-bus:read.');
    expect(text).toContain('Sign out');
  });

  test('the token of a sign-in must have event-bus:read', async () => {
    const other = await token({ scope: 'event-bus:replay event-bus:reader' });
    const { status, text, headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(other));
    expect(status).toBe(403);
    expect(text).toContain('The token lacks the scope event-bus:read.');
    expect(text).toContain('name="token"');
    expect(headers).not.toHaveProperty('set-cookie');
  });
});

describe('what changes something, with the cookie,', () => {
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
    ['a page that only its referrer speaks for', { referer: `${ORIGIN}${HOME}` }],
  ])('is refused from %s', async (_, headers) => {
    const { status, json, done } = await replay({ ...(await cookie()), ...headers });
    expect([status, json['code'], done]).toEqual([403, 'cross_site_request', 0]);
    expect(json['detail']).toContain('Nothing was changed');
  });

  test.each<[string, Record<string, string>]>([
    ['the browser says', { 'sec-fetch-site': 'same-origin' }],
    ['its origin says, where the browser is an old one', { origin: ORIGIN }],
  ])('is done from a page of ours: %s', async (_, headers) => {
    const { status, done } = await replay({ ...(await cookie()), ...headers });
    expect([status, done]).toEqual([200, 1]);
  });

  test('is told on a page when it is refused', async () => {
    const headers = { ...BROWSER, ...(await cookie()), 'sec-fetch-site': 'cross-site' };
    const { status, type, text } = await replay(headers);
    expect([status, type]).toEqual([403, 'text/html; charset=utf-8']);
    expect(text).toContain('Nothing was changed');
  });

  test('is not asked where it came from with a Bearer token', async () => {
    for (const site of ['cross-site', 'same-site', 'none']) {
      const headers = { ...(await bearer()), 'sec-fetch-site': site, origin: 'https://evil.example' };
      expect(await replay(headers)).toMatchObject({ status: 200, done: 1 });
    }
    expect(await replay({ ...(await cookie()), ...(await bearer()) })).toMatchObject({ status: 200 });
  });

  test('is not what reading does, wherever it is asked for', async () => {
    const headers = { ...(await cookie()), 'sec-fetch-site': 'cross-site' };
    expect((await ask(consoleOf(), HOME, { headers })).status).toBe(200);
    expect((await ask(consoleOf(), HOME, { method: 'HEAD', headers })).status).toBe(200);
  });
});

describe('signing in', () => {
  const attributesOf = (cookieLine: string | undefined) => String(cookieLine).split('; ').slice(1).toSorted();

  test('keeps the token in a cookie that only this host gets, and goes on', async () => {
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

  test.each([
    [1, 'hour', HOUR / SECOND],
    [8, 'hours', (8 * HOUR) / SECOND],
    [9, 'hours', (8 * HOUR) / SECOND],
    [24 * 365, 'hours', (8 * HOUR) / SECOND],
  ])('with a token of %i %s lasts as long as it, and 8 hours at most', async (hours, _, seconds) => {
    const good = await token({ exp: now() + (hours * HOUR) / SECOND });
    const { headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(good));
    expect(headers['set-cookie']).toContain(`; Max-Age=${seconds};`);
  });

  test('with a token that ends in a year lasts until that token is too old', async () => {
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

  test('with a token that is let live a moment longer gives no session that is gone at once', async () => {
    const { status, headers } = await ask(
      consoleOf(),
      `${HOME}/sign-in`,
      signInWith(await token({ exp: now() - 5 })),
    );
    expect([status, headers['set-cookie']]).toEqual([401, undefined]);
  });

  test('takes the token as people copy it: with its scheme and a line break', async () => {
    const good = await token();
    const { status, headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(` Bearer ${good}\r\n`));
    expect([status, headers['set-cookie']?.includes(`=${good};`)]).toEqual([303, true]);
  });

  test('lets one in: the cookie is what the pages ask for', async () => {
    const under = consoleOf();
    const signedIn = await ask(under, `${HOME}/sign-in`, signInWith(await token()));
    const kept = signedIn.headers['set-cookie']?.split(';')[0] ?? '';
    const { status, text } = await ask(under, HOME, { headers: { ...OWN_PAGE, cookie: kept } });
    expect(status).toBe(200);
    expect(text).toContain('kari@solvik.example.no');
    expect(text).toContain('Preview');
  });

  test('with a wrong token shows the form again, which still knows where to go', async () => {
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

  test('without a token is a 400', async () => {
    const { status, text } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith('  '));
    expect(status).toBe(400);
    expect(text).toContain('paste a token');
  });

  test('with a token that no cookie holds says so', async () => {
    const long = await token({ roles: 'x'.repeat(3000) });
    expect(long.length).toBeGreaterThan(4000);
    const { status, headers, text } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(long));
    expect([status, headers['set-cookie']]).toEqual([400, undefined]);
    expect(text).toContain('The token is longer than 4000 bytes');
    expect(text).toContain('name="token"');
  });

  test('of a program is answered with JSON', async () => {
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

  test('has a form of its own, for going on to where a link led', async () => {
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
  ])('by a form of %s is refused, whoever’s the token', async (_, from) => {
    const good = await token();
    for (const more of [{}, await bearer(), await cookie()]) {
      const sent = signInWith(good, HOME, { ...BROWSER, ...more, ...from });
      const { status, text, headers } = await ask(consoleOf(), `${HOME}/sign-in`, sent);
      expect([status, headers['set-cookie']]).toEqual([403, undefined]);
      expect(text).toContain('cross_site_request');
    }
  });

  test('by a form of another site does not use up the visitor’s own tries', async () => {
    const under = consoleOf();
    for (let index = 0; index < 12; index += 1) {
      const sent = signInWith('a.b.c', HOME, { ...BROWSER, 'sec-fetch-site': 'cross-site' });
      expect((await ask(under, `${HOME}/sign-in`, sent)).status).toBe(403);
    }
    expect((await ask(under, `${HOME}/sign-in`, signInWith(await token()))).status).toBe(303);
  });
});

describe('where to go after signing in', () => {
  test.each([
    HOME,
    `${HOME}/`,
    `${HOME}/topics/payment.captured`,
    `${HOME}/dead-letters?topic=payment.captured&since=24h&q=a%2Fb%20c`,
    `${HOME}/replay?next=https://evil.example/`,
    `${HOME}/dead-letters/0190a1b2-17`,
  ])('is %s as asked for', async (next) => {
    expect(nextPath(next)).toBe(next);
    const { headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(await token(), next));
    expect(headers['location']).toBe(next);
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
    `${HOME}/æ`,
    `${HOME}/\u{2028}`,
    `/platform/event-bus?q=${'x'.repeat(2000)}`,
  ])('is the overview for %j', async (next) => {
    expect(nextPath(next)).toBe(HOME);
    const { headers } = await ask(consoleOf(), `${HOME}/sign-in`, signInWith(await token(), next));
    expect(headers['location']).toBe(HOME);
  });

  test('is the overview when nothing is said', () => {
    expect([nextPath(null), nextPath(undefined)]).toEqual([HOME, HOME]);
  });
});

describe('signing in is limited for each visitor', () => {
  const tries = async (under: Pick<Endpoint, 'fetch'>, times: number, address = '192.0.2.7') => {
    const statuses = [];
    for (let index = 0; index < times; index += 1) {
      const from = { ...OWN_PAGE, 'x-forwarded-for': address };
      statuses.push((await ask(under, `${HOME}/sign-in`, signInWith('a.b.c', HOME, from))).status);
    }
    return statuses;
  };

  test('to 10 tries a minute, whether the token is right or not', async () => {
    const under = consoleOf();
    expect(await tries(under, 11)).toEqual([...Array<number>(10).fill(401), 429]);
    const { status, type, headers, text } = await ask(under, `${HOME}/sign-in`, signInWith(await token()));
    expect([status, type]).toEqual([429, 'text/html; charset=utf-8']);
    expect(headers).toMatchObject({
      'retry-after': '60',
      'ratelimit-policy': '"sign-in-min";q=10;w=60, "sign-in-hour";q=60;w=3600',
      ratelimit: '"sign-in-min";r=0;t=60',
    });
    expect(text).toContain('Too many calls. Try again in 60 seconds.');
    expect(await tries(under, 1, '198.51.100.1')).toEqual([401]);
  });

  test('to 60 tries an hour', async () => {
    let at = NOON;
    const under = consoleOf({ limiter: new MemoryLimiter({ now: () => at }) });
    for (let minute = 0; minute < 6; minute += 1, at += MINUTE) await tries(under, 10);
    expect(await tries(under, 1)).toEqual([429]);
    at = NOON + HOUR;
    expect(await tries(under, 1)).toEqual([401]);
  });

  test('as JSON too, and with what is left on each answer', async () => {
    const under = consoleOf();
    const sent = signInWith('a.b.c', HOME, { ...OWN_PAGE, accept: 'application/json' });
    expect((await ask(under, `${HOME}/sign-in`, sent)).headers['ratelimit']).toBe('"sign-in-min";r=9;t=60');
    await tries(under, 9);
    expect((await ask(under, `${HOME}/sign-in`, sent)).json).toMatchObject({ code: 'rate_limited' });
  });

  test('and neither the form nor the pages count', async () => {
    const under = consoleOf();
    for (let index = 0; index < 12; index += 1) {
      expect((await ask(under, `${HOME}/sign-in`, { headers: BROWSER })).status).toBe(200);
      expect((await ask(under, HOME, { headers: BROWSER })).status).toBe(401);
    }
    expect(await tries(under, 1)).toEqual([401]);
  });
});

describe('signing out', () => {
  test('takes the cookie back and shows the form', async () => {
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

  test('works when the session is over', async () => {
    const answer = await ask(consoleOf(), `${HOME}/sign-out`, { method: 'POST', headers: OWN_PAGE });
    expect(answer.status).toBe(303);
  });

  test('is not done for another site, nor by a link', async () => {
    const headers = { ...BROWSER, ...(await cookie()), 'sec-fetch-site': 'cross-site' };
    const forced = await ask(consoleOf(), `${HOME}/sign-out`, { method: 'POST', headers });
    expect([forced.status, forced.headers['set-cookie']]).toEqual([403, undefined]);
    const linked = await ask(consoleOf(), `${HOME}/sign-out`, { headers: OWN_PAGE });
    expect([linked.status, linked.headers['allow']]).toEqual([405, 'POST']);
  });
});

describe('a browser without a session', () => {
  const PAGE = `${HOME}/topics/payment.captured?since=24h&q=a%20%26%20b`;

  test('gets a 401 with the form, which knows where it was going', async () => {
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

  test('whose session has ended is told so', async () => {
    const headers = { ...BROWSER, ...(await cookie({ exp: now() - 60 })) };
    const { status, text } = await ask(consoleOf(), PAGE, { headers });
    expect(status).toBe(401);
    expect(text).toContain('The token is invalid or has expired.');
    expect(nextIn(text)).toBe(PAGE);
  });

  test('that sent a form goes to the overview after signing in, not back to sending it', async () => {
    const headers = { ...OWN_PAGE, ...FORM };
    const answer = await ask(consoleOf(), `${HOME}/replay`, { method: 'POST', headers, body: 'topic=x' });
    expect([answer.status, nextIn(answer.text)]).toEqual([401, HOME]);
  });

  test('does not have what it asked for put into the page unescaped', async () => {
    const { text } = await ask(consoleOf(), `${HOME}/topics/x?q="><script>alert(1)</script>`, {
      headers: BROWSER,
    });
    expect(text).not.toContain('<script>alert');
  });

  test('that is a program gets a problem', async () => {
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

  test('is asked for once more from here, and then the cookie comes along', async () => {
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

  test('is asked for once more only once, and then there is the form without the mark', async () => {
    for (const site of ['same-origin', 'cross-site']) {
      const headers = { ...BROWSER, 'sec-fetch-site': site };
      const answer = await ask(consoleOf(), `${PAGE}&b=1`, { headers });
      expect([answer.status, nextIn(answer.text)]).toEqual([401, PAGE]);
    }
  });

  test('leads on from the overview too, which has no query', async () => {
    const { text } = await ask(consoleOf(), HOME, { headers: LINKED });
    expect(refreshIn(text)).toBe(`${ORIGIN}${HOME}?b=1`);
    expect(nextIn((await ask(consoleOf(), `${HOME}?b=1`, { headers: OWN_PAGE })).text)).toBe(HOME);
  });

  test('keeps a b that is not the mark', async () => {
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
  ])('is answered at once with %s', async (_, method, headers, status) => {
    const answer = await ask(consoleOf(), `${HOME}/replay`, { method, headers: { ...LINKED, ...headers } });
    expect([answer.status, refreshIn(answer.text)]).toEqual([status, undefined]);
  });

  test('to nowhere is a 404 at once, and the form to sign in is shown at once', async () => {
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
  ])('%s has the parameter %j', async (path, topic) => {
    const { status, json } = await get(HOME + path);
    expect([status, json['parameters']]).toEqual([200, { topic }]);
  });

  test('of the function’s file does as well', async () => {
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
  ])('%s is a 404, for whatever method', async (path) => {
    for (const method of ['GET', 'POST', 'PUT', 'OPTIONS', 'DELETE']) {
      const { status, json } = await get(HOME + path, method);
      expect([status, json['code']]).toEqual([404, 'not_found']);
    }
    const page = await get(HOME + path, 'GET', BROWSER.accept);
    expect([page.status, page.type]).toEqual([404, 'text/html; charset=utf-8']);
    expect(page.text).toContain('There is nothing at this address.');
  });

  test.each([
    ['', 'POST', 'GET, HEAD'],
    ['', 'DELETE', 'GET, HEAD'],
    ['', 'OPTIONS', 'GET, HEAD'],
    ['/topics/x', 'PUT', 'GET, HEAD'],
    ['/replay', 'PATCH', 'GET, HEAD, POST'],
    ['/sign-in', 'PUT', 'GET, HEAD, POST'],
    ['/sign-out', 'GET', 'POST'],
    ['/sign-out', 'HEAD', 'POST'],
  ])('%s with %s is a 405 that says which there are', async (path, method, allow) => {
    const { status, headers } = await get(HOME + path, method);
    expect([status, headers['allow']]).toEqual([405, allow]);
  });

  test.each(['application/json', BROWSER.accept])(
    'is answered to HEAD as to GET, without the body: %s',
    async (accept) => {
      const head = await get(HOME, 'HEAD', accept);
      const whole = await get(HOME, 'GET', accept);
      expect([head.status, head.type, head.text]).toEqual([200, whole.type, '']);
      const unknown = await ask(consoleOf(), HOME, { method: 'HEAD', headers: { accept } });
      expect([unknown.status, unknown.text]).toEqual([401, '']);
    },
  );

  test.each(['image/png', 'text/html;q=0, application/json;q=0'])(
    'with Accept %s is a 406, before anything is done',
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

describe('what was done', () => {
  const send = async (headers: Record<string, string>, body: string) =>
    await ask(consoleOf(), `${HOME}/replay`, { method: 'POST', headers, body });

  test('from a form goes on to a page', async () => {
    const headers = { ...OWN_PAGE, ...FORM, ...(await cookie()) };
    const { status, headers: answered, text } = await send(headers, 'topic=payment.captured');
    expect([status, answered['location'], text]).toEqual([303, `${HOME}/replays/1`, '']);
  });

  test('by a program is answered with JSON', async () => {
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
  ])('with a wrong body is not: %s %.20s', async (type, body, status, code) => {
    const answer = await send({ ...(await bearer()), 'content-type': type }, body);
    expect([answer.status, answer.json['code']]).toEqual([status, code]);
    const page = await send({ ...OWN_PAGE, ...(await cookie()), 'content-type': type }, body);
    expect([page.status, page.type]).toEqual([status, 'text/html; charset=utf-8']);
  });
});

describe('a problem', () => {
  test('is a page for a browser, with the way back and the request id', async () => {
    const headers = { ...OWN_PAGE, ...(await cookie()) };
    const { status, text, headers: answered } = await ask(consoleOf(), `${HOME}/missing`, { headers });
    expect(status).toBe(404);
    expect(text).toContain('There is no such dead letter.');
    expect(text).toContain(answered['x-request-id']);
    expect(text).toContain('Sign out');
  });

  test('that is our own says nothing of what is inside', async () => {
    for (const accept of [BROWSER.accept, 'application/json']) {
      const headers = { ...OWN_PAGE, ...(await cookie()), accept };
      const { status, text } = await ask(consoleOf(), `${HOME}/broken`, { headers });
      expect(status).toBe(500);
      expect(text).toContain('The request failed on our side.');
      expect(text + lines).not.toContain('kanarifugl');
    }
  });

  test('with the count of dead letters leaves it out of the page, no more', async () => {
    const deadLetters = async () => {
      throw new Error('the database is away');
    };
    const headers = { ...OWN_PAGE, ...(await cookie()) };
    const { status, text } = await ask(consoleOf({ deadLetters }), HOME, { headers });
    expect(status).toBe(200);
    expect(text).not.toContain('pill dead');
    expect((await ask(consoleOf(), HOME, { headers })).text).toMatch(/pill dead">3</);
  });
});

describe('nobody gets in, and the answer is 503, where', () => {
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

  test.each(cases)('%s: as JSON', async (_, settings, code, seconds) => {
    const under = consoleOf({ settings: (await settings())! });
    const good = await issued();
    const { status, json, headers } = await ask(under, HOME, {
      headers: { authorization: `Bearer ${good}` },
      token: good,
    });
    expect([status, json['code'], headers['retry-after']]).toEqual([503, code, seconds]);
    expect(under.visits).toEqual([]);
  });

  test.each(cases)('%s: as a page, and at the sign-in', async (_, settings, code, seconds) => {
    const under = consoleOf({ settings: (await settings())! });
    const good = await issued();
    const asked = [
      await ask(under, HOME, {
        headers: { ...OWN_PAGE, cookie: `__Host-event-bus=${good}` },
        token: good,
      }),
      await ask(under, `${HOME}/sign-in`, signInWith(good)),
    ];
    for (const { status, type, text, headers } of asked) {
      expect([status, type, headers['retry-after']]).toEqual([503, 'text/html; charset=utf-8', seconds]);
      expect(text).toContain(code);
      expect(headers).not.toHaveProperty('set-cookie');
    }
  });
});

describe('the log', () => {
  test('has a line for every request, and neither token, query nor cookie', async () => {
    const under = consoleOf();
    const good = await token();
    const headers = { ...OWN_PAGE, cookie: `__Host-event-bus=${good}` };
    await ask(under, `${HOME}?q=kanarifugl`, { headers, token: good });
    await ask(under, `${HOME}/sign-in`, signInWith(good));
    await ask(under, `${HOME}/sign-in`, signInWith(`${good}x`));
    await ask(under, HOME, { headers: { authorization: `Bearer ${good}` }, token: good });
    expect(
      lines
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).status as number),
    ).toEqual([200, 303, 401, 200]);
    expect(lines).not.toContain('kanarifugl');
  });
});
