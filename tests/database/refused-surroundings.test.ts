import { randomBytes } from 'node:crypto';

import pg from 'pg';
import { describe, expect, inject, onTestFinished } from 'vitest';

import { events } from '../../drizzle/schema.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { InvalidConfiguration } from '../../lib/platform/config.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { refusalOf } from '../../lib/platform/db/surroundings.ts';
import type { Surroundings } from '../../lib/platform/db/surroundings.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import { runProgram } from '../support/local-server.ts';
import { test } from '../support/output-test.ts';
import { createDatabase, createEmptyDatabase } from '../support/postgres.ts';

/** Opens a database, after these statements. */
async function opened(url: string, ...statements: string[]): Promise<Database> {
  const client = new pg.Client(url);
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
  const { db, close } = await connect(url);
  onTestFinished(close);
  return db;
}

const inThisDatabase = (setting: string) =>
  `do $$ begin execute format('alter database %I set ${setting}', current_database()); end $$`;

const ourTables = () => createDatabase(inject('postgresUrl'));
const noTables = () => createEmptyDatabase(inject('postgresUrl'));

/** A database with an encoding of its own. */
async function latin(): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  const server = new pg.Client(inject('postgresUrl'));
  await server.connect();
  await server.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
  await server.end();
  return inject('postgresUrl').replace(/[^/]+$/, name);
}

const OTHER_EVENTS = 'create table other.events (id int, what text)';

const surroundings: readonly [
  what: string,
  url: () => Promise<string>,
  statements: string[],
  told: RegExp,
][] = [
  [
    'an encoding other than UTF8',
    latin,
    [],
    /^DATABASE_URL must name a database whose encoding is UTF8, not LATIN1: create database /,
  ],
  [
    'a search path that hides our tables',
    ourTables,
    ['create schema other', inThisDatabase('search_path = other')],
    /^DATABASE_URL must lead to the event bus’s tables; they are in the schema public, but the search path is other: alter role postgres set search_path = public$/,
  ],
  [
    'another table called events before ours',
    ourTables,
    ['create schema other', OTHER_EVENTS, inThisDatabase('search_path = other, public')],
    /^DATABASE_URL must lead to the event bus’s own table events, in the schema public; the search path finds another one first, in the schema other: alter role postgres set search_path = public$/,
  ],
  [
    'another table called events in the place of ours',
    noTables,
    ['create schema other', OTHER_EVENTS, inThisDatabase('search_path = other')],
    /^DATABASE_URL must name a database without another table called events; there is one in the schema other: create database /,
  ],
  [
    'a search path without the schema public',
    noTables,
    ['create schema other', inThisDatabase('search_path = other')],
    /^DATABASE_URL must lead to the schema public, where the migrations make the tables; the search path is other: alter role postgres set search_path = public$/,
  ],
];

describe.for(surroundings)('%s', ([, url, statements, told]) => {
  test('is refused by npm run migrate in one sentence, and nothing has changed', async () => {
    const at = await url();
    const db = await opened(at, ...statements);
    const tables = "select count(*)::int as count from pg_class where relkind = 'r'";
    const before = await rows(db, tables);
    const { code, output } = await runProgram('dev/migrate.ts', { DATABASE_URL: at });
    expect(code).not.toBe(0);
    expect(output.trim()).toMatch(new RegExp(told.source.replace(/\$$/, '')));
    expect(output.trim().split('\n')).toHaveLength(1);
    expect(await rows(db, tables)).toEqual(before);
  });

  test('is what a failing transaction says, and what a function that answers 503 writes to the log', async ({
    output,
  }) => {
    const db = await opened(await url(), ...statements);
    const failed = db.transaction((tx) => run(tx, { text: 'select subscribers from events', values: [] }));
    await expect(failed).rejects.toThrow(InvalidConfiguration);
    await expect(failed).rejects.toThrow(told);
    await expect(db.select({ subscribers: events.subscribers }).from(events)).rejects.toThrow(told);
    const { fetch } = guardedEndpoint({ methods: ['GET'], handle: () => failed as never });
    const answer = await fetch(new Request('http://localhost/'));
    expect([answer.status, await answer.json()]).toMatchObject([503, { code: 'misconfigured' }]);
    expect(output.linesOf('an environment variable is invalid')).toMatchObject([
      { variable: 'DATABASE_URL', detail: expect.stringMatching(told) },
    ]);
  });
});

test('a relay that the surroundings stop ends at its first turn with that sentence', async () => {
  const db = await opened(await ourTables(), 'create schema other', inThisDatabase('search_path = other'));
  const subscribers = [attach('ledger', { 'payment.captured': () => undefined })];
  const ran = relay({ db, subscribers, until: Date.now() + MINUTE });
  await expect(ran).rejects.toThrow(/^DATABASE_URL must lead to the event bus’s tables; /);
});

test('an error that the surroundings do not explain is thrown as it is', async () => {
  const db = await opened(await ourTables());
  await expect(rows(db, 'select from unknown_to_all')).rejects.toMatchObject({ code: '42P01' });
  await expect(rows(await opened(await noTables()), 'select from events')).rejects.toMatchObject({
    code: '42P01',
  });
});

test('a Postgres older than 15 is refused in one sentence', () => {
  const found: Surroundings = {
    version: 150_000,
    versionText: '15.0',
    encoding: 'UTF8',
    role: 'postbud',
    searchPath: '"$user", public',
    currentSchema: 'public',
    dateStyle: 'ISO, MDY',
    schemas: [],
    foundIn: null,
    eventsIn: null,
  };
  expect(refusalOf(found)).toBeNull();
  expect(refusalOf({ ...found, version: 140_011, versionText: '14.11' })?.message).toBe(
    'DATABASE_URL must name a Postgres of version 15 or newer; this one is 14.11',
  );
});

describe('the doctor', () => {
  test('tells of another isolation by default and of commits that do not wait for the disk', async () => {
    const db = await opened(
      await ourTables(),
      inThisDatabase("default_transaction_isolation = ''repeatable read''"),
      inThisDatabase('synchronous_commit = off'),
    );
    expect(await examine(db, 10)).toMatchObject({
      findings: [],
      settings: [
        expect.stringMatching(/^Transactions are repeatable read by default\. /),
        expect.stringMatching(/^synchronous_commit is off for the database, the role postgres: a crash /),
      ],
    });
  });

  test('has nothing to say of the settings that Postgres comes with', async () => {
    expect((await examine(await opened(await ourTables()), 10)).settings).toEqual([]);
  });
});

test.for<[what: string, setting: string[], told: string]>([
  [
    'a style of dates other than ISO',
    [inThisDatabase("datestyle = ''SQL, DMY''")],
    "DATABASE_URL must lead to a role whose DateStyle is ISO, not SQL, DMY: alter role postgres set datestyle = 'ISO, MDY'\n",
  ],
  [
    'a bus in another schema',
    ['alter schema public rename to bus', inThisDatabase('search_path = bus')],
    'DATABASE_URL must lead to the event bus’s tables in the schema public; they are in the schema bus: alter schema bus rename to public\n',
  ],
])('%s is refused by npm run migrate in one sentence', async ([, statements, told]) => {
  const at = await ourTables();
  await opened(at, ...statements);
  expect(await runProgram('dev/migrate.ts', { DATABASE_URL: at })).toEqual({ code: 3, output: told });
});
