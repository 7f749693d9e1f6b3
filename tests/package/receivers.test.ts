import { execFile, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, onTestFinished } from 'vitest';

import { vectors } from '../../dev/build/package/vectors.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { drain, emitPayments, numbers, payment, START, emitAlone } from '../support/bus.ts';
import { statesOf } from '../support/records.ts';
import { freePort } from '../support/postgres.ts';
import { programPath } from '../support/programs.ts';
import { eventOf, requestOf, SECRET } from '../support/receive.ts';
import type { Difference } from '../support/receive.ts';

const run = promisify(execFile);
const examples = new URL('../../docs/receivers/', import.meta.url);

/** A receiver of docs/receivers, and what starts it in a folder. */
interface Language {
  readonly name: string;
  readonly file: string;
  readonly programs: readonly string[];
  readonly build?: readonly string[];
  /** A program that prints what the receiver says of each vector, as JSON. It is given the file of vectors. */
  readonly verdicts: { readonly file: string; readonly text: string; readonly command: readonly string[] };
  readonly command: (port: number) => readonly string[];
  /** Prints the effects, one a line, oldest first. */
  readonly effects: readonly string[];
}

const languages: readonly Language[] = [
  {
    name: 'Python',
    file: 'receiver.py',
    programs: ['python3'],
    verdicts: {
      file: 'verdicts.py',
      text: `import json, sys
from receiver import is_signed, keys_of
print(json.dumps([is_signed(keys_of(v["secrets"]), v["headers"], v["body"].encode(), v["now"])
                  for v in json.load(open(sys.argv[1]))["vectors"]]))`,
      command: ['python3', 'verdicts.py', 'vectors.json'],
    },
    command: () => ['python3', 'receiver.py'],
    effects: [
      'python3',
      '-c',
      'import sqlite3\nfor row in sqlite3.connect("ledger.db").execute("select * from entries"): print(*row)',
    ],
  },
  {
    name: 'Go',
    file: 'receiver.go',
    programs: ['go'],
    build: ['go', 'build', '-o', 'receiver', 'receiver.go'],
    verdicts: {
      file: 'verdicts.go',
      text: `package main
import ("encoding/json"; "fmt"; "net/http"; "os"; "time")
func init() {
	if len(os.Args) < 2 { return }
	var all struct { Vectors []struct { Secrets, Body string; Headers map[string]string; Now int64 } }
	text, _ := os.ReadFile(os.Args[1])
	if err := json.Unmarshal(text, &all); err != nil { panic(err) }
	said := []bool{}
	for _, v := range all.Vectors {
		keys, err := keysOf(v.Secrets)
		if err != nil { panic(err) }
		headers := http.Header{}
		for name, value := range v.Headers { headers.Set(name, value) }
		said = append(said, isSigned(keys, headers, []byte(v.Body), time.Unix(v.Now, 0)))
	}
	text, _ = json.Marshal(said)
	fmt.Println(string(text))
	os.Exit(0)
}`,
      command: ['go', 'run', 'receiver.go', 'verdicts.go', 'vectors.json'],
    },
    command: () => ['./receiver'],
    effects: ['sed', '-n', 's/^[^ ]* \\(.*[^ ].*\\)$/\\1/p', 'ledger.journal'],
  },
  {
    name: 'shell',
    file: 'receiver.sh',
    programs: ['bash', 'openssl', 'jq', 'flock', 'socat'],
    verdicts: {
      file: 'verdicts.sh',
      text: `. ./receiver.sh
said=()
while read -r vector; do
  of() { jq -r "$1" <<<"$vector"; }
  SUBSCRIBER_LEDGER_SECRET=$(of .secrets)
  jq -j .body <<<"$vector" >body
  if is_signed "$(of '.headers["webhook-id"]')" "$(of '.headers["webhook-timestamp"]')" \\
    "$(of '.headers["webhook-signature"]')" body "$(of .now)"; then said+=(true); else said+=(false); fi
done < <(jq -c '.vectors[]' "$1")
jq -sc . <<<"\${said[@]}"`,
      command: ['bash', 'verdicts.sh', 'vectors.json'],
    },
    command: (port) => ['socat', `TCP-LISTEN:${port},bind=127.0.0.1,reuseaddr,fork`, 'EXEC:./receiver.sh'],
    effects: ['sed', '-n', 's/^[^ ]* \\(.*[^ ].*\\)$/\\1/p', 'ledger.journal'],
  },
];

/** The receivers whose language this machine has; the others are named as skipped. */
const here = languages.filter(({ programs }) => programs.every((name) => programPath(name) !== undefined));
const absent = languages.filter((language) => !here.includes(language));

interface Running {
  readonly folder: string;
  readonly url: string;
  readonly kill: () => Promise<void>;
}

const test = busTest
  /** Makes a folder with the receiver. */
  .extend('install', () => async ({ file, build }: Language) => {
    const folder = mkdtempSync(join(tmpdir(), 'postbud-receiver-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    copyFileSync(new URL(file, examples), join(folder, file));
    if (build) await run(build[0]!, build.slice(1), { cwd: folder });
    return folder;
  })
  .extend('start', () => async (folder: string, language: Language, secrets = SECRET) => {
    const port = await freePort();
    const [program, ...args] = language.command(port);
    const env = { ...process.env, PORT: `${port}`, SUBSCRIBER_LEDGER_SECRET: secrets };
    // A group of its own: socat has a process for each request.
    const child = spawn(program!, args, { cwd: folder, env, stdio: 'ignore', detached: true });
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    const kill = async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      process.kill(-child.pid!, 'SIGKILL');
      await ended;
    };
    onTestFinished(kill);
    const url = `http://127.0.0.1:${port}/`;
    await expect
      .poll(
        async () =>
          await fetch(url).then(
            ({ status }) => status >= 400,
            () => false,
          ),
      )
      .toBe(true);
    return { folder, url, kill } satisfies Running;
  });

for (const { name, programs } of absent) {
  test.skip(`the receiver in ${name} needs ${programs.join(', ')}`);
}

const text = (output: { readonly stdout: string }) => output.stdout.trim();

async function effectsOf(folder: string, { effects: [program, ...args] }: Language): Promise<string[]> {
  const lines = text(await run(program!, args, { cwd: folder })).split('\n');
  return lines.filter(Boolean).map((line) => line.split(' ')[1]!);
}

describe.for(here)('the receiver of docs/receivers in $name', { timeout: 180_000 }, (language) => {
  const ask = async ({ url }: Running, content: unknown, difference?: Difference) => {
    const request = requestOf(content, difference);
    const { method, headers } = request;
    const response = await fetch(url, {
      method,
      headers,
      ...(method === 'POST' && { body: await request.text() }),
    });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
  const id = (number: number) => `019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a${number}`;

  test('takes the vectors of the package for what they are', async ({ install }) => {
    const folder = await install(language);
    const { verdicts } = language;
    writeFileSync(join(folder, 'vectors.json'), JSON.stringify({ vectors }));
    writeFileSync(join(folder, verdicts.file), verdicts.text);
    const said = JSON.parse(
      text(await run(verdicts.command[0]!, verdicts.command.slice(1), { cwd: folder })),
    ) as boolean[];
    const named = (isValid: (index: number) => boolean) =>
      vectors.map(({ name }, index) => `${name}: ${isValid(index)}`);
    expect(named((index) => said[index]!)).toEqual(named((index) => vectors[index]!.isValid));
  });

  test('refuses requests that the bus did not make, and keeps nothing of them', async ({
    install,
    start,
  }) => {
    const running = await start(await install(language), language);
    const event = eventOf({ id: id(10) });
    const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
    const refused: readonly (readonly [status: number, difference: Difference])[] = [
      [401, { secret: other }],
      [401, { at: new Date(Date.now() - 6 * MINUTE) }],
      [401, { at: new Date(Date.now() + 6 * MINUTE) }],
      [401, { sent: JSON.stringify({ ...event, type: 'payment.refunded' }) }],
      [401, { headers: { 'webhook-signature': '' } }],
      [415, { headers: { 'content-type': 'text/plain' } }],
    ];
    for (const [status, difference] of refused)
      expect((await ask(running, event, difference)).status).toBe(status);
    expect((await ask(running, event)).status).toBe(204);
    expect(await effectsOf(running.folder, language)).toHaveLength(1);
  });

  test('answers so that the bus does the right thing, and gives an event its effect once, also after a crash', async ({
    install,
    start,
  }) => {
    const folder = await install(language);
    const running = await start(folder, language);
    const of = (number: number, fields = {}) =>
      eventOf({ id: id(number), payload: { ...payment(number), ...fields } });
    const twins = await Promise.all(numbers(1, 4).map(async () => await ask(running, of(10))));
    expect(twins.map(({ status }) => status)).toEqual([204, 204, 204, 204]);
    expect((await ask(running, of(11, { currency: 'EUR' }))).status).toBe(410);
    expect(await ask(running, { ...of(11), schemaversion: 2 })).toMatchObject({
      status: 503,
      body: expect.stringMatching(/"code": ?"newer_version"/),
    });
    expect((await ask(running, eventOf({ id: id(12), topic: 'payment.refunded' }))).status).toBe(501);
    expect((await ask(running, { ...of(13), type: 'system.smoke_test.started' })).status).toBe(204);
    expect(await ask(running, [of(10), of(14), of(15, { currency: 'EUR' }), of(16)])).toMatchObject({
      status: 200,
      body: expect.stringMatching(/^\{ ?"delivered": ?2 ?\}\s*$/),
    });
    await running.kill();
    const again = await start(folder, language);
    expect((await ask(again, [of(10), of(14)])).status).toBe(204);
    expect(await effectsOf(folder, language)).toEqual(['10', '14']);
  });

  test('is handed events by the relay, one by one, in batches and through a change of the secret', async ({
    bus,
    install,
    start,
  }) => {
    const next = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
    const { folder, url } = await start(await install(language), language, `${SECRET} ${next}`);
    const topics = ['payment.captured'];
    const deliver = async (secret: string, isBatch: boolean, now = START) =>
      await drain(bus.db, [remoteSubscriber({ name: 'ledger', url, secret, isBatch, topics })], { now });
    await emitPayments(bus.db, 1, 3);
    await deliver(SECRET, false);
    await emitAlone(bus.db, 'payment.captured', { ...payment(4), currency: 'EUR' });
    await emitPayments(bus.db, 5, 6);
    await deliver(next, false);
    await emitPayments(bus.db, 7, 8);
    await emitAlone(bus.db, 'payment.captured', { ...payment(9), currency: 'EUR' });
    await emitPayments(bus.db, 10, 20);
    await deliver(next, true);
    // The rest of a batch waits for the next try of the event that failed in it.
    await deliver(next, true, START + MINUTE);
    const isRefused = (number: number) => number === 4 || number === 9;
    expect(await statesOf(bus.db)).toEqual(
      numbers(1, 20).map((number) => (isRefused(number) ? 'dead_lettered' : 'delivered')),
    );
    const taken = numbers(1, 20).filter((number) => !isRefused(number));
    expect(await effectsOf(folder, language)).toEqual(taken.map(String));
  });
});
