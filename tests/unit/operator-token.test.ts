import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { exportJWK, exportPKCS8, exportSPKI, generateKeyPair, SignJWT } from 'jose';
import type { JWTPayload } from 'jose';
import { describe, expect, onTestFinished } from 'vitest';

import { authenticate, verifyToken } from '../../lib/console/access/authenticate.ts';
import type { OperatorSettings } from '../../lib/platform/config.ts';
import {
  bearer,
  claimsOf,
  cookie,
  expected,
  now,
  ORIGIN,
  shared,
  test as base,
  token,
} from '../support/operator-console.ts';
import { OPERATOR_SECRET as SECRET } from '../support/operator-token.ts';
import { freePort } from '../support/postgres.ts';

const test = base
  .extend('keys', { scope: 'file' }, async ({}, { onCleanup }) => {
    const keys = await startKeyServers();
    onCleanup(() => keys.close());
    return keys;
  })
  .extend('expectRefused', ({ keys }) => async (shown: string, settings: OperatorSettings) => {
    await expect(verifyToken(shown, settings)).rejects.toMatchObject({
      status: 401,
      code: 'invalid_token',
      headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    });
    expect(keys.fetchedFromAttacker).toEqual([]);
  });

type Keys = Awaited<ReturnType<typeof startKeyServers>>;

/** Serves the operators' keys, and an attacker's, which nobody must ever ask for. */
async function startKeyServers() {
  const own = await generateKeyPair('RS256', { extractable: true });
  const attackers = await generateKeyPair('RS256', { extractable: true });
  const { publicKey: curve } = await generateKeyPair('ES256', { extractable: true });
  const [ownJwk, attackersJwk] = await Promise.all([own, attackers].map((pair) => exportJWK(pair.publicKey)));
  const keySet = JSON.stringify({
    keys: [
      { ...ownJwk, kid: 'key-1', use: 'sig' },
      { ...(await exportJWK(curve)), kid: 'key-2', use: 'sig' },
    ],
  });
  const servers: Server[] = [];
  const fetchedFromAttacker: string[] = [];
  let served: readonly [status: number, body: string] = [200, keySet];
  const serve = async (answer: () => readonly [status: number, body: string], fetched: string[] = []) => {
    const server = createServer((request, response) => {
      fetched.push(request.url ?? '');
      const [status, body] = answer();
      response.writeHead(status).end(body);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`;
  };
  const signed = (key: typeof own.privateKey, claims: JWTPayload, header: object) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', ...header }).sign(key);
  return {
    own,
    ownJwk: ownJwk!,
    attackersJwk: attackersJwk!,
    keySet,
    jwks: { ...expected, kind: 'jwks', url: await serve(() => served) } satisfies OperatorSettings,
    answer: (answer: typeof served) => void (served = answer),
    attackerUrl: await serve(
      () => [200, JSON.stringify({ keys: [{ ...attackersJwk, kid: 'key-1', use: 'sig' }] })],
      fetchedFromAttacker,
    ),
    fetchedFromAttacker,
    issued: (claims: JWTPayload = claimsOf(), header: object = {}) =>
      signed(own.privateKey, claims, { kid: 'key-1', ...header }),
    attacked: (header: object) => signed(attackers.privateKey, claimsOf(), header),
    close() {
      for (const server of servers) server.close().closeAllConnections();
    },
  };
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token with whatever header, which no library would write. */
function forged(header: object, sign: (signed: string) => string): string {
  const signed = `${encoded(header)}.${encoded(claimsOf())}`;
  return `${signed}.${sign(signed)}`;
}

const hmacWith = (secret: string | Buffer) => (signed: string) =>
  createHmac('sha256', secret).update(signed).digest('base64url');

type Attack = readonly [name: string, make: (keys: Keys) => string | Promise<string>];

const KIDS = [
  ['a path to an empty file', '../../../../../../dev/null', ''],
  ['a path to a file that is known', '/proc/sys/kernel/randomize_va_space', '2\n'],
  ['SQL', `nothing' UNION SELECT 'kanarifugl' --`, 'kanarifugl'],
  ['a shell command', 'key-1|echo kanarifugl', 'kanarifugl\n'],
  ['a prototype', '__proto__', '[object Object]'],
] as const;

const attacks: readonly Attack[] = [
  ...['none', 'None', 'NONE', 'nOnE'].map((alg): Attack => [
    `alg: ${alg} and no signature`,
    () => forged({ alg, typ: 'JWT' }, () => ''),
  ]),
  ['alg: none and a signature', () => forged({ alg: 'none' }, hmacWith(SECRET))],
  ['no alg', () => forged({ typ: 'JWT' }, hmacWith(SECRET))],
  ['a list of algs', () => forged({ alg: ['HS256'] }, hmacWith(SECRET))],
  ['a signature of an empty secret', () => forged({ alg: 'HS256' }, hmacWith(''))],
  ...KIDS.map(([name, kid, secret]): Attack => [
    `a kid that is ${name}`,
    () => forged({ alg: 'HS256', kid }, hmacWith(secret)),
  ]),
  ['a kid that is a URL', ({ attacked, attackerUrl }) => attacked({ kid: attackerUrl })],
  ['a kid that is an object', () => forged({ alg: 'HS256', kid: { $ne: null } }, hmacWith('kanarifugl'))],
  ['an embedded jwk', ({ attacked, attackersJwk }) => attacked({ jwk: { ...attackersJwk, alg: 'RS256' } })],
  [
    'an embedded jwk under the name of one of our keys',
    ({ attacked, attackersJwk }) => attacked({ kid: 'key-1', jwk: attackersJwk }),
  ],
  [
    'an embedded jwk that is a secret',
    () =>
      forged(
        { alg: 'HS256', jwk: { kty: 'oct', k: Buffer.from('kanarifugl').toString('base64url') } },
        hmacWith('kanarifugl'),
      ),
  ],
  ['a jku', ({ attacked, attackerUrl }) => attacked({ jku: attackerUrl, kid: 'key-1' })],
  ['an x5u', ({ attacked, attackerUrl }) => attacked({ x5u: attackerUrl, kid: 'key-1' })],
  ['an x5c', ({ attacked }) => attacked({ x5c: ['MIIB'], kid: 'key-1' })],
  ['an unknown critical header', () => forged({ alg: 'HS256', crit: ['x'], x: 1 }, hmacWith(SECRET))],
  [
    'another algorithm',
    () => new SignJWT(claimsOf()).setProtectedHeader({ alg: 'HS512' }).sign(Buffer.from(SECRET.repeat(2))),
  ],
  [
    'changed claims',
    async () => {
      const [header, , signature] = (await token()).split('.');
      return `${header}.${encoded(claimsOf({ sub: 'root' }))}.${signature}`;
    },
  ],
  ['an unknown kid', ({ issued }) => issued(claimsOf(), { kid: 'key-3' })],
  ['a single word', () => 'undefined'],
  ['five parts', async () => `${await token()}.a.b`],
  ['nothing but dots', () => '..'],
];

describe('a forged token', () => {
  test.for(attacks)(
    'a token with %s is refused under either kind of key',
    async ([, make], { keys, expectRefused }) => {
      await expectRefused(await make(keys), shared);
      await expectRefused(await make(keys), keys.jwks);
    },
  );

  test.for<Attack>([
    ['PEM', ({ own }) => exportSPKI(own.publicKey)],
    ['PEM without its last line break', async ({ own }) => (await exportSPKI(own.publicKey)).trim()],
    ['JWK', ({ ownJwk }) => JSON.stringify(ownJwk)],
    ['JWK set', ({ keySet }) => keySet],
    ['modulus', ({ ownJwk }) => String(ownJwk.n)],
  ])(
    'a token signed with the public key as a shared secret is refused: its %s',
    async ([, publicKey], { keys, expectRefused }) => {
      for (const header of [{ alg: 'HS256' }, { alg: 'HS256', kid: 'key-1' }]) {
        await expectRefused(forged(header, hmacWith(await publicKey(keys))), keys.jwks);
      }
    },
  );

  test('a token of one kind of key is refused where the other kind is configured', async ({
    keys,
    expectRefused,
  }) => {
    await expectRefused(await keys.issued(), shared);
    await expectRefused(await keys.attacked({}), shared);
    await expectRefused(forged({ alg: 'HS256' }, hmacWith(await exportPKCS8(keys.own.privateKey))), shared);
    await expectRefused(await token(), keys.jwks);
  });

  test('a signature of zeros, which some libraries took for valid, is refused', async ({
    keys,
    expectRefused,
  }) => {
    const zeros = () => Buffer.alloc(64).toString('base64url');
    await expectRefused(forged({ alg: 'ES256', kid: 'key-2' }, zeros), keys.jwks);
  });

  test('the jku and x5u of a valid token are not fetched', async ({ keys }) => {
    const good = await keys.issued(claimsOf(), { jku: keys.attackerUrl, x5u: keys.attackerUrl });
    expect(await verifyToken(good, keys.jwks)).toMatchObject({ subject: 'kari@solvik.example.no' });
    expect(keys.fetchedFromAttacker).toEqual([]);
  });

  test('a token that names no key is valid by any of the served keys, and by no other', async ({
    keys,
    expectRefused,
  }) => {
    const next = await generateKeyPair('RS256', { extractable: true });
    const served = [keys.ownJwk, await exportJWK(next.publicKey)];
    keys.answer([
      200,
      JSON.stringify({ keys: served.map((jwk, index) => ({ ...jwk, kid: `key-${index}` })) }),
    ]);
    onTestFinished(() => keys.answer([200, keys.keySet]));
    // Keys are kept by URL.
    const settings = { ...keys.jwks, url: `${keys.jwks.url}?rotation` };
    const unnamed = (key: typeof next.privateKey, claims = claimsOf()) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256' }).sign(key);
    for (const { privateKey } of [keys.own, next]) {
      expect(await verifyToken(await unnamed(privateKey), settings)).toMatchObject({
        subject: 'kari@solvik.example.no',
      });
      await expectRefused(await unnamed(privateKey, claimsOf({ exp: now() - 60 })), settings);
    }
    await expectRefused(await keys.attacked({}), settings);
  });
});

describe('the claims of a token', () => {
  const without = (name: string) => () => claimsOf({ [name]: undefined });

  test.for<[string, () => JWTPayload]>([
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
    ['without exp', without('exp')],
    ['without iat', without('iat')],
    ['without sub', without('sub')],
    ['with a blank sub', () => claimsOf({ sub: ' ' })],
    ['whose sub no database takes', () => claimsOf({ sub: 'kari\0' })],
    ['whose sub is a number', () => claimsOf({ sub: 17 as unknown as string })],
    ['without scope', without('scope')],
    ['whose nbf is in the future', () => claimsOf({ nbf: now() + 60 })],
    ['of another issuer', () => claimsOf({ iss: 'postbud.example' })],
    ['of no issuer', without('iss')],
    ['for another audience', () => claimsOf({ aud: 'postbud' })],
    ['for other audiences', () => claimsOf({ aud: ['postbud', 'others'] })],
    ['for no audience', without('aud')],
  ])('a token %s is refused', async ([, claims], { keys, expectRefused }) => {
    await expectRefused(await token(claims()), shared);
    await expectRefused(await keys.issued(claims()), keys.jwks);
  });

  test('a valid token of either kind of key gives its subject, name and scopes', async ({ keys }) => {
    const claims = { name: 'Kari Nordmann' };
    const operator = {
      subject: 'kari@solvik.example.no',
      name: 'Kari Nordmann',
      scopes: new Set(['event-bus:read', 'event-bus:replay']),
    };
    expect(await verifyToken(await token(claims), shared)).toMatchObject(operator);
    expect(await verifyToken(await keys.issued(claimsOf(claims)), keys.jwks)).toMatchObject(operator);
  });

  test.for([undefined, '', ' ', 17, { first: 'Kari' }])(
    'an operator whose name is %j goes by the subject',
    async (name) => {
      const { name: shown } = await verifyToken(await token({ name }), shared);
      expect(shown).toBe('kari@solvik.example.no');
    },
  );

  test.for([
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
  ])('the scope %j does not hold event-bus:read', async (scope) => {
    const { scopes } = await verifyToken(await token({ scope }), shared);
    expect(scopes.has('event-bus:read')).toBe(false);
  });
});

describe('the place of a token', () => {
  const ask = (headers: Record<string, string>) =>
    authenticate(new Request(ORIGIN, { headers }), shared, async () => {
      throw new Error('a token is read from no database');
    });

  test('a token is taken from Authorization, or else from the cookie', async () => {
    const both = { ...(await cookie({ sub: 'cookie' })), ...(await bearer({ sub: 'bearer' })) };
    expect(await ask(both)).toMatchObject({ subject: 'bearer', via: 'bearer' });
    const among = { cookie: `a=b; __Host-event-bus=${await token()}; c` };
    expect(await ask(among)).toMatchObject({ via: 'cookie' });
  });

  test.for(['', 'Bearer', 'Bearer ', 'Basic a2FyaTprYXJp', 'Bearer two words', 'Token abc'])(
    'the cookie does not stand in for the wrong authorization %j',
    async (authorization) => {
      await expect(ask({ ...(await cookie()), authorization })).rejects.toMatchObject({
        status: 401,
        code: 'unauthorized',
      });
    },
  );

  test('the cookie does not stand in for an invalid Bearer token', async () => {
    await expect(ask({ ...(await cookie()), authorization: 'Bearer abc' })).rejects.toMatchObject({
      status: 401,
      code: 'invalid_token',
    });
  });

  test.for(['event-bus=', '__host-event-bus=', '__Host-event-bus2=', 'x__Host-event-bus='])(
    'a cookie of another name is not looked at: %s',
    async (name) => {
      await expect(ask({ cookie: name + (await token()) })).rejects.toMatchObject({
        status: 401,
        code: 'unauthorized',
      });
    },
  );
});

describe('a key server that fails', () => {
  const unavailable = {
    status: 503,
    code: 'key_server_unavailable',
    headers: { 'retry-after': '30' },
  };

  test('a token is neither valid nor invalid while nothing listens at the key server', async ({ keys }) => {
    const settings = { ...keys.jwks, url: `http://127.0.0.1:${await freePort()}/` };
    await expect(verifyToken(await keys.issued(), settings)).rejects.toMatchObject(unavailable);
  });

  test.for([
    [500, 'oops'],
    [404, '{}'],
    [200, 'not JSON'],
    [200, '{"keys":"none"}'],
  ] as const)(
    'a key server that answers %i with %s is asked again for the next token',
    async (bad, { keys }) => {
      // Keys are kept by URL.
      const settings = { ...keys.jwks, url: `${keys.jwks.url}?${bad.join()}` };
      keys.answer(bad);
      await expect(verifyToken(await keys.issued(), settings)).rejects.toMatchObject(unavailable);
      keys.answer([200, keys.keySet]);
      expect(await verifyToken(await keys.issued(), settings)).toMatchObject({
        subject: 'kari@solvik.example.no',
      });
    },
  );
});
