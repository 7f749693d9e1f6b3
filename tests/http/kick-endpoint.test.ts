import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import { Webhook } from 'standardwebhooks';
import { describe, expect, onTestFinished, vi } from 'vitest';

import { createKick, KickFailed } from '../../lib/elsewhere/emit/emit.ts';
import type { RemoteKickOptions } from '../../lib/elsewhere/emit/emit.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { drainLive, emitPayments, numbers, payloadOf, rows } from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';
import { delayRetries } from '../support/scenes.ts';
import { endLimit } from '../support/waits.ts';

const secret = () => `whsec_${randomBytes(32).toString('base64')}`;
const [KEPT, RETIRED] = [secret(), secret()];

// What is written is kept from the beginning of each test on.
test.beforeEach(({ output }) => void output.text());
test.afterEach(() => {
  vi.unstubAllEnvs();
});

/** The function file, in a process whose environment holds these variables, and the work that it is kept awake for. */
async function deployed(variables: Record<string, string | undefined>) {
  const work: Promise<unknown>[] = [];
  for (const [name, value] of Object.entries({ KICK_SECRET: `${KEPT} ${RETIRED}`, ...variables }))
    vi.stubEnv(name, value);
  vi.resetModules();
  vi.doMock('@vercel/functions', async (original) => ({
    ...(await original<object>()),
    waitUntil: (promise: Promise<unknown>) => work.push(promise),
  }));
  onTestFinished(() => {
    vi.doUnmock('@vercel/functions');
  });
  const { default: endpoint } = await import('../../api/kick.ts');
  return { endpoint, work };
}

/** A kick as a producer signs it, in whatever language: with the reference implementation. */
function signed(by: string, { ago = 0, body = '', id = 'kick_1' } = {}): Request {
  const at = new Date(Date.now() - ago);
  return new Request('https://postbud.example/api/kick', {
    method: 'POST',
    headers: {
      'webhook-id': id,
      'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
      'webhook-signature': new Webhook(by).sign(id, at, body),
    },
    ...(body !== '' && { body }),
  });
}

/** The same as a component elsewhere signs it, which names itself. */
function signedOf(subscriber: unknown): Request {
  const request = signed(KEPT, { body: JSON.stringify({ subscriber }) });
  request.headers.set('content-type', 'application/json');
  return request;
}

const problemOf = async (response: Response) => [
  response.status,
  ((await response.json()) as { code: string }).code,
];

describe('POST /api/kick', () => {
  test.for([KEPT, RETIRED])(
    'a kick signed with one of the secrets is accepted, and the relay delivers what was emitted elsewhere',
    async (by, { bus, output }) => {
      const { endpoint, work } = await deployed({ DATABASE_URL: bus.url });
      // The bus of this process hears nothing of the commit: another pool emits.
      const { emit: emitElsewhere } = await import('../../lib/elsewhere/emit/emit.ts');
      await bus.db.transaction((tx) => emitElsewhere(tx, 'user.signed_in', payloadOf('user.signed_in')));
      const response = await endpoint.fetch(signed(by));
      expect([response.status, await response.json()]).toEqual([202, { accepted: true }]);
      await Promise.all(work);
      expect((await deliveriesOf(bus.db, 'audit')).map(({ state }) => state)).toEqual(['delivered']);
      expect(output.text()).not.toContain(by);
    },
  );

  test.for<[why: string, kick: () => Request]>([
    ['another secret', () => signed(secret())],
    ['a timestamp 301 seconds ago', () => signed(KEPT, { ago: 301_000 })],
    ['a timestamp 301 seconds ahead', () => signed(KEPT, { ago: -301_000 })],
    ['no signature', () => new Request('https://postbud.example/api/kick', { method: 'POST' })],
    [
      'a body that was not signed',
      () => {
        const request = signed(KEPT);
        request.headers.set('content-type', 'application/json');
        return new Request(request, { method: 'POST', body: '{}' });
      },
    ],
  ])('a kick with %s is a 401, and sets nothing going', async ([, kick], { bus }) => {
    const { endpoint, work } = await deployed({ DATABASE_URL: bus.url });
    expect(await problemOf(await endpoint.fetch(kick()))).toEqual([401, 'invalid_signature']);
    expect(work).toEqual([]);
  });

  test('a kick that names a component in an outage has it probed at once, and without an outage writes nothing', async ({
    bus,
    ledger,
  }) => {
    const { endpoint, work } = await deployed({ DATABASE_URL: bus.url });
    const kickOf = async () => {
      expect((await endpoint.fetch(signedOf('ledger'))).status).toBe(202);
      await Promise.all(work);
    };
    let isDown = true;
    const attached = ledger(
      () => {
        if (isDown) throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
      },
      { outage: 'wait' },
    );
    for (const number of numbers(1, 4))
      await emitPayments(bus.db, number, number, { orderingKey: `booking ${number}` });
    await drainLive(bus.db, [attached]);
    // It has answered nobody since their first attempts.
    await delayRetries(bus.db, '-1 hour');
    await drainLive(bus.db, [attached]);
    isDown = false;
    await drainLive(bus.db, [attached]);
    expect(await statesOf(bus.db)).not.toContain('delivered');
    expect(await rows(bus.db, 'select from outages')).toHaveLength(1);
    await kickOf();
    await kickOf();
    await drainLive(bus.db, [attached]);
    expect(new Set(await statesOf(bus.db))).toEqual(new Set(['delivered']));
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect(await rows(bus.db, 'select from outages')).toEqual([]);
    await kickOf();
  });

  test.for<[subscriber: unknown, message: string]>([
    ['ledgr', "unknown subscriber; did you mean 'ledger'?"],
    ['postcards', 'unknown subscriber; expected one of '],
    [7, 'expected a string, got 7'],
  ])('a kick that names %o is a 400 that says what is right', async ([subscriber, message], { bus }) => {
    const { endpoint, work } = await deployed({ DATABASE_URL: bus.url });
    const response = await endpoint.fetch(signedOf(subscriber));
    expect([response.status, await response.json()]).toEqual([
      400,
      expect.objectContaining({
        issues: [
          expect.objectContaining({
            path: 'subscriber',
            message: expect.stringContaining(message) as string,
          }),
        ],
      }),
    ]);
    expect(work).toEqual([]);
  });

  test.for<[variables: Record<string, string | undefined>, refusal: [number, string]]>([
    [{ KICK_SECRET: undefined }, [503, 'kick_not_configured']],
    [{ KICK_SECRET: '  ' }, [503, 'kick_not_configured']],
    [{ KICK_SECRET: `${KEPT} short` }, [503, 'misconfigured']],
    [{ RELAY: 'off' }, [409, 'relay_off']],
  ])('with %o a kick is refused', async ([variables, refusal], { bus, output }) => {
    const { endpoint, work } = await deployed({ DATABASE_URL: bus.url, ...variables });
    expect(await problemOf(await endpoint.fetch(signed(KEPT)))).toEqual(refusal);
    expect(work).toEqual([]);
    expect(output.text()).not.toContain(KEPT);
  });

  test('the 31st kick of ten seconds is a 429, of which forged ones used up nothing', async ({ bus }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2031-05-04T10:00:00Z') });
    onTestFinished(() => void vi.useRealTimers());
    const { endpoint, work } = await deployed({ DATABASE_URL: bus.url });
    for (let count = 0; count < 40; count += 1) await endpoint.fetch(signed(secret()));
    for (let count = 0; count < 30; count += 1) expect((await endpoint.fetch(signed(KEPT))).status).toBe(202);
    const refused = await endpoint.fetch(signed(KEPT));
    expect(refused.headers.get('retry-after')).toBe('10');
    expect(await problemOf(refused)).toEqual([429, 'rate_limited']);
    await Promise.all(work);
  });
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A bus that answers kicks like this, and how many it got. */
async function busThat(answer: Answer) {
  const got: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    got.push(request);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got };
}

const accepts: Answer = (_, response) => void response.writeHead(202).end('{"accepted":true}');

/** A kick, and what it reported. */
function kicking(options: Pick<RemoteKickOptions, 'url'> & Partial<RemoteKickOptions>) {
  const errors: Error[] = [];
  return { kick: createKick({ secret: KEPT, onError: (error) => errors.push(error), ...options }), errors };
}

describe('the kick of a producer in another repository', () => {
  test.for([undefined, 'ledger'] as const)(
    'it is taken by the endpoint, naming %s',
    async (subscriber, { bus }) => {
      const { endpoint, work } = await deployed({ DATABASE_URL: bus.url });
      const answers: number[] = [];
      const { url, got } = await busThat((request, response) => {
        const pass = async () => {
          const body = await text(request);
          const sent = new Request(`https://postbud.example${request.url}`, {
            method: 'POST',
            headers: request.headers as Record<string, string>,
            ...(body !== '' && { body }),
          });
          const { status } = await endpoint.fetch(sent);
          answers.push(status);
          response.writeHead(status).end();
        };
        void pass();
      });
      const { kick, errors } = kicking({ url, ...(subscriber && { subscriber }) });
      await kick();
      expect([answers, errors, got[0]!.url]).toEqual([[202], [], '/api/kick']);
      await Promise.all(work);
    },
  );

  test('calls while one is under way share the one that follows it', async () => {
    const held: ServerResponse[] = [];
    const { url, got } = await busThat((_, response) => void held.push(response));
    const kept: Promise<void>[] = [];
    const { kick } = kicking({ url, waitUntil: (work) => void kept.push(work) });
    const first = kick();
    await vi.waitFor(() => expect(got).toHaveLength(1));
    const others = [kick(), kick(), kick()];
    held[0]!.writeHead(202).end();
    await first;
    await vi.waitFor(() => expect(got).toHaveLength(2));
    held[1]!.writeHead(202).end();
    await Promise.all(others);
    expect(got).toHaveLength(2);
    expect(kept).toEqual([first, ...others]);
  });

  test('a bus that does not answer costs the producer nothing but two seconds in the background', async () => {
    const { url, got } = await busThat(() => undefined);
    const { kick, errors } = kicking({ url });
    endLimit(2 * SECOND, () => got.length > 0);
    await kick();
    expect(errors).toEqual([expect.objectContaining({ code: 'kick_failed', status: null })]);
    expect(errors[0]!.cause).toMatchObject({ name: 'TimeoutError' });
  });

  test('it never rejects: not without a bus, not for a refusal, not when its callbacks throw', async () => {
    const { url } = await busThat((_, response) => void response.writeHead(401).end());
    const fail = () => {
      throw new Error('a mistake of the producer');
    };
    await kicking({ url, onError: fail, waitUntil: fail }).kick();
    const refused = kicking({ url });
    await refused.kick();
    expect(refused.errors).toEqual([new KickFailed('the bus answered a kick with 401', 401)]);
    const alone = kicking({ url: 'http://127.0.0.1:1' });
    await alone.kick();
    expect(alone.errors).toHaveLength(1);
  });

  test('after a 429 it calls again when the bus takes kicks again, and not before', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    let isBusy = true;
    const { url, got } = await busThat((request, response) => {
      if (isBusy) response.writeHead(429, { 'retry-after': '10' }).end();
      else accepts(request, response);
    });
    const { kick } = kicking({ url });
    await kick();
    isBusy = false;
    vi.setSystemTime(Date.now() + 9999);
    await kick();
    expect(got).toHaveLength(1);
    vi.setSystemTime(Date.now() + 1);
    await kick();
    expect(got).toHaveLength(2);
  });

  test('a redirect is not followed', async () => {
    const elsewhere = await busThat(accepts);
    const { url } = await busThat(
      (_, response) => void response.writeHead(307, { location: elsewhere.url }).end(),
    );
    const { kick, errors } = kicking({ url });
    await kick();
    expect([elsewhere.got, errors.length]).toEqual([[], 1]);
  });

  test.for<[options: Partial<RemoteKickOptions>, message: string]>([
    [{ url: 'bus.example.no' }, "url: expected the bus's address, for example https://bus.example.no"],
    [{ url: 'ftp://bus.example.no' }, "url: expected the bus's address, for example https://bus.example.no"],
    [
      { secret: 'whsec_short' },
      "secret: expected whsec_ and base64, one of the secrets in the bus's KICK_SECRET",
    ],
    [{ subscriber: 'ledgr' as 'ledger' }, "Unknown subscriber 'ledgr'. Did you mean 'ledger'?"],
  ])('one made with %o is a TypeError that says what is right', ([options, message]) => {
    expect(() => createKick({ url: 'https://bus.example.no', secret: KEPT, ...options })).toThrow(
      new TypeError(message),
    );
  });
});
