import { spawnSync } from 'node:child_process';
import { createServer, request } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

import { decodeJwt } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import { connect as connectDatabase } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { expectDemo } from '../support/demo.ts';
import { runProgram, startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { createDatabase, freePort } from '../support/postgres.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

let folder: string;
let dataDir: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'postbud-local-'));
  dataDir = join(folder, 'data');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Journey {
  readonly eventId: string;
  readonly topic: string;
  readonly subscriber: string | null;
  readonly state: string;
}
const journeys = async ({ url }: LocalServer) =>
  (await (await fetch(`${url}/dev/journeys?since=0`)).json()) as Journey[];

const published = () =>
  JSON.parse(readFileSync(join(dataDir, 'development.json'), 'utf8')) as {
    url: string;
    variables: Record<string, string>;
  };

/** What of a folder others than its owner may read or write. */
const openToOthers = (path: string) =>
  ['', ...readdirSync(path, { recursive: true, encoding: 'utf8' })].filter(
    (name) => (statSync(join(path, name)).mode & 0o077) !== 0,
  );

/** Sends a request whose `Host` is not what its address says, as a browser does that a page has led astray. */
async function askAs(url: string, headers: Record<string, string>, path = '/', method = 'GET') {
  const { port, hostname } = new URL(url);
  const answer = await new Promise<IncomingMessage>((resolve, reject) =>
    request({ port, host: hostname.replace(/^\[|\]$/g, ''), path, method, headers, agent: false }, resolve)
      .on('error', reject)
      .end(method === 'POST' ? '{}' : undefined),
  );
  return { status: answer.statusCode, headers: answer.headers, text: await text(answer) };
}

describe('the local server', () => {
  let server: LocalServer;
  let port: string;
  /** What the accounting system elsewhere, which takes everything, was handed. */
  let accounted: string[];
  let accounting: Server;
  /** Of the first start. */
  let first: { variables: Record<string, string>; journeys: Journey[] };

  beforeAll(async () => {
    accounted = [];
    accounting = createServer((request, response) => {
      accounted.push(String(request.headers['webhook-id']));
      request.resume();
      response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => accounting.listen(0, '127.0.0.1', resolve));
    port = String(await freePort());
    server = await startLocalServer({
      PORT: port,
      DATA_DIR: dataDir,
      SUBSCRIBER_ACCOUNTING_URL: `http://127.0.0.1:${(accounting.address() as AddressInfo).port}/`,
      SUBSCRIBER_ACCOUNTING_SECRET: `whsec_${Buffer.alloc(32, 3).toString('base64')}`,
    });
  });
  afterAll(async () => {
    await server.stop('SIGKILL');
    accounting.closeAllConnections();
    await new Promise((resolve) => accounting.close(resolve));
  });

  const send = (path: string, method = 'POST', headers: Record<string, string> = {}) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(method === 'POST' && { body: '{}' }),
    });

  test('the server listens on PORT and keeps its made-up secrets for this user only', () => {
    expect(server.url).toBe(`http://localhost:${port}`);
    expect(published().url).toBe(server.url);
    expect(Object.keys(published().variables)).toEqual(
      expect.arrayContaining(['CRON_SECRET', 'OPERATOR_JWT_SECRET', 'WEBHOOK_CARDPAYMENTS_SECRET']),
    );
    expect(Object.keys(published().variables)).not.toContain('SUBSCRIBER_ACCOUNTING_SECRET');
    expect(statSync(join(dataDir, 'development.json')).mode & 0o077).toBe(0);
  });

  test('the server sends the demo’s traffic at its start and shows the way of each event', async () => {
    await expect.poll(() => server.output()).toMatch(/\d+ events, \d+ deliveries/);
    expectDemo(server.output());
    expect(server.output()).toContain('DEMO=off');
    expect(server.output()).toMatch(/17 events, 39 deliveries: 39 delivered/);
    const captured = (await journeys(server)).filter(
      ({ topic, subscriber }) => topic === 'payment.captured' && subscriber === 'accounting',
    );
    expect(accounted).toEqual(expect.arrayContaining(captured.map(({ eventId }) => eventId)));
  });

  test('the embedded database is readable by this user only', () => {
    expect(statSync(join(dataDir, 'PG_VERSION')).isFile()).toBe(true);
    expect(openToOthers(dataDir)).toEqual([]);
  });

  test.each(['/elsewhere', '/webhooks', '/webhooks/cardpayments/more', '/../package.json'])(
    'the unknown path %s is answered 404 with a problem',
    async (path) => {
      const response = await send(path, 'GET');
      expect(response.status).toBe(404);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      const problem = (await response.json()) as Record<string, unknown>;
      expect(problem).toMatchObject({ status: 404, code: 'not_found' });
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      expect(problem['requestId']).toBe(response.headers.get('x-request-id'));
      expect(response.headers.get('allow')).toBeNull();
    },
  );

  test.each(['css', 'js'])('the console’s %s is served with nosniff', async (ending) => {
    const response = await send(`/platform/event-bus/console.${ending}`, 'GET');
    expect([response.status, response.headers.get('x-content-type-options')]).toEqual([200, 'nosniff']);
  });

  test('a wrong payment intent is answered 400', async () => {
    expect((await send('/dev/payment-intents')).status).toBe(400);
  });

  test.each(['abc', '1.5', '99999999999999999999', ''])(
    'journeys since %j are answered 400',
    async (since) => {
      const response = await fetch(`${server.url}/dev/journeys?since=${since}`);
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('/dev/newest')]);
    },
  );

  test('the method TRACE is answered 405', async () => {
    const { port } = new URL(server.url);
    for (const path of ['/api/health', '/webhooks/cardpayments']) {
      const { statusCode } = await new Promise<IncomingMessage>((resolve, reject) =>
        request({ port, path, method: 'TRACE', agent: false }, (response) => resolve(response.resume()))
          .on('error', reject)
          .end(),
      );
      expect([path, statusCode]).toEqual([path, 405]);
    }
  });

  describe('answers only by the names of this machine', () => {
    /** The main server, the example page and the mails. */
    const all = () => [server.url, ...[1, 2].map((more) => `http://localhost:${Number(port) + more}`)];

    test.each([
      'localhost',
      'localhost:3000',
      'LOCALHOST:80',
      'localhost.',
      'localhost.:3000',
      '127.0.0.1',
      '127.0.0.1:9',
      '[::1]',
      '[::1]:3000',
    ])('the name %s of this machine is answered', async (host) => {
      const answers = await Promise.all([
        askAs(all()[0]!, { host }, '/api/health'),
        ...all()
          .slice(1)
          .map((url) => askAs(url, { host })),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    });

    test.each([
      'evil.example',
      `evil.example:3000`,
      'localhost.evil.example',
      'evil-localhost',
      '127.0.0.1.evil.example',
      '127.0.0.10',
      '0.0.0.0',
      '[::]',
      '[::1].evil.example',
      'evil.example@localhost',
      'localhost@evil.example',
      'localhost evil.example',
      'localhost,evil.example',
      'localhost:99999',
    ])('the foreign name %j is refused on any path and port', async (host) => {
      const paths = ['/api/health', '/platform/event-bus', '/dev/mails', '/dev/newest', '/', '/elsewhere'];
      const answers = await Promise.all(
        all().flatMap((url) => paths.map(async (path) => await askAs(url, { host }, path))),
      );
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([421]));
      for (const { text: answer } of answers) {
        expect(answer).toContain('localhost, 127.0.0.1 or [::1]');
        expect(answer).not.toContain('solvik');
      }
    });

    test('a request with no host or with two is refused', async () => {
      const raw = async (url: string, lines: string[]) => {
        const socket = connect(Number(new URL(url).port), 'localhost');
        socket.end(`${lines.join('\r\n')}\r\n\r\n`);
        return (await text(socket)).split('\r\n')[0];
      };
      for (const url of all()) {
        expect(await raw(url, ['GET /dev/mails HTTP/1.0'])).toContain(' 421 ');
        const named = async (...hosts: string[]) =>
          await raw(url, [
            'GET /dev/mails HTTP/1.1',
            'Connection: close',
            ...hosts.map((host) => `Host: ${host}`),
          ]);
        expect(await named()).toContain(' 400 ');
        expect(await named('')).toContain(' 421 ');
        expect(await named('localhost', 'evil.example')).toContain(' 421 ');
        expect(await named('evil.example', 'localhost')).toContain(' 421 ');
      }
    });

    test('the servers survive odd paths and bodies that end early', async () => {
      for (const url of all()) {
        for (const path of ['//', '///:', '/%', '/?//', 'http://['])
          await askAs(url, { host: 'localhost' }, path);
        const socket = connect(Number(new URL(url).port), 'localhost');
        const head = ['POST /v3/mail/send HTTP/1.1', 'Host: localhost', 'Content-Length: 9'];
        await new Promise((resolve) => socket.end(`${head.join('\r\n')}\r\n\r\nx`, () => resolve(null)));
        socket.destroy();
      }
      for (const url of all()) expect((await askAs(url, { host: 'localhost' }, '/')).status).toBeDefined();
    });

    test('every answer of the servers has nosniff', async () => {
      const paths = [
        '/',
        '/dev/newest',
        '/dev/mails',
        '/dev/journeys?since=0',
        '/dev/journeys',
        '/elsewhere',
      ];
      for (const url of all()) {
        for (const host of ['localhost', 'evil.example']) {
          for (const path of paths) {
            const { headers } = await askAs(url, { host }, path);
            expect([url, path, headers['x-content-type-options']]).toEqual([url, path, 'nosniff']);
          }
        }
      }
    });

    test('the servers listen on no address that others reach', async () => {
      const others = Object.values(networkInterfaces()).flatMap((addresses) =>
        (addresses ?? []).filter(({ internal, scopeid }) => !internal && !scopeid),
      );
      for (const { address } of others) {
        const url = `http://${address.includes(':') ? `[${address}]` : address}`;
        for (const own of all())
          await expect(fetch(`${url}:${new URL(own).port}/`), `${url} ${own}`).rejects.toThrow(
            'fetch failed',
          );
      }
    });
  });

  test.each([
    [undefined, 400],
    ['http://localhost:3001', 400],
    ['http://127.0.0.1', 400],
    ['http://[::1]:3001', 400],
    ['https://evil.example', 403],
    ['http://localhost.evil.example', 403],
    ['null', 403],
    ['', 403],
  ])('a POST to /dev from a page of %j is answered %i', async (origin, status) => {
    for (const path of ['/dev/payment-intents', '/dev/../dev/payment-intents']) {
      const answer = await askAs(
        server.url,
        { host: 'localhost', 'content-type': 'application/json', ...(origin !== undefined && { origin }) },
        path,
        'POST',
      );
      expect(answer.status).toBe(status);
      if (status === 403) expect(JSON.parse(answer.text)).toMatchObject({ code: 'origin_not_allowed' });
    }
  });

  test('a DATA_DIR that is not a folder is reported', async () => {
    const { code, output } = await runProgram('dev/start.ts', {
      PORT: String(await freePort()),
      DATA_DIR: import.meta.filename,
    });
    expect(code).toBe(1);
    expect(output).toContain('DATA_DIR must be a folder that you can write to');
    expect(output).not.toMatch(/\n\s+at /);
  });

  test('a port in use is reported', async () => {
    const { code, output } = await runProgram('dev/start.ts', {
      PORT: port,
      DATA_DIR: join(folder, 'second'),
      DATABASE_URL: await createDatabase(inject('postgresUrl')),
    });
    expect(code).toBe(1);
    expect(output).toContain(`port ${port} is in use. Set PORT to another one.`);
    expect(output).not.toMatch(/\n\s+at /);
  });

  describe('started again in the same folder', () => {
    beforeAll(async () => {
      first = {
        variables: published().variables,
        journeys: await journeys(server),
      };
      expect((await server.stop()).code).toBe(0);
      for (const path of ['', 'base', 'base/1', 'base/1/1259']) chmodSync(join(dataDir, path), 0o777);
      server = await startLocalServer({ PORT: port, DATA_DIR: dataDir, DEMO: 'off' });
    });

    test('a restarted server keeps events and secrets, and sends no traffic with DEMO=off', async () => {
      const now = new Set((await journeys(server)).map(({ eventId }) => eventId));
      const before = new Set(first.journeys.map(({ eventId }) => eventId));
      expect(before.size).toBeGreaterThanOrEqual(8);
      expect([...before].filter((id) => !now.has(id))).toEqual([]);
      expect([...now].filter((id) => !before.has(id))).toEqual([]);
      expect(published().variables).toMatchObject(first.variables);
      expect(server.output()).not.toContain('duplicate');
    });

    test('a restarted server makes its files private again', () => expect(openToOthers(dataDir)).toEqual([]));

    test('the demo shows every step, the failing delivery and the one that waits behind it', async () => {
      const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: dataDir });
      expect(code).toBe(0);
      expectDemo(output);
      expect(output).toMatch(
        /└ payment\.captured +accounting +1 +! failing +the subscriber answered 500: down for maintenance; next retry in \d+ s/,
      );
      expect(output).toMatch(/└ payment\.captured +accounting +0 +· pending +behind an earlier event/);
      expect(output).toMatch(
        /17 events, 39 deliveries: 36 delivered .* 1 failing, 1 pending, 1 dead-lettered/,
      );
    });

    test('a token of npm run token is accepted', async () => {
      const { code, output } = await runProgram('dev/token.ts', { DATA_DIR: dataDir }, ['--sub', 'kari']);
      expect(code).toBe(0);
      const response = await fetch(`${server.url}/platform/event-bus/replay`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${/eyJ\S+/.exec(output)?.[0]}`,
        },
        body: JSON.stringify({ topic: 'payment.captured', since: '1h' }),
      });
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ topic: 'payment.captured', matched: 1, replayed: 1 });
    });

    test('the server ends by Ctrl-C, and then the demo says what to run', async () => {
      expect((await server.stop('SIGINT')).code).toBe(0);
      const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: dataDir });
      expect(code).toBe(1);
      expect(output.trim()).toBe('No local server is running. Start one in another terminal: npm start');
    });
  });
});

describe('the local server with webhook secrets of the user’s own', () => {
  const whsec = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;
  const own = {
    // Several, for a rotation; the scheme is then the one of the documents.
    WEBHOOK_CARDPAYMENTS_SECRET: `not-usable ${whsec(4)} ${whsec(5)}`,
    WEBHOOK_WALLETPAYMENTS_SECRET: 'a secret as text'.replaceAll(' ', '-'),
    WEBHOOK_WALLETPAYMENTS_SCHEME: 'github-style',
    // The secret is made up, for this scheme.
    WEBHOOK_IDENTITYPROVIDER_SCHEME: 'criipto',
  };

  test(
    'npm start and npm run demo send webhooks that each endpoint accepts',
    { timeout: 120_000 },
    async () => {
      const DATA_DIR = join(folder, 'own');
      const server = await startLocalServer({ PORT: String(await freePort()), DATA_DIR, ...own });
      try {
        await expect.poll(() => server.output(), { timeout: 60_000 }).toMatch(/\d+ events, \d+ deliveries/);
        expectDemo(server.output());
        // In another terminal, which has none of the variables.
        const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR });
        expectDemo(output);
        expect(code).toBe(0);
        const written = server.output() + readFileSync(join(DATA_DIR, 'development.json'), 'utf8');
        for (const secret of [whsec(4), whsec(5), own.WEBHOOK_WALLETPAYMENTS_SECRET])
          expect(written).not.toContain(secret);
      } finally {
        await server.stop();
      }
    },
  );
});

test('with STAND_INS=off nobody takes the place of a component elsewhere', { timeout: 60_000 }, async () => {
  const server = await startLocalServer({
    // Any port: accounting is reached at the one that the server got.
    PORT: '0',
    DATA_DIR: join(folder, 'alone'),
    STAND_INS: 'off',
  });
  try {
    // Nothing waits for what nobody takes.
    await expect.poll(() => server.output(), { timeout: 25_000 }).toMatch(/\d+ events, \d+ deliveries/);
    expect(server.output()).toContain('deliveries to unattached subscribers wait');
    // After 06:00 UTC there is the day's clock, too.
    const ofDemo = (await journeys(server)).filter(({ topic }) => topic !== 'cron.daily.06_00');
    const found = new Set(ofDemo.map((row) => `${row.subscriber} ${row.state}`));
    expect([...found].toSorted()).toEqual([
      'accounting dead_lettered',
      'accounting delivered',
      'accounting failing',
      'accounting pending',
      'audit delivered',
      'bookings pending',
      'identity delivered',
      'intelligence pending',
      'ledger pending',
      'notifications delivered',
      'payments delivered',
    ]);
  } finally {
    await server.stop();
  }
});

describe('the local server with a database of its own', () => {
  let server: LocalServer;
  let connection: Connection;
  beforeAll(async () => {
    const DATABASE_URL = await createDatabase(inject('postgresUrl'));
    connection = await connectDatabase(DATABASE_URL);
    server = await startLocalServer({
      PORT: String(await freePort()),
      DATA_DIR: join(folder, 'beside'),
      DATABASE_URL,
      NODE_ENV: 'production',
    });
  });
  afterAll(async () => {
    await server?.stop();
    await connection?.close();
  });

  test('a server beside a real database attaches no stand-ins and mails nobody', async () => {
    const { db } = connection;
    await emitAlone(db, 'payment.captured', payloadOf('payment.captured'));
    await emitAlone(db, 'user.signed_up', { ...payloadOf('user.signed_up'), email: 'kari@example.no' });
    const statement = `
      select topic, subscriber, state::text from ${RECORDS}
      where topic <> 'cron.daily.06_00' order by topic, subscriber`;
    await vi.waitFor(
      async () =>
        expect(await rows(db, statement)).toEqual([
          { topic: 'payment.captured', subscriber: 'accounting', state: 'pending' },
          { topic: 'payment.captured', subscriber: 'bookings', state: 'pending' },
          { topic: 'payment.captured', subscriber: 'ledger', state: 'pending' },
          { topic: 'payment.captured', subscriber: 'notifications', state: 'delivered' },
          { topic: 'user.signed_up', subscriber: 'audit', state: 'delivered' },
          { topic: 'user.signed_up', subscriber: 'intelligence', state: 'pending' },
          { topic: 'user.signed_up', subscriber: 'notifications', state: 'delivered' },
        ]),
      { timeout: 15_000 },
    );
    expect(await rows(db, 'select mailed_at from notifications where mailed_at is not null')).toEqual([]);
    expect(await rows(db, 'select from stand_in_events')).toEqual([]);
    const daily = `select subscriber from ${RECORDS}
      where topic = 'cron.daily.06_00' and state <> 'pending' and subscriber <> 'audit'`;
    expect(await rows(db, daily)).toEqual([]);
  });

  test('a server records what its subscribers do', async () => {
    const recorded = `
      select subscriber from subscriber_health
      where delivered_ms > 0 and subscriber in ('audit', 'notifications') order by subscriber`;
    await vi.waitFor(
      async () =>
        expect(await rows(connection.db, recorded)).toEqual([
          { subscriber: 'audit' },
          { subscriber: 'notifications' },
        ]),
      { timeout: 15_000 },
    );
  });

  test('a server beside a real database answers like a deployment without keys', async () => {
    const codeOf = async (path: string, body: object) => {
      const response = await fetch(`${server.url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      return [response.status, ((await response.json()) as { code: string }).code];
    };
    const question = { system: 'x', messages: [{ role: 'user', content: 'x' }] };
    expect(await codeOf('/api/chat', question)).toEqual([503, 'chat_not_configured']);
    expect(await codeOf('/webhooks/cardpayments', {})).toEqual([503, 'webhook_not_configured']);
    const inquiry = { name: 'x', email: 'x@example.no', organization: 'x', topic: 'x', persona: 'x' };
    const answer = await codeOf('/api/inquiry', { ...inquiry, source: 'book-demo' });
    expect(answer).toEqual([503, 'email_not_configured']);
  });

  test('a server beside a real database has no /dev/ routes', async () => {
    const intent = { id: 'pi_1', bookingId: 'b', provider: 'cardpayments', amountMinor: 1, currency: 'NOK' };
    const asked = [
      'newest',
      'journeys?since=0',
      'mails',
      'accounting',
      'bookings',
      'payment-intents',
    ].flatMap((path) => [
      fetch(`${server.url}/dev/${path}`),
      fetch(`${server.url}/dev/${path}`, { method: 'POST', body: JSON.stringify(intent) }),
    ]);
    for (const response of await Promise.all(asked)) {
      expect([response.url, response.status]).toEqual([response.url, 404]);
      expect(await response.json()).toMatchObject({ code: 'not_found' });
    }
    expect(await rows(connection.db, 'select from payment_intents')).toEqual([]);
  });

  test('a server beside a real database makes up only two secrets and sends no traffic', async () => {
    const output = server.output();
    expect(output).toContain('Postgres from DATABASE_URL: without stand-ins, demo and /dev/…');
    expect(output).toContain(
      'for audit, identity, inquiries, notifications, payments; deliveries to unattached subscribers wait',
    );
    expect(output).toContain('answers 503 until ANTHROPIC_API_KEY is set');
    expect(output).not.toContain('npm run demo');
    const { variables } = JSON.parse(
      readFileSync(join(folder, 'beside', 'development.json'), 'utf8'),
    ) as ReturnType<typeof published>;
    expect(Object.keys(variables).toSorted()).toEqual(['CRON_SECRET', 'OPERATOR_JWT_SECRET']);
    expect(output).toContain('  OPERATOR_JWT_SECRET\n');
    for (const secret of Object.values(variables)) expect(output).not.toContain(secret);
    const foreign = `select topic from events
      where topic not in ('payment.captured', 'user.signed_up', 'cron.daily.06_00')`;
    expect(await rows(connection.db, foreign)).toEqual([]);
  });

  test('a server beside a real database prints no token, and says how to get one', async () => {
    await expect.poll(() => server.output()).toContain('(npm run token mints a token)');
    expect(server.output()).toContain(`${server.url}/platform/event-bus\n`);
    expect(server.output()).not.toMatch(/code=|eyJ/);
  });

  test('npm run demo sends nothing to a real database, and says why', async () => {
    const before = await rows(connection.db, 'select count(*)::int from events');
    const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: join(folder, 'beside') });
    expect(code).toBe(1);
    expect(output.trim()).toBe(
      `The server at ${server.url} uses the database of DATABASE_URL, and the demo needs an embedded one. Start a server without DATABASE_URL: npm start`,
    );
    expect(await rows(connection.db, 'select count(*)::int from events')).toEqual(before);
  });
});

describe.concurrent('a program of dev/ that cannot do its work says what to do', () => {
  test('the demo says how to start a server where none ever ran', async () => {
    const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: join(folder, 'nowhere') });
    expect(code).toBe(1);
    expect(output).toContain('npm start');
  });

  test('a server with several wrong variables reports all of them', async () => {
    const { code, output } = await runProgram('dev/start.ts', {
      PORT: 'http',
      DATA_DIR: join(folder, 'wrong'),
      CHAT_MAX_TOKENS: 'many',
      SUBSCRIBER_LEGDER_URL: 'http://localhost:4000',
      SUBSCRIBER_LEGDER_SECRET: `whsec_${Buffer.alloc(32, 3).toString('base64')}`,
      SUBSCRIBER_AUDIT_URL: 'http://localhost:4000',
      PRODUCER_RESOURCE_SECRET: `whsec_${Buffer.alloc(32, 3).toString('base64')}`,
      WEBHOOK_OF_ANOTHER_PROGRAM: 'https://chat.example.no',
    });
    expect(code).toBe(1);
    expect(output).not.toContain('WEBHOOK_');
    expect(output).toContain('SUBSCRIBER_AUDIT_TOPICS must list the topics to send to SUBSCRIBER_AUDIT_URL');
    expect(output).toContain('PORT must be a whole number from 0 to 65535');
    expect(output).toContain('CHAT_MAX_TOKENS must be a whole number from 1 to 8192');
    expect(output).toContain(
      'SUBSCRIBER_LEGDER_URL is not a variable of Postbud (did you mean SUBSCRIBER_LEDGER_URL?)',
    );
    expect(output).toContain(
      'PRODUCER_RESOURCE_SECRET is not a variable of Postbud (did you mean PRODUCER_RESOURCES_SECRET?)',
    );
  });

  test('npm run token says what to set where there is no secret', async () => {
    const { code, output } = await runProgram('dev/token.ts', { DATA_DIR: join(folder, 'nowhere') });
    expect(code).toBe(1);
    expect(output).toContain('OPERATOR_JWT_SECRET is not set.\nSet it, or run npm start once');
  });

  test('npm run token refuses a life longer than servers accept', async () => {
    const variables = { DATA_DIR: join(folder, 'nowhere'), OPERATOR_JWT_SECRET: 'x'.repeat(32) };
    const mint = async (args: string[], more = {}) =>
      await runProgram('dev/token.ts', { ...variables, ...more }, args);
    const refused = await mint(['--expires', '48h']);
    expect([refused.code, refused.output]).toEqual([
      2,
      expect.stringContaining('--expires: 48h is longer than a server accepts, which is 24h.'),
    ]);
    const allowed = await mint(['--expires', '48h'], { OPERATOR_TOKEN_MAX_AGE: '2d' });
    const { iat = 0, exp = 0 } = decodeJwt(allowed.output.trim());
    expect([allowed.code, exp - iat]).toEqual([0, 2 * 86_400]);
    // Nobody asked for longer: it is cut.
    const cut = decodeJwt((await mint([], { OPERATOR_TOKEN_MAX_AGE: '1h' })).output.trim());
    expect(cut.exp! - cut.iat!).toBe(3600);
  });
});

describe('installing before a program starts', () => {
  let project: string;
  const lock = () => join(project, 'package-lock.json');
  const installed = () => join(project, 'node_modules', '.package-lock.json');

  beforeEach(() => {
    project = mkdtempSync(join(folder, 'project-'));
    for (const file of ['package.json', 'package-lock.json']) cpSync(join(root, file), join(project, file));
    mkdirSync(join(project, 'bin'));
    npm('mkdir -p node_modules && touch node_modules/.package-lock.json');
  });

  /** Puts an npm in the way that writes down what it is asked for and does as told. */
  const npm = (then: string) =>
    writeFileSync(join(project, 'bin', 'npm'), `#!/bin/sh\necho "npm $*"\n${then}\n`, { mode: 0o755 });

  function install(path = `${join(project, 'bin')}${delimiter}${process.env['PATH']}`) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'cli', 'install.mjs')], {
      cwd: project,
      env: { PATH: path },
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  }

  test('packages are installed once, with a message', () => {
    const first = install();
    expect([first.status, first.stdout]).toEqual([0, '']);
    expect(first.stderr).toContain('Installing packages (npm ci): node_modules is missing.');
    expect(first.stderr).toMatch(/^npm ci\b/m);
    expect(install()).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  test('packages are installed again when the lock file is newer', () => {
    install();
    const past = statSync(lock()).mtimeMs / 1000 - 60;
    utimesSync(installed(), past, past);
    const again = install();
    expect(again.stderr).toContain('package-lock.json is newer than node_modules');
    expect(again.stderr).toMatch(/^npm ci\b/m);
    expect(install().stderr).toBe('');
  });

  test('a broken-off install is done again', () => {
    mkdirSync(join(project, 'node_modules', 'zod'), { recursive: true });
    expect(install().stderr).toMatch(/^npm ci\b/m);
  });

  test('a failed install ends with npm’s exit code and a message', () => {
    npm('echo "no network" >&2; exit 7');
    const { status, stderr } = install();
    expect(status).toBe(7);
    expect(stderr).toContain('no network');
    expect(stderr).toContain('The packages could not be installed');
  });

  test('a missing npm is reported', () => {
    rmSync(join(project, 'bin', 'npm'));
    const { status, stderr } = install(join(project, 'bin'));
    expect(status).toBe(1);
    expect(stderr).toContain('The packages could not be installed');
  });
});
