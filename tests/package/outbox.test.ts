import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';

import { connect } from '../../lib/platform/db/connect.ts';
import { sleep } from '../../lib/platform/time.ts';
import { numbers, rows } from '../support/bus.ts';
import { startLocalServer } from '../support/local-server.ts';
import type { LocalServer } from '../support/local-server.ts';
import { makeOutside } from '../support/outside.ts';
import type { Outside } from '../support/outside.ts';
import { createDatabase, freePort } from '../support/postgres.ts';

let outside: Outside;
beforeAll(async () => {
  outside = await makeOutside();
  const document = readFileSync(new URL('../../docs/elsewhere.md', import.meta.url), 'utf8');
  const [, example] = /<!-- record-and-forward.ts -->\s*```ts\n([^]*?)```/.exec(document) ?? [];
  writeFileSync(join(outside.folder, 'src/record-and-forward.ts'), example!);
  expect(await outside.compile({}, ['service.ts', 'record-and-forward.ts'])).toBe('');
}, 300_000);
afterAll(() => outside?.remove());

/** A database, and a connection to look at it. */
async function opened() {
  const url = await createDatabase(inject('postgresUrl'));
  const connection = await connect(url);
  onTestFinished(async () => await connection.close());
  return { url, db: connection.db };
}

test('a service and the bus are killed again and again, and some events are refused: the others are on the bus once each, in order of creation in their topic and key, and the refused ones as was decided', async () => {
  const [service, bus] = [await opened(), await opened()];
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const port = `${await freePort()}`;
  const startBus = async () =>
    await startLocalServer({
      PORT: port,
      DEMO: 'off',
      DATABASE_URL: bus.url,
      PRODUCER_RESOURCES_SECRET: secret,
    });
  let server: LocalServer = await startBus();
  const variables = { DATABASE_URL: service.url, POSTBUD_URL: server.url, PRODUCER_RESOURCES_SECRET: secret };
  for (const number of numbers(1, 6)) {
    const running = await outside.start('service.js', variables, [`run-${number}`], /records/);
    await sleep(400);
    if (number % 2 === 0) {
      await server.stop('SIGKILL');
      await sleep(200);
      server = await startBus();
    }
    running.stop();
  }
  const last = await outside.start('service.js', variables, [], /nothing waits/);
  last.stop();
  await server.stop();
  const written = await rows<{ id: string }>(
    service.db,
    `select id from written where not exists (
       select from postbud_outbox_refused as refused where refused.id = written.id and decision = 'discard') order by place`,
  );
  const recorded = await rows<{ id: string; key: string }>(
    bus.db,
    `select dedupe_key as id, ordering_key as key from events where producer = 'resources' order by created_at, seq`,
  );
  const keys = new Map(recorded.map(({ id, key }) => [id, key]));
  expect(recorded).toHaveLength(written.length);
  for (const key of ['', 'res_0', 'res_1', 'res_2']) {
    const created = written.filter(({ id }) => keys.get(id) === key);
    expect(created.length).toBeGreaterThan(10);
    expect(recorded.filter((event) => event.key === key).map(({ id }) => ({ id }))).toEqual(created);
  }
  const decisions = 'select decision, count(*)::int from postbud_outbox_refused group by 1 order by 1';
  expect((await rows<{ decision: string }>(service.db, decisions)).map(({ decision }) => decision)).toEqual([
    'discard',
    'retry',
  ]);
}, 240_000);
