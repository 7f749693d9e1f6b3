import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import pg from 'pg';
import { RECEIVED_TABLE } from 'postbud/receive';
import { describe, expect, inject } from 'vitest';

import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { test as busTest } from '../support/bus-test.ts';
import { drainLive, emitPayments } from '../support/bus.ts';
import { undeliver } from '../support/scenes.ts';
import { createEmptyDatabase, freePort } from '../support/postgres.ts';
import { SECRET } from '../support/receive.ts';

const ROOT = new URL('../../', import.meta.url).pathname;

const DOCUMENT = readFileSync(join(ROOT, 'docs/elsewhere.md'), 'utf8');

/** Gives a program of the document, by the name in the comment above it. */
function program(name: string): string {
  const [, code] = new RegExp(`<!-- ${name} -->\\n\`\`\`\\w+\\n(.*?)\`\`\``, 's').exec(DOCUMENT) ?? [];
  return code!;
}

const test = busTest
  /** A database of its own, with the table of the document and one to write to. */
  .extend('own', async ({}, { onCleanup }) => {
    const url = await createEmptyDatabase(inject('postgresUrl'));
    const pool = new pg.Pool({ connectionString: url });
    onCleanup(() => pool.end());
    await pool.query(program('received.sql'));
    await pool.query('create table entries (intent_id text, amount_minor int)');
    return { url, pool };
  })
  /** Where a program can import what the component would have installed. */
  .extend('folder', async ({}, { onCleanup }) => {
    const folder = await mkdtemp(join(ROOT, 'tests/.document-'));
    onCleanup(() => rm(folder, { recursive: true, force: true }));
    return folder;
  });

describe('the receivers of docs/elsewhere.md', () => {
  test.for(['receiver.ts', 'receiver-with-drizzle.ts'])(
    'the program %s compiles and, as it stands, handles each event of the relay once',
    async (name, { bus, own, folder }) => {
      const file = join(folder, name);
      await writeFile(file, program(name));
      const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
      const settings = { extends: '../../tsconfig.json', files: [name], include: [] };
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(settings));
      await promisify(execFile)(process.execPath, [compiler, '-p', folder]);

      const port = await freePort();
      const child = spawn(process.execPath, ['--import', 'tsx', file], {
        env: { ...process.env, PORT: String(port), DATABASE_URL: own.url, SUBSCRIBER_LEDGER_SECRET: SECRET },
        stdio: 'ignore',
      });
      try {
        const url = `http://127.0.0.1:${port}/`;
        await expect
          .poll(() =>
            fetch(url).then(
              ({ status }) => status,
              () => null,
            ),
          )
          .toBe(405);
        await emitPayments(bus.db, 1, 20);
        const topics = ['payment.captured'];
        const ledger = remoteSubscriber({ name: 'ledger', url, secret: SECRET, isBatch: true, topics });
        expect(await drainLive(bus.db, [ledger])).toMatchObject({ delivered: 20, failed: 0 });
        // As if the answers had been lost.
        await undeliver(bus.db, `subscriber = 'ledger'`);
        expect(await drainLive(bus.db, [ledger])).toMatchObject({ delivered: 20, failed: 0 });
        const { rows: entries } = await own.pool.query<{ amount_minor: number }>(
          'select amount_minor from entries',
        );
        expect(entries.map((entry) => entry.amount_minor)).toEqual(
          Array.from({ length: 20 }, (_, index) => index + 1),
        );
        await own.pool.query(program('delete-received.sql'));
      } finally {
        child.kill('SIGKILL');
      }
    },
  );

  test('the first one has 15 lines', () => {
    expect(program('receiver.ts').trimEnd().split('\n')).toHaveLength(15);
  });

  test('the table of the document is the one of the package', () => {
    expect(program('received.sql').trim()).toBe(RECEIVED_TABLE.trim());
  });
});
