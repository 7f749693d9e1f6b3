import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import { drainLive, emitPayments, openBus } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { ledger, refuse } from '../support/ledger.ts';
import { PATIENTLY } from '../support/patience.ts';
import { startOperatorServer } from '../support/operator-server.ts';
import { operatorToken } from '../support/operator-token.ts';
import type { OperatorServer } from '../support/operator-server.ts';

const BIN = fileURLToPath(new URL('../../cli/postbud.mjs', import.meta.url));

let bus: Bus;
let server: OperatorServer;
let folder: string;
beforeAll(async () => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  bus = await openBus(inject('postgresUrl'));
  server = await startOperatorServer(bus.db, [ledger()]);
  folder = mkdtempSync(join(tmpdir(), 'postbud-cli-'));
});
afterAll(async () => {
  await server.close();
  await bus.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => bus.reset());

/** `npx postbud`, in a process of its own and another folder. */
async function start(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  const { PATH = '', HOME = '' } = process.env;
  const own = { POSTBUD_URL: server.url, POSTBUD_TOKEN: await operatorToken(), DATA_DIR: folder };
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: folder,
    env: { PATH, HOME, ...own, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let err = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  const ended = new Promise<number | null>((resolve) => {
    child.on('close', resolve);
  });
  return { child, ended, err: () => err };
}

async function postbud(args: readonly string[], variables?: Readonly<Record<string, string>>) {
  const { child, ended, err } = await start(args, variables);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  return { code: await ended, out, err: err() };
}

async function died(count: number): Promise<void> {
  await emitPayments(bus.db, 1, count);
  await drainLive(bus.db, [ledger(refuse)]);
}

describe('npx postbud', () => {
  test('npx postbud writes its result to one stream and its remarks to the other', async () => {
    await died(1);
    const [shown, asJson, coloured, wrong] = await Promise.all([
      postbud(['topics']),
      postbud(['dead-letters', '--json']),
      postbud(['topics'], { FORCE_COLOR: '1' }),
      postbud(['replay', 'payment.captured', '--since', '24h']),
    ]);
    expect([shown.code, shown.err]).toEqual([0, '']);
    expect(shown.out).toMatch(/^payment\.captured +0 +0 +1\b/m);
    expect(shown.out).not.toContain('\u001B');
    expect(coloured.out).toContain('\u001B[31m');
    expect(JSON.parse(asJson.out)).toMatchObject({ total: 1 });
    expect([wrong.code, wrong.out]).toEqual([2, '']);
    expect(wrong.err).toContain('there is no terminal to ask');
  });

  test('npx postbud runs a source that has changed, and else what it made of the sources before', async () => {
    const bundle = () =>
      (
        JSON.parse(readFileSync(join(BIN, '../../node_modules/.cache/postbud/current.json'), 'utf8')) as {
          folder: string;
        }
      ).folder;
    await postbud(['--version']);
    const first = bundle();
    await postbud(['--version']);
    expect(bundle()).toBe(first);
    utimesSync(join(BIN, '../help.ts'), new Date(), new Date());
    expect(await postbud(['--version'])).toMatchObject({ code: 0, err: '' });
    expect(bundle()).not.toBe(first);
  });

  test('npx postbud is quiet when its reader closes the pipe', async () => {
    await died(60);
    const { child, ended, err } = await start(['dead-letters', '--json', '--limit', '60']);
    child.stdout.destroy();
    expect([await ended, err()]).toEqual([0, '']);
  });

  test('npx postbud reads an answer without loading what fetch needs, which takes a tenth of a second', async () => {
    const atExit = `process.on('exit', () => process.stderr.write(process.moduleLoadList.join()))`;
    const { code, err } = await postbud(['topics'], {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(atExit)}`,
    });
    expect(code).toBe(0);
    expect(err).toContain('NativeModule _http_client');
    expect(err).not.toContain('undici');
  });

  test('npx postbud works with a closed error stream', async () => {
    await died(1);
    const { child, ended } = await start(['replay', 'payment.captured', '--since', '24h', '--yes']);
    child.stderr.destroy();
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    expect([await ended, out]).toEqual([0, expect.stringContaining('Replayed 1 delivery')]);
  });

  test.skipIf(!existsSync('/dev/full'))('says where what was asked for can’t be written', () => {
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [BIN, '--help'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    closeSync(full);
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^Standard output can’t be written: .*\n$/)]);
  });

  test('npx postbud events --follow writes events as they come and as their state changes, and refuses an unknown subscriber', async () => {
    const unknown = await postbud(['events', '--follow', '--subscriber', 'ledgr']);
    expect([unknown.code, unknown.err]).toEqual([2, expect.stringMatching(/did you mean '?ledger/i)]);
    const { child, err } = await start(['events', '--follow', '--subscriber', 'ledger']);
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    await vi.waitFor(() => expect(err()).toContain('Press Ctrl-C to stop.'), PATIENTLY);
    await emitPayments(bus.db, 1, 1);
    await vi.waitFor(() => expect(out).toMatch(/^[\d:]+ {2}· pending .* payment\.captured .*\n$/), PATIENTLY);
    await drainLive(bus.db, [ledger()]);
    await vi.waitFor(() => expect(out).toMatch(/\n[\d:]+ {2}✓ delivered .*\n$/), PATIENTLY);
    child.kill('SIGINT');
  });

  test('npx postbud events --follow outlasts a server’s absence, until Ctrl-C', async () => {
    const { child, ended, err } = await start(['events', '--follow', '--state', 'dead_lettered', '--json']);
    const lines: Record<string, unknown>[] = [];
    createInterface(child.stdout).on('line', (line) =>
      lines.push(JSON.parse(line) as Record<string, unknown>),
    );
    await died(2);
    await vi.waitFor(() => expect(lines).toHaveLength(2), PATIENTLY);
    expect(lines[0]).toMatchObject({ topic: 'payment.captured', state: 'dead_lettered' });

    const port = Number(new URL(server.url).port);
    await server.close();
    await vi.waitFor(() => expect(err()).toContain('Retrying until it answers.'), PATIENTLY);
    server = await startOperatorServer(bus.db, [ledger()], port);
    await vi.waitFor(() => expect(err()).toContain('Reconnected.'), PATIENTLY);
    expect(err().match(/can’t be reached/g)).toHaveLength(1);
    expect(lines).toHaveLength(2);
    child.kill('SIGINT');
    await ended;
  });
});

test('npx postbud installs missing packages first, without a word on its result stream', () => {
  const project = join(folder, 'project');
  mkdirSync(join(project, 'bin'), { recursive: true });
  cpSync(BIN, join(project, 'cli', 'postbud.mjs'));
  cpSync(join(BIN, '../install.mjs'), join(project, 'cli', 'install.mjs'));
  writeFileSync(join(project, 'package-lock.json'), '{}');
  writeFileSync(join(project, 'bin', 'npm'), '#!/bin/sh\necho "npm $*"\nexit 7\n', { mode: 0o755 });
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(project, 'cli', 'postbud.mjs'), 'topics'],
    {
      cwd: folder,
      env: { PATH: `${join(project, 'bin')}${delimiter}${process.env['PATH'] ?? ''}` },
      encoding: 'utf8',
    },
  );
  expect([status, stdout]).toEqual([7, '']);
  expect(stderr).toContain('Installing packages (npm ci)');
  expect(stderr).toMatch(/^npm ci\b/m);
});
