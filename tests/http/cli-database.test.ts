import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { sql } from 'drizzle-orm';
import { afterEach, describe, expect, inject, test, vi } from 'vitest';

import { withDatabase } from '../../dev/database.ts';
import { EXIT } from '../../cli/arguments.ts';
import { runProgram } from '../support/local-server.ts';
import { createDatabase, freePort } from '../support/postgres.ts';

afterEach(() => vi.unstubAllEnvs());

const VARIABLES = ['FIRST_URL', 'SECOND_URL'];

/** How it fails to open, or to use, what the variables name. */
async function failure(first: string, second = '', use = async () => undefined as unknown) {
  vi.stubEnv('FIRST_URL', first);
  vi.stubEnv('SECOND_URL', second);
  return await withDatabase(VARIABLES, use).then(
    () => null,
    ({ exitCode, message, advice }: { exitCode: number; message: string; advice: string | null }) => ({
      exitCode,
      said: [message, advice].join('\n'),
    }),
  );
}

describe('a program that needs a database', () => {
  test.each([
    ['', 'SECOND_URL is not set.'],
    ['   ', 'SECOND_URL is not set.'],
    ['mysql://db.example/bus', 'FIRST_URL is not a valid URL that begins with postgres://'],
    ['memory://', 'FIRST_URL is not a valid URL that begins with postgres://'],
    ['postgres://bus:se#cret@db.example/bus', 'Percent-encode special characters'],
    ['postgres://db.example:port/bus', 'FIRST_URL is not a valid URL'],
  ])('a program given DATABASE_URL %j says what it must be', async (url, words) => {
    const failed = await failure(url);
    expect(failed).toMatchObject({ exitCode: EXIT.usage });
    expect(failed?.said).toContain(words);
    expect(failed?.said).not.toContain('cret');
  });

  test('a program says why its database cannot be used, without the password', async () => {
    const { host } = new URL(inject('postgresUrl'));
    const cases = [
      [`postgres://bus:secret@127.0.0.1:${await freePort()}/bus`, 'nothing listens on this port'],
      ['postgres://bus:secret@nowhere.invalid/bus', 'can’t be used: '],
      [`postgres://postgres:secret@${host}/no_such_database`, '"no_such_database" does not exist'],
      [`postgres://nobody:secret@${host}/postgres`, '"nobody" does not exist'],
    ] as const;
    for (const [url, words] of cases) {
      const failed = await failure('', url);
      expect(failed).toMatchObject({ exitCode: EXIT.unreachable });
      expect(failed?.said).toContain(words);
      expect(failed?.said).not.toContain('secret');
    }
  });

  test('a program says what to do where the tables are missing', async () => {
    const url = inject('postgresUrl');
    vi.stubEnv('FIRST_URL', url);
    const missing = withDatabase(VARIABLES, (db) => db.$count(sql`no_such_table`));
    await expect(missing).rejects.toMatchObject({
      exitCode: EXIT.unreachable,
      message: 'The database refused: a table of the bus is missing.',
      advice: expect.stringContaining('npm run migrate'),
    });
    const ended = withDatabase(VARIABLES, (db) =>
      db.execute(sql`select pg_terminate_backend(pg_backend_pid())`),
    );
    await expect(ended).rejects.toMatchObject({ exitCode: EXIT.unreachable });
    const fault = new TypeError('ours');
    await expect(withDatabase(VARIABLES, () => Promise.reject(fault))).rejects.toBe(fault);
  });
});

test.each(['doctor', 'prune', 'migrate'])(
  'npm run %s needs the database, and no other variable',
  async (name) => {
    const DATABASE_URL = await createDatabase(inject('postgresUrl'));
    const wrong = { CHAT_MAX_TOKENS: 'many', PORT: 'http', CORS_ORIGINS: '*', FROM_EMAIL: 'nobody' };
    const { code, output } = await runProgram(`dev/${name}.ts`, { DATABASE_URL, ...wrong });
    expect([code, output]).toEqual([EXIT.ok, expect.not.stringContaining('write')]);
  },
);

test.each([
  ['doctor', ['--event', '3'], "Unknown option '--event'. Did you mean '--events'?"],
  ['prune', ['--days', '1e400'], "--days: '1e400' is not a whole number from 1 to 36500."],
  ['token', ['--scope', 'event-bus:raed'], "Unknown scope 'event-bus:raed'. Did you mean 'event-bus:read'?"],
])('npm run %s with %j shows how it is called, and ends with 2', (name, args, words) => {
  const program = fileURLToPath(new URL(`../../dev/${name}.ts`, import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', program, ...args], {
    env: { PATH: process.env['PATH'] ?? '', DATABASE_URL: inject('postgresUrl') },
    encoding: 'utf8',
  });
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toContain(`${words}\n\nnpm run ${name}`);
});
