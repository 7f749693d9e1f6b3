import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { UnsecuredJWT, SignJWT, exportJWK, exportSPKI, generateKeyPair } from 'jose';
import type { JWTPayload } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import { provideRequestContext } from '../../dev/serve-output/request-context.ts';
import type { OperatorSettings } from '../../lib/config.ts';
import { emit } from '../../lib/outbox/emit.ts';
import { PermanentError } from '../../lib/subscribers/outcome.ts';
import { subscriber } from '../../lib/subscribers/subscriber.ts';
import { SECOND } from '../../lib/time.ts';
import { operatorFunction } from '../support/operator-function.ts';
import { operatorClaims } from '../support/operator-token.ts';
import { drainLive, openBus, payloadOf, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { freePort } from '../support/postgres.ts';

const SECRET = 'an operator secret of the tests, 32 bytes and more';
const expected = { issuer: 'postbud', audience: 'postbud-operators', maxAgeSeconds: 86_400 };
const shared: OperatorSettings = { ...expected, kind: 'secret', secret: Buffer.from(SECRET) };

let bus: Bus;
let kicks: number;
beforeAll(async () => {
  bus = await openBus(inject('postgresUrl'));
});
afterAll(() => bus.close());
beforeEach(async () => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await bus.reset();
  await rows(bus.db, 'truncate replays');
  kicks = 0;
});
afterEach(() => vi.restoreAllMocks());

interface TokenOptions {
  readonly claims?: JWTPayload;
  readonly without?: readonly ('exp' | 'iat' | 'sub' | 'iss' | 'aud' | 'scope')[];
  readonly secret?: string;
}

const now = () => Math.floor(Date.now() / SECOND);

/** What a good token says, but for what the test says otherwise. */
function claimsOf({ claims = {}, without = [] }: TokenOptions): JWTPayload {
  const all = operatorClaims({ scope: 'event-bus:read event-bus:replay', ...claims });
  return Object.fromEntries(Object.entries(all).filter(([name]) => !without.some((left) => left === name)));
}

const token = (options: TokenOptions = {}) =>
  new SignJWT(claimsOf(options))
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(Buffer.from(options.secret ?? SECRET));

/** The operators' function, with these keys. */
const replays = (settings: OperatorSettings) =>
  operatorFunction({ settings, db: () => bus.db, kick: () => (kicks += 1) });

const { fetch: shut } = replays({ ...expected, kind: 'none' });

const requestOf = (authorization: string | undefined, body: unknown = {}) =>
  new Request('https://postbud.example/platform/event-bus/replay', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(authorization !== undefined && { authorization }) },
    body: JSON.stringify(body),
  });

/** Asks for a replay. @param bearer the token; a good one when left out. */
async function ask(body: unknown, bearer?: string, settings = shared) {
  const response = await replays(settings).fetch(requestOf(`Bearer ${bearer ?? (await token())}`, body));
  const json = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, json };
}

/** Makes dead letters of `payment.captured` at the ledger. */
async function deadLetters(count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await emit(bus.db, 'payment.captured', payloadOf('payment.captured'));
  }
  const ledger = subscriber('ledger', {
    'payment.captured': () => {
      throw new PermanentError('refused');
    },
  });
  const report = await drainLive(bus.db, [ledger]);
  expect(report.deadLettered).toBe(count);
}

const good = { topic: 'payment.captured', since: '24h' };
const recorded = () => rows(bus.db, 'select requested_by, reason, matched, replayed from replays');

describe('a replay that an operator asks for', () => {
  test('is made, kicks a relay, and is kept with who asked and why', async () => {
    await deadLetters(3);
    const { status, json } = await ask({ ...good, reason: 'the ledger is mended' });
    expect(status).toBe(200);
    expect(json).toEqual({
      replayId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      topic: 'payment.captured',
      since: '24h',
      matched: 3,
      replayed: 3,
    });
    expect(kicks).toBe(1);
    expect(
      await rows(bus.db, 'select id::text, requested_by, reason, matched, replayed from replays'),
    ).toEqual([
      {
        id: json['replayId'],
        requested_by: 'kari@solvik.example.no',
        reason: 'the ledger is mended',
        matched: 3,
        replayed: 3,
      },
    ]);
  });

  test('of nothing is kept too, and kicks nobody', async () => {
    expect((await ask(good)).json).toMatchObject({ matched: 0, replayed: 0 });
    expect(await recorded()).toMatchObject([{ matched: 0, replayed: 0 }]);
    expect(kicks).toBe(0);
  });

  test('is refused with 409 when another number matches than the operator was shown', async () => {
    await deadLetters(2);
    const { status, json } = await ask({ ...good, expectedCount: 3 });
    expect([status, json['code']]).toEqual([409, 'count_changed']);
    expect(json['detail']).toContain('2 deliveries match, not 3');
    expect(await recorded()).toEqual([]);
    expect((await ask({ ...good, expectedCount: 2 })).json).toMatchObject({ replayed: 2 });
  });

  test('goes through the function file, with what the environment says', async () => {
    await deadLetters(1);
    vi.stubEnv('DATABASE_URL', bus.url);
    vi.stubEnv('OPERATOR_JWT_SECRET', SECRET);
    vi.stubEnv('OPERATOR_JWKS_URL', '');
    vi.resetModules();
    const { default: replay } = await import('../../api/platform/event-bus/replay.ts');
    const authorization = `Bearer ${await token()}`;
    const background = provideRequestContext();
    const response = await background.run(() => replay.fetch(requestOf(authorization, good)));
    expect(await response.json()).toMatchObject({ matched: 1, replayed: 1 });
    // The relay that it kicked would go on into the next test.
    await background.settled();
    expect(response.headers.get('x-request-id')).toBeTruthy();
    const put = await replay.fetch(
      new Request('https://postbud.example/platform/event-bus/replay', { method: 'PUT' }),
    );
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
    vi.unstubAllEnvs();
  });
});

describe('a wrong request is answered 400 and says what to write', () => {
  test.each(['24', '-1h', '1y', '9999999h', '', '0h', '1.5h', '24 h', 'h', 24])('since %j', async (since) => {
    const { status, json } = await ask({ ...good, since });
    expect([status, json['code']]).toEqual([400, 'validation_failed']);
    expect(json['issues']).toMatchObject([{ path: 'since', pointer: '/since' }]);
    expect(json['detail']).toMatch(/^since: expected a time span such as/);
    expect(await recorded()).toEqual([]);
  });

  test.each([
    ['topic', { since: '24h' }],
    ['topic', { ...good, topic: 'payment.capturd' }],
    ['topic', { ...good, topic: 'toString' }],
    ['until', { ...good, until: '1 day' }],
    ['include', { ...good, include: 'delivered' }],
    ['expectedCount', { ...good, expectedCount: -1 }],
    ['limit', { ...good, limit: 0 }],
    ['deliveryIds', { ...good, deliveryIds: [] }],
    ['deliveryIds.1', { ...good, deliveryIds: ['1-2', '17'] }],
    ['reason', { ...good, reason: 'x'.repeat(501) }],
    ['', { ...good, sicne: '1h' }],
    ['', []],
    ['', 'payment.captured'],
  ])('%s of %j', async (path, body) => {
    const { status, json } = await ask(body);
    expect([status, json['code']]).toEqual([400, 'validation_failed']);
    expect(json['issues']).toMatchObject([{ path, message: expect.any(String) }]);
    expect(json['requestId']).toBeTruthy();
  });

  test('names the field that it does not know', async () => {
    expect((await ask({ ...good, sicne: '1h' })).json['detail']).toContain('sicne');
  });
});

describe('an operator is not let in', () => {
  const refusedWith = async (authorization: string | undefined, settings: OperatorSettings = shared) => {
    const { fetch } = replays(settings);
    const response = await fetch(requestOf(authorization, good));
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await recorded()).toEqual([]);
    const { code } = (await response.json()) as { code: string };
    return { status: response.status, code, challenge: response.headers.get('www-authenticate') };
  };

  test.each([undefined, '', 'Bearer', 'Bearer ', 'Basic a2FyaTprYXJp', 'Bearer two words'])(
    'without a token: authorization %j',
    async (authorization) => {
      expect(await refusedWith(authorization)).toEqual({
        status: 401,
        code: 'unauthorized',
        challenge: 'Bearer',
      });
    },
  );

  test.each<[string, () => Promise<string> | string]>([
    ['that nobody signed (alg none)', () => new UnsecuredJWT(claimsOf({})).encode()],
    ['of another secret', () => token({ secret: `${SECRET}!` })],
    ['that has expired', () => token({ claims: { exp: now() - 60 } })],
    ['that is not valid yet', () => token({ claims: { nbf: now() + 60 } })],
    ['without exp', () => token({ without: ['exp'] })],
    ['without iat', () => token({ without: ['iat'] })],
    ['without sub', () => token({ without: ['sub'] })],
    ['whose sub no database takes', () => token({ claims: { sub: 'kari\0' } })],
    ['whose sub is a number', () => token({ claims: { sub: 17 as unknown as string } })],
    ['without scope', () => token({ without: ['scope'] })],
    ['without iss', () => token({ without: ['iss'] })],
    ['without aud', () => token({ without: ['aud'] })],
    ['of another issuer', () => token({ claims: { iss: 'postbud2' } })],
    ['for another audience', () => token({ claims: { aud: ['others', 'postbud'] } })],
    [
      'signed by another algorithm',
      () =>
        new SignJWT(claimsOf({})).setProtectedHeader({ alg: 'HS512' }).sign(Buffer.from(SECRET.repeat(2))),
    ],
    [
      'whose claims were changed',
      async () => {
        const [header, , signature] = (await token()).split('.');
        const claims = Buffer.from(JSON.stringify(claimsOf({ claims: { sub: 'root' } }))).toString(
          'base64url',
        );
        return `${header}.${claims}.${signature}`;
      },
    ],
    ['that is none', () => 'abc.def.ghi'],
    ['that is a word', () => 'undefined'],
  ])('with a token %s', async (_, made) => {
    expect(await refusedWith(`Bearer ${await made()}`)).toEqual({
      status: 401,
      code: 'invalid_token',
      challenge: 'Bearer error="invalid_token"',
    });
  });

  test.each([
    'event-bus:read',
    'event-bus:replay-all',
    'not-event-bus:replay',
    'event-bus:replay,event-bus:read',
    'EVENT-BUS:REPLAY',
    '',
  ])('with the scope %j', async (scope) => {
    expect(await refusedWith(`Bearer ${await token({ claims: { scope } })}`)).toEqual({
      status: 403,
      code: 'insufficient_scope',
      challenge: 'Bearer error="insufficient_scope", scope="event-bus:replay"',
    });
  });

  test.each(['', ' '])('with the subject %j, which nobody could be asked about', async (sub) => {
    expect(await refusedWith(`Bearer ${await token({ claims: { sub } })}`)).toMatchObject({ status: 401 });
  });

  test('where no key is configured, whatever the token', async () => {
    const response = await shut(requestOf(`Bearer ${await token()}`, good));
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('60');
    expect(await response.json()).toMatchObject({ code: 'operators_not_configured' });
  });
});

describe('with a key server', () => {
  let keyServer: Server;
  let url: string;
  let served: () => { status: number; body: string };
  let keys: Awaited<ReturnType<typeof generateKeyPair>>;
  let keySet: string;

  beforeAll(async () => {
    keys = await generateKeyPair('RS256', { extractable: true });
    keySet = JSON.stringify({ keys: [{ ...(await exportJWK(keys.publicKey)), kid: 'key-1', use: 'sig' }] });
    keyServer = createServer((_, response) => {
      const { status, body } = served();
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
    await new Promise<void>((resolve) => keyServer.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => {
    keyServer.closeAllConnections();
    return new Promise((resolve) => keyServer.close(resolve));
  });
  beforeEach(async () => {
    served = () => ({ status: 200, body: keySet });
    // Keys are kept by URL: each test has one of its own.
    url = `http://127.0.0.1:${(keyServer.address() as AddressInfo).port}/${Math.random()}`;
  });

  const jwks = (at = url): OperatorSettings => ({ ...expected, kind: 'jwks', url: at });
  const signed = (
    options: TokenOptions = {},
    header: { alg: string; kid?: string } = { alg: 'RS256', kid: 'key-1' },
  ) => new SignJWT(claimsOf(options)).setProtectedHeader(header).sign(keys.privateKey);

  test('a token that it has the key of is taken, and the replay is kept under its subject', async () => {
    expect(await ask(good, await signed(), jwks())).toMatchObject({ status: 200, json: { replayed: 0 } });
    expect(await recorded()).toMatchObject([{ requested_by: 'kari@solvik.example.no' }]);
  });

  test('one that is expired, for others or without the scope is not', async () => {
    const expired = await signed({ claims: { exp: now() - 60 } });
    expect(await ask(good, expired, jwks())).toMatchObject({ status: 401, json: { code: 'invalid_token' } });
    const elsewhere = await signed({ claims: { aud: 'others' } });
    expect(await ask(good, elsewhere, jwks())).toMatchObject({ status: 401 });
    const reader = await signed({ claims: { scope: 'event-bus:read' } });
    expect(await ask(good, reader, jwks())).toMatchObject({ status: 403 });
  });

  test('one signed with the public key as if it were a shared secret is not', async () => {
    const spki = await exportSPKI(keys.publicKey);
    for (const text of [spki, spki.trim(), keySet]) {
      for (const kid of ['key-1', undefined]) {
        const header = { alg: 'HS256', ...(kid && { kid }) };
        const forged = await new SignJWT(claimsOf({})).setProtectedHeader(header).sign(Buffer.from(text));
        expect(await ask(good, forged, jwks())).toMatchObject({
          status: 401,
          json: { code: 'invalid_token' },
        });
      }
    }
    const unsigned = new UnsecuredJWT(claimsOf({})).encode();
    expect(await ask(good, unsigned, jwks())).toMatchObject({ status: 401 });
    expect(await recorded()).toEqual([]);
  });

  test('one of a key that it does not have, or of another key under its name, is not', async () => {
    const unknown = await signed({}, { alg: 'RS256', kid: 'key-2' });
    expect(await ask(good, unknown, jwks())).toMatchObject({ status: 401 });
    const { privateKey } = await generateKeyPair('RS256');
    const other = await new SignJWT(claimsOf({}))
      .setProtectedHeader({ alg: 'RS256', kid: 'key-1' })
      .sign(privateKey);
    expect(await ask(good, other, jwks())).toMatchObject({ status: 401 });
  });

  test('that is down, broken or answers nonsense, nobody is let in and the answer is 503', async () => {
    const valid = await signed();
    const down = { status: 503, json: { code: 'key_server_unavailable' } };
    expect(await ask(good, valid, jwks(`http://127.0.0.1:${await freePort()}/`))).toMatchObject(down);
    for (const [index, answer] of [
      { status: 500, body: 'oops' },
      { status: 404, body: '{}' },
      { status: 200, body: 'not JSON' },
      { status: 200, body: '{"keys":"none"}' },
    ].entries()) {
      served = () => answer;
      const response = await ask(good, valid, jwks(`${url}-${index}`));
      expect([answer.body, response.status]).toEqual([answer.body, 503]);
      expect(response).toMatchObject(down);
      expect(response.headers.get('retry-after')).toBe('30');
    }
    expect(await recorded()).toEqual([]);
  });

  test('that was down is asked again with the next request', async () => {
    served = () => ({ status: 500, body: '' });
    expect((await ask(good, await signed(), jwks())).status).toBe(503);
    served = () => ({ status: 200, body: keySet });
    expect((await ask(good, await signed(), jwks())).status).toBe(200);
  });
});
