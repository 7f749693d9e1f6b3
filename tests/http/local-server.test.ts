import { spawnSync } from 'node:child_process';
import { createServer, request } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { expectDemo } from '../support/demo.ts';
import { createDatabase, freePort } from '../support/postgres.ts';
import { runProgram, startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';

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

  test('listens on PORT and keeps the secrets that it made up for this user only', () => {
    expect(server.url).toBe(`http://localhost:${port}`);
    expect(published().url).toBe(server.url);
    expect(Object.keys(published().variables)).toEqual(
      expect.arrayContaining(['CRON_SECRET', 'OPERATOR_JWT_SECRET', 'WEBHOOK_CARDPAYMENTS_SECRET']),
    );
    expect(Object.keys(published().variables)).not.toContain('SUBSCRIBER_ACCOUNTING_SECRET');
    expect(statSync(join(dataDir, 'development.json')).mode & 0o077).toBe(0);
  });

  test('sends the demo’s traffic at its start and shows where each event has got to', async () => {
    await expect.poll(() => server.output()).toMatch(/\d+ events, \d+ deliveries/);
    expectDemo(server.output());
    expect(server.output()).toContain('DEMO=off');
    expect(server.output()).toMatch(/15 events, 35 deliveries: 35 delivered/);
    const captured = (await journeys(server)).filter(
      ({ topic, subscriber }) => topic === 'payment.captured' && subscriber === 'accounting',
    );
    expect(accounted).toEqual(expect.arrayContaining(captured.map(({ eventId }) => eventId)));
  });

  test.each(['cardpayments', 'walletpayments', 'identityprovider'])(
    'answers an unsigned webhook of %s with 401, on the route and on its file’s path',
    async (provider) => {
      for (const path of [`/webhooks/${provider}`, `/api/webhooks/${provider}`]) {
        const response = await send(path);
        expect([path, response.status]).toEqual([path, 401]);
        expect(response.headers.get('content-type')).toBe('application/problem+json');
        const { code, requestId } = (await response.json()) as { code: string; requestId: string };
        expect(code).toBe('invalid_signature');
        expect(requestId).toBe(response.headers.get('x-request-id'));
      }
    },
  );

  test.each([
    ['POST', '/webhooks/unknown', 404, 'unknown_provider'],
    ['GET', '/webhooks/cardpayments', 405, 'method_not_allowed', 'POST'],
    ['PUT', '/platform/event-bus/replay', 405, 'method_not_allowed', 'GET, HEAD, POST'],
    ['POST', '/platform/event-bus/replay', 401, 'unauthorized'],
    ['GET', '/api/cron/relay', 401, 'unauthorized'],
    ['GET', '/elsewhere', 404, 'not_found'],
    ['GET', '/webhooks', 404, 'not_found'],
    ['GET', '/webhooks/cardpayments/more', 404, 'not_found'],
    ['GET', '/../package.json', 404, 'not_found'],
  ])(
    'answers %s %s with %i %s as a problem',
    async (method, path, status, code, allow: string | null = null) => {
      const response = await send(path, method);
      expect(response.status).toBe(status);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      const problem = (await response.json()) as Record<string, unknown>;
      expect(problem).toMatchObject({ status, code });
      expect(problem['requestId']).toBe(response.headers.get('x-request-id'));
      expect(response.headers.get('allow')).toBe(allow);
    },
  );

  test('answers a wrong payment intent of the development routes with 400', async () => {
    expect((await send('/dev/payment-intents')).status).toBe(400);
  });

  test.each(['abc', '1.5', '99999999999999999999', ''])(
    'answers journeys since %j with 400',
    async (since) => {
      const response = await fetch(`${server.url}/dev/journeys?since=${since}`);
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('/dev/newest')]);
    },
  );

  test('answers a method with which no Request can be made with 405, also where the path has a parameter', async () => {
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

  test('says so when its folder is none', async () => {
    const { code, output } = await runProgram('dev/start.ts', {
      PORT: String(await freePort()),
      DATA_DIR: import.meta.filename,
    });
    expect(code).toBe(1);
    expect(output).toContain('DATA_DIR: write a folder that you may write to');
    expect(output).not.toMatch(/\n\s+at /);
  });

  test('says so when something listens on its port already', async () => {
    const { code, output } = await runProgram('dev/start.ts', {
      PORT: port,
      DATA_DIR: join(folder, 'second'),
      DATABASE_URL: await createDatabase(inject('postgresUrl')),
    });
    expect(code).toBe(1);
    expect(output).toContain(`something listens on port ${port} already. Set PORT to another one.`);
    expect(output).not.toMatch(/\n\s+at /);
  });

  describe('started again in the same folder', () => {
    beforeAll(async () => {
      first = {
        variables: published().variables,
        journeys: await journeys(server),
      };
      expect((await server.stop()).code).toBe(0);
      server = await startLocalServer({ PORT: port, DATA_DIR: dataDir, DEMO: 'off' });
    });

    test('has kept the events and the secrets, and sends no traffic with DEMO=off', async () => {
      const now = new Set((await journeys(server)).map(({ eventId }) => eventId));
      const before = new Set(first.journeys.map(({ eventId }) => eventId));
      expect(before.size).toBeGreaterThanOrEqual(8);
      expect([...before].filter((id) => !now.has(id))).toEqual([]);
      expect([...now].filter((id) => !before.has(id))).toEqual([]);
      expect(published().variables).toMatchObject(first.variables);
      expect(server.output()).not.toContain('duplicate');
    });

    test('takes the demo, which shows every step, the failing delivery and the one that waits behind it', async () => {
      const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: dataDir });
      expect(code).toBe(0);
      expectDemo(output);
      expect(output).toMatch(/└ payment\.captured +accounting +\S failing +1 .*next try in \d+ s/);
      expect(output).toMatch(/└ payment\.captured +accounting +\S pending +0 +behind an earlier event/);
      expect(output).toMatch(
        /15 events, 35 deliveries: 32 delivered .* 1 failing, 1 waiting in order, 1 dead-lettered/,
      );
    });

    test('lets in whoever has a token of npm run token', async () => {
      const { code, output } = await runProgram('dev/token.ts', { DATA_DIR: dataDir }, ['--sub', 'kari']);
      expect(code).toBe(0);
      const response = await fetch(`${server.url}/platform/event-bus/replay`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${output.trim()}` },
        body: JSON.stringify({ topic: 'payment.captured', since: '1h' }),
      });
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ topic: 'payment.captured', matched: 1, replayed: 1 });
    });

    test('ends by Ctrl-C, and then the demo says what to run', async () => {
      expect((await server.stop('SIGINT')).code).toBe(0);
      const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: dataDir });
      expect(code).toBe(1);
      expect(output.trim()).toBe('No local server is running here. In another terminal: npm start');
    });
  });
});

describe.concurrent('a program of dev/ that cannot do its work says what to do', () => {
  test('the demo where no server ever ran', async () => {
    const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR: join(folder, 'nowhere') });
    expect(code).toBe(1);
    expect(output).toContain('npm start');
  });

  test('the token where there is no secret', async () => {
    const { code, output } = await runProgram('dev/token.ts', { DATA_DIR: join(folder, 'nowhere') });
    expect(code).toBe(1);
    expect(output).toContain('OPERATOR_JWT_SECRET: set it, or run npm start once');
  });

  test.each([
    ['WEBHOOK_CARDPAYMENTS_SCHEME', 'foo', 'write one of standard, stripe, vipps, criipto, github-style'],
    ['PORT', 'http', 'write a port number, 0 to 65535'],
    [
      'SUBSCRIBER_LEDGER_URL',
      'http://localhost:4000',
      'write whsec_ and the base64 of 24 to 64 random bytes',
    ],
  ])('the server with %s=%s', async (variable, value, should) => {
    const { code, output } = await runProgram('dev/start.ts', {
      PORT: '0',
      DATA_DIR: join(folder, 'wrong'),
      DEMO: 'off',
      [variable]: value,
    });
    expect(code).toBe(1);
    expect(output).toContain(variable.replace('_LEDGER_URL', '_LEDGER_SECRET'));
    expect(output).toContain(should);
    expect(output).not.toMatch(/\n\s+at /);
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
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'dev', 'install.mjs')], {
      cwd: project,
      env: { PATH: path },
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  }

  test('installs what the lock file says where nothing is, and says so; after that it is silent', () => {
    const first = install();
    expect(first.status).toBe(0);
    expect(first.stdout).toContain('Installing packages (npm ci): there is no node_modules yet.');
    expect(first.stdout).toMatch(/^npm ci\b/m);
    expect(install()).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  test('installs again when the lock file is newer than what is there', () => {
    install();
    const past = statSync(lock()).mtimeMs / 1000 - 60;
    utimesSync(installed(), past, past);
    const again = install();
    expect(again.stdout).toContain('package-lock.json is newer than node_modules');
    expect(again.stdout).toMatch(/^npm ci\b/m);
    expect(install().stdout).toBe('');
  });

  test('takes an install that was broken off for none', () => {
    mkdirSync(join(project, 'node_modules', 'zod'), { recursive: true });
    expect(install().stdout).toMatch(/^npm ci\b/m);
  });

  test('fails as npm fails, and says so', () => {
    npm('echo "no network" >&2; exit 7');
    const { status, stderr } = install();
    expect(status).toBe(7);
    expect(stderr).toContain('no network');
    expect(stderr).toContain('The packages could not be installed');
  });

  test('fails where there is no npm', () => {
    rmSync(join(project, 'bin', 'npm'));
    const { status, stderr } = install(join(project, 'bin'));
    expect(status).toBe(1);
    expect(stderr).toContain('The packages could not be installed');
  });
});
