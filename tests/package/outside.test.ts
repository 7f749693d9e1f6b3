import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import type { SourceMapPayload } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest';

import { writePackage } from '../../dev/build/package/write.ts';
import { startNeonProxy } from '../../dev/serve-output/neon-proxy.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { rows } from '../support/bus.ts';
import { hoverIn } from '../support/hover.ts';
import { startLocalServer } from '../support/local-server.ts';
import { makeOutside } from '../support/outside.ts';
import type { Outside } from '../support/outside.ts';
import { PATIENTLY } from '../support/patience.ts';
import { createDatabase, freePort } from '../support/postgres.ts';
import { createRole, grant } from '../support/roles.ts';
import type { Role } from '../support/roles.ts';

const run = promisify(execFile);

let outside: Outside;
beforeAll(async () => {
  outside = await makeOutside();
  for (const name of ['emit-with-drizzle.ts', 'emit-with-pg.ts', 'receiver.ts']) write(name, exampleOf(name));
  const withPg = exampleOf('emit-with-pg.ts');
  write('emit-with-neon.ts', withPg.replace("from 'pg'", "from '@neondatabase/serverless'"));
  write(
    'emit-with-postgres-js.ts',
    exampleOf('emit-with-drizzle.ts').replace('node-postgres', 'postgres-js'),
  );
}, 300_000);
afterAll(() => outside?.remove());

const write = (name: string, text: string) => writeFileSync(join(outside.folder, 'src', name), text);

/** The example of docs/elsewhere.md with this name, as it stands. */
function exampleOf(name: string): string {
  const document = readFileSync(new URL('../../docs/elsewhere.md', import.meta.url), 'utf8');
  const [, example] = new RegExp(`<!-- ${name} -->\\s*\`\`\`\\w+\\n([^]*?)\`\`\``).exec(document) ?? [];
  if (example === undefined) throw new Error(`docs/elsewhere.md has no example ${name}`);
  return example;
}

describe('the package in a repository outside this one', () => {
  test('installs with zod and nothing else', () => {
    const read = (path: string) => JSON.parse(readFileSync(join(outside.folder, path), 'utf8')) as object;
    expect(read('node_modules/postbud/package.json')).toMatchObject({
      type: 'module',
      engines: { node: '>=20.19' },
      dependencies: { zod: expect.any(String) },
      peerDependenciesMeta: { '@electric-sql/pglite': { optional: true } },
    });
    const { packages } = read('package-lock.json') as { packages: Record<string, { dependencies?: object }> };
    expect(Object.keys(packages['node_modules/postbud']!.dependencies!)).toEqual(['zod']);
  });

  test('has exports that are right for nodenext, bundlers and require', async () => {
    await outside.run('publint', ['run', join(outside.folder, 'node_modules/postbud'), '--strict']);
    // Every supported Node can require a module, and says so to the compiler by `nodenext`.
    const judged = ['--profile', 'node16', '--ignore-rules', 'cjs-resolves-to-esm'];
    await outside.run('attw', [outside.built.tarball, ...judged]);
    write(
      'required.cts',
      `import emitting = require('postbud/emit');
      import catalog = require('postbud/catalog');
      import outbox = require('postbud/outbox');
      import receiving = require('postbud/receive');
      import testing = require('postbud/testing');
      const all = [emitting.emit, catalog.isTopicName, outbox.record, receiving.receiver, testing.testBus];
      console.log(all.map((each) => typeof each).join());`,
    );
    expect(await outside.compile({ types: ['node'] }, ['required.cts'])).toBe('');
    const { found } = await outside.start('required.cjs', {}, [], /(.*)\n/);
    expect(found[1]).toBe('function,function,function,function,function');
  });

  test.for([
    { name: 'RetryAfter', from: 'postbud/receive', limit: 2000 },
    { name: 'createKick', from: 'postbud/emit', limit: 8000 },
  ])('gives a bundle that needs $name alone less than $limit bytes', async ({ name, from, limit }) => {
    const { outputFiles } = await build({
      stdin: {
        contents: `import { ${name} } from '${from}'; console.log(${name});`,
        resolveDir: outside.folder,
      },
      bundle: true,
      minify: true,
      write: false,
      platform: 'node',
      format: 'esm',
    });
    expect(outputFiles[0]!.contents.length).toBeLessThan(limit);
    expect(outputFiles[0]!.text).toContain(name === 'createKick' ? '/api/kick' : 'retry_after');
  });

  test('is private, and has its licence, its changelog and its sources', async () => {
    const folder = join(outside.folder, 'node_modules/postbud');
    const read = (path: string) => readFileSync(join(folder, path), 'utf8');
    expect(JSON.parse(read('package.json'))).toMatchObject({ private: true, version: packageJson.version });
    expect(read('CHANGELOG.md')).toContain(`\n## ${packageJson.version}\n`);
    expect(read('LICENSE')).toContain('All rights reserved');
    // Nobody listens there.
    const nowhere = [
      '--fetch-retries',
      '0',
      '--registry',
      'http://127.0.0.1:9',
      '--//127.0.0.1:9/:_authToken=none',
    ];
    const publishing = run('npm', ['publish', outside.built.tarball, ...nowhere], { cwd: outside.folder });
    await expect(publishing).rejects.toMatchObject({ stderr: expect.stringContaining('EPRIVATE') });
    const map = new SourceMap(JSON.parse(read('lib/elsewhere/emit/kick.js.map')) as SourceMapPayload);
    const lines = read('lib/elsewhere/emit/kick.js').split('\n');
    const line = lines.findIndex((text) => text.startsWith('function createKick('));
    expect(map.findEntry(line, 0)).toMatchObject({ originalSource: 'kick.ts' });
  });

  test('has the name of another registry in all of its documents and types', async () => {
    const into = join(outside.folder, 'named');
    const origin = { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'remote.origin.url' };
    vi.stubEnv('GIT_CONFIG_VALUE_0', 'https://git.example.no/postbud.git');
    for (const [name, value] of Object.entries(origin)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const registry = { name: '@bergen/postbud', url: 'https://npm.example.no' };
    const { tarball } = await writePackage(new URL('../../', import.meta.url), into, registry);
    expect(tarball).toContain('bergen-postbud-');
    const read = (path: string) => readFileSync(join(into, 'package', path), 'utf8');
    const manifest = JSON.parse(read('package.json')) as object;
    expect(manifest).toMatchObject({
      name: '@bergen/postbud',
      publishConfig: { registry: 'https://npm.example.no', access: 'restricted' },
      repository: { type: 'git', url: 'https://git.example.no/postbud.git' },
    });
    expect(manifest).not.toHaveProperty('private');
    expect(read('README.md')).toContain('`@bergen/postbud/emit`');
    const files = readdirSync(join(into, 'package'), { recursive: true, encoding: 'utf8' });
    const texts = files.filter((name) => /\.(?:md|js|d\.ts)$/.test(name)).map(read);
    expect(texts.length).toBeGreaterThan(20);
    expect(texts.join('\n')).not.toMatch(/(?<!@bergen\/)postbud\/(emit|outbox|receive|catalog|testing)\b/);
  });

  test('shows each topic and field in editors with its meaning and an example', () => {
    const hover = hoverIn(
      outside.folder,
      `import { emit } from 'postbud/emit';
      import type { Handlers } from 'postbud/receive';
      declare const tx: { query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> };
      export const handlers: Partial<Handlers<'ledger'>> = {
        'payment.captured': (event) => event.payload.amountMinor,
      };
      export const sent = emit(tx, 'payment.link.sent', { payUntil: '' });`,
    );
    expect(hover("'payment.captured'")).toContain('A payment is complete and ready for payout.');
    expect(hover("'payment.captured'")).toContain('"intentId": "pi_3QxSolvik48213"');
    expect(hover('amountMinor')).toMatch(/^An amount of money in the smallest unit [^]*@example 62500$/);
    expect(hover('payUntil')).toMatch(
      /^An instant as an ISO 8601 string in UTC[^]*@example "2026-02-23T22:59:59Z"$/,
    );
    expect(hover('emit(tx')).toContain('Records an event in the outbox');
  });

  test.for([
    { module: 'nodenext', exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
    { module: 'esnext', moduleResolution: 'bundler' },
  ])('has types that compile by themselves with %o, and refuse what is wrong', async (settings) => {
    const strictly = { ...settings, skipLibCheck: false, types: [], noEmit: true };
    expect(await outside.compile(strictly, ['types.ts'])).toBe('');
    // Each mistake is one: without the mark above it the compiler complains.
    const text = readFileSync(join(outside.folder, 'src/types.ts'), 'utf8');
    write('mistakes.ts', text.replaceAll('// @ts-expect-error', '//'));
    const complaints = await outside.compile(strictly, ['mistakes.ts']);
    const lines = Array.from(complaints.matchAll(/^src\/mistakes\.ts\((\d+),/gm), ([, line]) => Number(line));
    const marked = text
      .split('\n')
      .flatMap((line, index) => (line.includes('// @ts-expect-error') ? [index + 2] : []));
    expect(marked.length).toBeGreaterThan(10);
    expect([...new Set(lines)].toSorted((one, other) => one - other)).toEqual(marked);
  });

  test('takes the transactions of the component’s own pg, Neon’s driver, PGlite and Drizzle', async () => {
    expect(await outside.compile({ noEmit: true }, ['drivers.ts'])).toBe('');
  });

  /** The line of a client that was refused, with the call that is right. */
  const refused = (example: string) => (name: string) =>
    expect.toSatisfy(
      (line: string) => line.startsWith(`${name}: emit takes a transaction`) && line.includes(example),
    );

  test('emits and receives through each client, and through none that is in no transaction', async () => {
    await outside.generatePrismaClient();
    expect(await outside.compile({}, ['clients.ts'])).toBe('');
    const databaseUrl = await createDatabase(inject('postgresUrl'));
    const { db, close } = await connect(databaseUrl);
    onTestFinished(close);
    const role = await createRole(databaseUrl, 'resources');
    onTestFinished(role.drop);
    await grant(databaseUrl, '--role', role.name, '--producer', 'resources');
    const ownUrl = await createDatabase(inject('postgresUrl'));
    const variables = { DATABASE_URL: role.url, OWN_DATABASE_URL: ownUrl };
    const { output } = await outside.start('clients.js', variables, [], /done/);
    const clients = ['pg', 'Drizzle', 'postgres.js', 'Kysely', 'Prisma', 'TypeORM', 'Sequelize', 'Knex'];
    expect(output.trim().split('\n')).toEqual([
      // It emits in one statement; its handler fails, then it is delivered, then it comes again.
      ...clients.map((name) => `${name}: 1 statement, 500 204 204, 1 effect`),
      ...['pg', 'pg without begin'].map(refused("client.query('begin')")),
      ...['Drizzle', 'Drizzle, kept'].map(refused('db.transaction(')),
      ...['postgres.js', 'postgres.js, kept'].map(refused('sql.begin(')),
      ...['Kysely'].map(refused('db.transaction().execute(')),
      'Kysely, kept: Error: Transaction is already committed',
      ...['Prisma'].map(refused('prisma.$transaction(')),
      ...['TypeORM', 'TypeORM’s manager'].map(refused('dataSource.transaction(')),
      ...['Sequelize'].map(refused('sequelize.transaction(')),
      ...['Knex'].map(refused('knex.transaction(')),
      ...['pg', 'postgres.js', 'Prisma', 'TypeORM', 'Sequelize']
        .map((name) => `${name}, by the database`)
        .map(refused('got a connection that is in none')),
      'done',
    ]);
    const ids = await rows<{ id: string }>(
      db,
      `select payload ->> 'maintenanceId' as id from events order by created_at`,
    );
    expect(ids.map(({ id }) => id)).toEqual(clients.map((name) => `${name} commits`));
  });

  test('receives in Express, Fastify, Hono, Next.js’s shape and Node’s own server', async () => {
    expect(await outside.compile({}, ['hosts.ts'])).toBe('');
    const { output } = await outside.start('hosts.js', {}, [], /done/);
    expect(output.trim().split('\n')).toEqual([
      ...['Express', 'Fastify', 'Hono', 'Next.js', 'srvx'].map((name) => `${name}: 204 204 401, 1 effect`),
      'done',
    ]);
  });

  test('tests a receiver on a test bus, as the example in docs/elsewhere.md does', async () => {
    for (const name of ['handlers.ts', 'test-a-handler.ts']) write(name, exampleOf(name));
    expect(await outside.compile({}, ['test-a-handler.ts', 'handlers.ts'])).toBe('');
    const { found } = await outside.start('test-a-handler.js', {}, [], /(.*)\n/);
    expect(`// ${found[1]}`).toBe(exampleOf('test-a-handler.ts').trim().split('\n').at(-1));
  });

  test('runs a test bus, and says what to install where PGlite is missing', async () => {
    write(
      'test-bus.ts',
      `import { emit } from 'postbud/emit';
      import { subscriber, testBus } from 'postbud/testing';
      const handed: string[] = [];
      const calendar = subscriber('calendar', {
        'resource.maintenance.completed': ({ payload }) => void handed.push(payload.maintenanceId),
      });
      try {
        const bus = await testBus([calendar]);
        await bus.emit('resource.maintenance.completed', { maintenanceId: 'mnt_1' });
        await bus.db.transaction((tx) => emit(tx, 'resource.maintenance.completed', {
          maintenanceId: 'mnt_2', resourceId: 'res_1', completedAt: '2026-07-08T12:40:00Z',
        }));
        await bus.drain();
        const told = bus.received('bookings').map(({ event }) => event.topic);
        console.log('ended', handed.join(), told.join());
        await bus.close();
      } catch (error) {
        console.log('ended', (error as Error).message);
      }`,
    );
    expect(await outside.compile({}, ['test-bus.ts'])).toBe('');
    const ended = async () => (await outside.start('test-bus.js', {}, [], /ended (.*)\n/)).found[1];
    const topic = 'resource.maintenance.completed';
    expect(await ended()).toBe(`mnt_1,mnt_2 ${topic},${topic}`);
    const pglite = join(outside.folder, 'node_modules/@electric-sql/pglite');
    renameSync(pglite, `${pglite}-gone`);
    try {
      expect(await ended()).toBe(
        'a test bus runs on @electric-sql/pglite, which is not installed: npm install --save-dev @electric-sql/pglite',
      );
    } finally {
      renameSync(`${pglite}-gone`, pglite);
    }
  });
});

test('events that a repository outside emits in five ways reach its receivers in one order, each once', async () => {
  const databaseUrl = await createDatabase(inject('postgresUrl'));
  const { db, close } = await connect(databaseUrl);
  onTestFinished(close);
  await rows(db, 'create table maintenance (id text primary key, completed_at timestamptz)');
  await rows(db, 'create table reopened (position serial, maintenance_id text)');
  await rows(db, 'create table entries (intent_id text, amount_minor int, position serial)');
  const ways = ['with-drizzle', 'with-pg', 'with-neon', 'with-postgres-js', 'in-sql'];
  const asked = [...ways, ...ways.toReversed(), ...ways].map((way, index) => `${way}:mnt_${index + 1}`);
  const captured = ['captured:1', 'captured-in-sql:2', 'captured:3', 'captured-in-sql:4'];
  for (const id of asked) await rows(db, 'insert into maintenance values ($1)', [id.split(':')[1]]);
  // Its producers have a role each, which only npm run grant gave a right, and rights on their own tables.
  const [resources, payments] = [
    await createRole(databaseUrl, 'resources'),
    await createRole(databaseUrl, 'payments'),
  ];
  onTestFinished(resources.drop);
  onTestFinished(payments.drop);
  await grant(databaseUrl, '--role', resources.name, '--producer', 'resources');
  await grant(databaseUrl, '--role', payments.name, '--producer', 'payments');
  await rows(db, `grant select, update on maintenance to ${resources.name}`);
  const neon = await startNeonProxy(databaseUrl);
  onTestFinished(neon.close);
  const files = [
    'emit-with-drizzle.ts',
    'emit-with-pg.ts',
    'emit-with-neon.ts',
    'emit-with-postgres-js.ts',
    'emit-in-sql.ts',
    'emit-captured.ts',
    'emit-captured-in-sql.ts',
    'produce.ts',
    'receive.ts',
    'receiver.ts',
  ];
  expect(await outside.compile({}, files)).toBe('');

  const [SUBSCRIBER_SECRET, KICK_SECRET] = [1, 2].map(() => `whsec_${randomBytes(32).toString('base64')}`);
  const receiver = await outside.start(
    'receive.js',
    { DATABASE_URL: databaseUrl, SUBSCRIBER_SECRET: SUBSCRIBER_SECRET! },
    [],
    /listens on [^]*port: (\d+)/,
  );
  onTestFinished(receiver.stop);
  // The receiver of docs/elsewhere.md, as it stands.
  const port = await freePort();
  const ledger = await outside.start(
    'receiver.js',
    { DATABASE_URL: databaseUrl, SUBSCRIBER_LEDGER_SECRET: SUBSCRIBER_SECRET!, PORT: `${port}` },
    [],
    /http/,
  );
  onTestFinished(ledger.stop);
  const bus = await startLocalServer({
    PORT: '0',
    DEMO: 'off',
    DATABASE_URL: databaseUrl,
    KICK_SECRET: KICK_SECRET!,
    SUBSCRIBER_CALENDAR_URL: `http://127.0.0.1:${receiver.found[1]}/`,
    SUBSCRIBER_CALENDAR_SECRET: SUBSCRIBER_SECRET!,
    SUBSCRIBER_LEDGER_URL: `http://localhost:${port}/`,
    SUBSCRIBER_LEDGER_SECRET: SUBSCRIBER_SECRET!,
  });
  onTestFinished(async () => void (await bus.stop()));
  const produce = async (role: Role, args: readonly string[]) => {
    const variables = { DATABASE_URL: role.url, NEON_PROXY: `${neon.address}/v2`, POSTBUD_URL: bus.url };
    const producer = await outside.start(
      'produce.js',
      { ...variables, KICK_SECRET: KICK_SECRET! },
      args,
      /done/,
    );
    onTestFinished(producer.stop);
    return producer.output.trim().split('\n');
  };
  const said = [
    ...(await produce(resources, [...asked, 'with-pg:', 'with-drizzle:', captured[0]!])),
    ...(await produce(payments, captured)),
  ];

  // The kick of a program in any language: the document's lines for a shell, as they stand, where it has those programs.
  const { stdout: missing } = await run('sh', ['-c', 'command -v curl openssl >/dev/null || echo missing']);
  if (missing === '') {
    const kicked = await run('sh', ['-c', exampleOf('kick.sh')], {
      env: { ...process.env, POSTBUD_URL: bus.url, KICK_SECRET: KICK_SECRET! },
    });
    expect(kicked.stdout).toBe('{"accepted":true}');
  }

  const problem =
    'the payload does not match resource.maintenance.completed: maintenanceId: Too small: expected string to have >=1 characters';
  expect(said).toEqual([
    ...asked.map((one) => `emitted ${one}`),
    `refused with-pg: ${problem}`,
    `refused with-drizzle: ${problem}`,
    expect.stringContaining(
      `${resources.name} may not emit payment.captured: it is granted the topics of resources`,
    ),
    'done',
    ...captured.map((one) => `emitted ${one}`),
    'done',
  ]);
  const ids = asked.map((one) => one.split(':')[1]);
  await vi.waitFor(async () => {
    const reopened = await rows<{ id: string }>(
      db,
      'select maintenance_id as id from reopened order by position',
    );
    expect(reopened.map(({ id }) => id)).toEqual(ids);
  }, PATIENTLY);
  await vi.waitFor(async () => {
    const entries = await rows<{ amount: number }>(
      db,
      'select amount_minor as amount from entries order by position',
    );
    expect(entries.map(({ amount }) => amount)).toEqual([1, 2, 3, 4]);
  }, PATIENTLY);
  const completed = await rows<{ count: number }>(
    db,
    'select count(completed_at)::int as count from maintenance',
  );
  // Those in SQL emitted without changing a row of theirs.
  expect(completed).toEqual([{ count: asked.length - 3 }]);
});
