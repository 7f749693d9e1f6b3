import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import WebSocket from 'ws';

import { functionsOf } from '../../dev/build/functions.ts';
import { outputConfig } from '../../dev/build/routes.ts';
import { readVercelJson } from '../../dev/build/vercel-json.ts';
import { createRouting } from '../../dev/platform/routing.ts';
import { startNeonProxy } from '../../dev/serve-output/neon-proxy.ts';

describe('the routes of a build', () => {
  const functions = ['api/chat', 'api/bus/index', 'api/bus/console', 'api/webhooks/[provider]'];
  const headers = [
    { source: '/bus/(.*).css', headers: [{ key: 'X-Content-Type-Options', value: 'nosniff' }] },
    { source: '/bus/(.*).js', headers: [{ key: 'X-Other', value: 'x' }] },
  ];
  const rewrites = [
    { source: '/webhooks/:provider', destination: '/api/webhooks/:provider' },
    { source: '/bus(/?)', destination: '/api/bus' },
    { source: '/bus/(.*)', destination: '/api/bus/console' },
  ];
  const { routes } = outputConfig(
    { framework: null, buildCommand: '', functions: {}, crons: [], headers, rewrites },
    functions.map((name) => ({ name, file: `${name}.ts`, settings: {} })),
  );
  const destinationOf = createRouting(routes, {
    files: new Set(['/bus/console.css']),
    functions: new Set(functions),
  });
  const shown = (path: string) => {
    const destination = destinationOf(path);
    if (destination.kind !== 'function') return destination.kind;
    return [destination.name, destination.query.toString()].filter(Boolean).join(' ');
  };

  test.each([
    ['/api/chat', 'api/chat'],
    ['/api/chat.ts', 'api/chat'],
    ['/api/bus', 'api/bus/index'],
    ['/bus', 'api/bus/index'],
    ['/bus/', 'api/bus/index'],
    ['/bus/replays/1', 'api/bus/console'],
    ['/bus/console.css', 'file'],
    ['/webhooks/card', 'api/webhooks/[provider] provider=card'],
    ['/api/webhooks/card', 'api/webhooks/[provider] provider=card'],
    ['/WEBHOOKS/card', 'api/webhooks/[provider] provider=card'],
    ['/webhooks/card/more', 'nothing'],
    ['/webhooks', 'nothing'],
    ['/api/none', 'nothing'],
    ['/api', 'nothing'],
    ['/', 'nothing'],
    ['/chat', 'nothing'],
  ])('the route of %s leads to %s', (path, expected) => {
    expect(shown(path)).toBe(expected);
  });

  test('a file has the headers of its path', () => {
    expect(destinationOf('/bus/console.css')).toEqual({
      kind: 'file',
      path: '/bus/console.css',
      headers: { 'X-Content-Type-Options': 'nosniff' },
    });
  });

  test('a route of an unknown kind is refused', () => {
    const redirect = { src: '^/old$', headers: { Location: '/new' }, status: 308 };
    const places = { files: new Set<string>(), functions: new Set<string>() };
    expect(() => createRouting([{ handle: 'filesystem' }, redirect], places)).toThrow('status');
  });
});

describe('a project', () => {
  let root: URL;
  beforeEach(() => {
    const folder = mkdtempSync(join(tmpdir(), 'postbud-project-'));
    root = pathToFileURL(`${folder}/`);
  });
  afterEach(() => rmSync(root, { recursive: true }));
  const write = (path: string, text = '') => {
    mkdirSync(new URL('.', new URL(path, root)), { recursive: true });
    writeFileSync(new URL(path, root), text);
  };
  const vercelJson = (more: object) =>
    write('vercel.json', JSON.stringify({ framework: null, buildCommand: '', ...more }));

  test('a project has the visible functions of its folder, each with its first matching settings', () => {
    for (const file of ['chat', '_chat', 'webhooks/[provider]', '.x/a', 'cron/relay'])
      write(`api/${file}.ts`);
    write('api/notes.md');
    vercelJson({
      functions: { 'api/cron/*.ts': { maxDuration: 90 }, 'api/**/*.ts': { maxDuration: 30 } },
    });
    expect(functionsOf(root, readVercelJson(root)).map(({ name, settings }) => ({ name, settings }))).toEqual(
      [
        { name: 'api/chat', settings: { maxDuration: 30 } },
        { name: 'api/cron/relay', settings: { maxDuration: 90 } },
        { name: 'api/webhooks/[provider]', settings: { maxDuration: 30 } },
      ],
    );
  });

  test('a project is not built when its vercel.json has unknown settings', () => {
    vercelJson({ redirects: [{ source: '/a', destination: '/b' }] });
    expect(() => readVercelJson(root)).toThrow(/vercel\.json:.*"redirects"/s);
    vercelJson({ headers: [{ source: '/a', headers: [], missing: [{ type: 'host', value: 'x' }] }] });
    expect(() => readVercelJson(root)).toThrow(/vercel\.json:.*"missing"/s);
    vercelJson({ rewrites: [{ source: '/a', destination: '/b', has: [{ type: 'host', value: 'x' }] }] });
    expect(() => readVercelJson(root)).toThrow(/vercel\.json:.*"has"/s);
  });
});

describe('the stand-in for Neon’s proxy', () => {
  const message = (text: string, tag = '') => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(4 + text.length);
    return Buffer.concat([Buffer.from(tag), length, Buffer.from(text)]);
  };
  const startup = message('\0\u0003\0\0user\0x\0\0');
  const password = message('secret\0', 'p');
  const query = message('select 1\0', 'Q');

  test.each([
    ['in one piece', [Buffer.concat([startup, password, query])]],
    ['message by message', [startup, password, query]],
    ['byte by byte', Array.from(Buffer.concat([startup, password, query]), (byte) => Buffer.from([byte]))],
    ['without a password', [startup, query]],
  ])('the proxy keeps an unasked password, and nothing else: %s', async (_, pieces) => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = await startNeonProxy(`postgres://127.0.0.1:${(server.address() as AddressInfo).port}/x`);
    const client = new WebSocket(`ws://${proxy.address}/v2`);
    const [[socket]] = await Promise.all([
      once(server, 'connection') as Promise<[Socket]>,
      once(client, 'open'),
    ]);
    try {
      for (const piece of pieces) client.send(piece);
      const wanted = Buffer.concat([startup, query]);
      let got = Buffer.alloc(0);
      while (got.length < wanted.length) got = Buffer.concat([got, ...(await once(socket, 'data'))]);
      expect(got).toEqual(wanted);
    } finally {
      client.terminate();
      await proxy.close();
      socket.destroy();
      server.close();
    }
  });
});
