import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';

import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import type { MessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { SECOND, sleep } from '../../lib/platform/time.ts';
import { payloadOf, rows } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { PATIENTLY } from '../support/patience.ts';
import { createDatabase } from '../support/postgres.ts';

const QUESTION = JSON.stringify({ system: 'Om lokalene.', messages: [{ role: 'user', content: 'Hei' }] });

let folder: string;
let api: MessagesApi;
let server: LocalServer;
let connection: Connection;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'postbud-platform-'));
  api = await startMessagesApi();
  const DATABASE_URL = await createDatabase(inject('postgresUrl'));
  connection = await connect(DATABASE_URL);
  server = await startLocalServer({
    PORT: '0',
    DEMO: 'off',
    DATA_DIR: folder,
    DATABASE_URL,
    ANTHROPIC_API_KEY: 'sk-ant-platform',
    ANTHROPIC_BASE_URL: api.url,
    CHAT_RATE_PER_MINUTE: '6',
    CORS_ORIGINS: 'https://*.preview.example.no',
  });
});
afterAll(async () => {
  await server?.stop();
  await connection?.close();
  await api?.close();
  rmSync(folder, { recursive: true, force: true });
});

const send = (method: string, path: string, headers: Record<string, string> = {}, body = '{}') =>
  fetch(`${server.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'POST' && { body }),
  });

test('every function of the build is one file and its settings, with SendGrid’s package where it may mail, the bus where a chat is counted and the client of directories where operators come', () => {
  const artefact = process.env['POSTBUD_ARTEFACT'] ?? '';
  const files = readdirSync(artefact, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(artefact.length + 1))
    .filter((file) => file.startsWith('functions/'));
  const functions = new Set(files.map((file) => file.replace(/\.func\/.*/, '.func')));
  expect(functions.size).toBeGreaterThanOrEqual(9);
  expect(files.filter((file) => !/\.func\/(api\/.*\.mjs|\.vc-config\.json)$/.test(file))).toEqual([]);
  const beside = files.filter((file) => file.endsWith('/_sendgrid.mjs'));
  expect(files.filter((file) => file.endsWith('/_database.mjs'))).toEqual([
    'functions/api/chat.func/api/_database.mjs',
  ]);
  const ofOperators = [...functions].filter((name) => name.startsWith('functions/api/platform/'));
  expect(files.filter((file) => file.endsWith('/_openid-client.mjs'))).toHaveLength(ofOperators.length);
  expect(files).toHaveLength(2 * functions.size + beside.length + 1 + ofOperators.length);
  // Those that mail, and those that relay to a subscriber that does.
  expect([...functions].filter((name) => !beside.some((file) => file.startsWith(name)))).toEqual([
    'functions/api/chat.func',
    'functions/api/health.func',
    'functions/api/openapi.func',
  ]);
});

test('the build tells the platform how each function runs, and when the cron is called', () => {
  const read = (path: string) =>
    JSON.parse(readFileSync(join(process.env['POSTBUD_ARTEFACT'] ?? '', path), 'utf8')) as unknown;
  for (const name of ['api/chat', 'api/cron/relay', 'api/kick', 'api/webhooks/[provider]']) {
    expect(read(`functions/${name}.func/.vc-config.json`)).toEqual({
      runtime: 'nodejs24.x',
      handler: `${name}.mjs`,
      launcherType: 'Nodejs',
      shouldAddHelpers: false,
      supportsResponseStreaming: true,
      regions: ['fra1'],
      // The relay goes on for 70 seconds, and ends what it has begun by then, whoever has called it.
      maxDuration: ['api/cron/relay', 'api/kick'].includes(name) ? 90 : 30,
      // A caller that hangs up ends only the call of the model. A mail, a webhook or an operator's action goes on.
      ...(name === 'api/chat' && { supportsCancellation: true }),
    });
  }
  expect(read('config.json')).toMatchObject({ crons: [{ path: '/api/cron/relay', schedule: '* * * * *' }] });
});

test.each([
  ['GET', '/api/health.ts', 200],
  ['POST', '/api/webhooks/cardpayments?provider=walletpayments', 401],
  ['GET', '/platform/event-bus/', 401],
  ['GET', '/platform/event-bus/dead-letters/1-1', 401],
  ['GET', '/platform/event-bus/events', 401],
  ['GET', '/platform/event-bus/incidents', 401],
  ['GET', '/platform/event-bus/console.css', 200],
  ['GET', '/elsewhere', 404],
  ['GET', '/webhooks/cardpayments/more', 404],
  ['GET', '/api/_postbud', 404],
  ['GET', '/../package.json', 404],
])('the request %s %s is answered %i', async (method, path, status) => {
  const response = await send(method, path);
  expect(response.status).toBe(status);
  // What is nowhere no function has been asked for.
  expect(response.headers.has('x-request-id')).toBe(![404].includes(status) && !path.endsWith('.css'));
  // What the platform answers in a function's place is its own.
  if (!response.headers.has('x-vercel-error'))
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  await response.body?.cancel();
});

test('a star in CORS_ORIGINS is checked with a list in the bundle', async () => {
  const allowed = async (origin: string) => {
    const response = await send('OPTIONS', '/api/chat', { origin });
    return [response.status, response.headers.get('access-control-allow-origin')];
  };
  expect(await allowed('https://pr-17.preview.example.no')).toEqual([
    204,
    'https://pr-17.preview.example.no',
  ]);
  expect(await allowed('https://preview.example.no')).toEqual([204, null]);
});

test('a stream begins before the model has ended, and a caller that hangs up ends the model’s call', async () => {
  api.behave('stall', 1);
  const leaving = new AbortController();
  const response = await fetch(`${server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: QUESTION,
    signal: leaving.signal,
  });
  const { value } = await response.body!.getReader().read();
  expect(new TextDecoder().decode(value)).toMatch(/^event: delta\n/);
  leaving.abort();
  expect(await api.requests.at(-1)?.ended).toBe('closed');
});

test('a caller that hangs up before the stream ends the model’s call', async () => {
  const asked = api.requests.length;
  api.behave('hang', 1);
  const leaving = new AbortController();
  const response = fetch(`${server.url}/api/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: QUESTION,
    signal: leaving.signal,
  });
  await expect.poll(() => api.requests).toHaveLength(asked + 1);
  leaving.abort();
  await expect(response).rejects.toThrow('aborted');
  // Long before the deadline of the call.
  expect(await Promise.race([api.requests.at(-1)?.ended, sleep(5 * SECOND)])).toBe('closed');
});

test('every request leaves one line in the log', async () => {
  for (const path of ['/api/health', '/webhooks/cardpayments', '/platform/event-bus/nowhere']) {
    const id = crypto.randomUUID();
    const response = await send(path.startsWith('/webhooks') ? 'POST' : 'GET', path, { 'x-request-id': id });
    await response.body?.cancel();
    const told = () => logged('request').filter(({ requestId }) => requestId === id);
    await expect.poll(told).toMatchObject([{ status: response.status }]);
  }
});

/** The lines of the functions' log with this message. */
function logged(message: string): readonly Readonly<Record<string, unknown>>[] {
  return server
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    .filter((line) => line['message'] === message);
}

test('a visitor does not escape a limit by naming another address', async () => {
  const statuses = new Set<number>();
  for (let turn = 0; turn < 13; turn += 1) {
    const forged = { 'x-forwarded-for': `192.0.2.${turn}`, 'x-real-ip': `192.0.2.${turn}` };
    const response = await send('POST', '/api/chat', forged);
    statuses.add(response.status);
    await response.body?.cancel();
  }
  expect([...statuses]).toContain(429);
});

test('a body larger than the platform takes does not reach a function', async () => {
  const status = await new Promise<number>((resolve, reject) => {
    const sending = request(`${server.url}/webhooks/cardpayments`, {
      method: 'POST',
      headers: { 'content-length': 5_000_000, 'content-type': 'application/json' },
    });
    sending.once('response', (response) => (response.resume(), resolve(response.statusCode ?? 0)));
    sending.once('error', reject);
    sending.flushHeaders();
  });
  expect(status).toBe(413);
});

describe('the cron', () => {
  test('the cron delivers an event that kicked no relay', async () => {
    const { id } = await connection.db.transaction(
      async (tx) => await emit(tx, 'support.case.opened', payloadOf('support.case.opened')),
    );
    await vi.waitFor(async () => {
      const states = await rows(
        connection.db,
        `select distinct state::text from ${RECORDS} where event_id = '${id}'`,
      );
      expect(states).toEqual([{ state: 'delivered' }]);
    }, PATIENTLY);
    const { subscribers } = catalog['support.case.opened'];
    await vi.waitFor(() => {
      const told = logged('delivery').filter(({ eventId }) => eventId === id);
      expect(told.map(({ subscriber }) => subscriber).toSorted()).toEqual([...subscribers].toSorted());
      expect(logged('relay').some(({ delivered }) => Number(delivered) >= subscribers.length)).toBe(true);
    }, PATIENTLY);
  });
});
