import pg from 'pg';
import { expect, inject, onTestFinished } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { contradictions, drain, emitPayments, payment, rows } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { test as base } from '../support/output-test.ts';
import { pgbouncerPath, startPgbouncer } from '../support/pgbouncer.ts';
import { createDatabase, createEmptyDatabase } from '../support/postgres.ts';

if (!pgbouncerPath) console.warn('pgbouncer is not installed: the tests behind a pooler are skipped');

const test = base
  .extend('pooler', { scope: 'file' }, async ({}, { onCleanup }) => {
    const pooler = await startPgbouncer(inject('postgresUrl'));
    onCleanup(() => pooler.stop());
    return pooler;
  })
  .skipIf(!pgbouncerPath);

const UNNAMED =
  'statements go on unnamed: a pooler in front of the database does not keep prepared statements';

test('behind a pooler that does not keep prepared statements, every kind of handler gets every event, no attempt is used up, and the log says why once', async ({
  pooler,
  output,
}) => {
  const { db, close } = await connect(pooler.urlOf(await createDatabase(inject('postgresUrl'))));
  onTestFinished(close);
  const payments: number[] = [];
  const attached = [
    subscriber('ledger', { 'payment.captured': () => undefined }),
    subscriber(
      'bookings',
      { 'payment.captured': ({ payload }) => void payments.push(payload.amountMinor) },
      { transactional: true },
    ),
    subscriber('accounting', { 'payment.captured': () => undefined }, { batch: true, transactional: true }),
  ];
  await Promise.all(
    Array.from({ length: 12 }, (_, key) => emitPayments(db, 1, 10, { orderingKey: `${key}` })),
  );
  expect(await drain(db, attached)).toMatchObject({ delivered: 360, failed: 0, waited: 0 });
  const handed = await deliveriesOf(db);
  expect(handed.filter(({ subscriber: name }) => attached.some((one) => one.name === name))).toHaveLength(
    360,
  );
  expect(
    new Set(handed.filter(({ state }) => state === 'delivered').map(({ attempts }) => attempts)),
  ).toEqual(new Set([1]));
  expect(await contradictions(db)).toEqual([]);
  expect(output.linesOf(UNNAMED)).toHaveLength(1);
});

test('behind such a pooler, emit works in each transaction of a producer’s own client', async ({
  pooler,
}) => {
  const url = await createDatabase(inject('postgresUrl'));
  const pool = new pg.Pool({ connectionString: pooler.urlOf(url) });
  onTestFinished(() => pool.end());
  const produce = async (number: number) => {
    const client = await pool.connect();
    await client.query('begin');
    await emit(client, 'payment.captured', payment(number));
    await client.query('commit');
    client.release();
  };
  await Promise.all(Array.from({ length: 60 }, (_, number) => produce(number + 1)));
  const { rows: stored } = await pool.query('select from events');
  expect(stored).toHaveLength(60);
});

test('two migrations at once through such a pooler run each file once, and leave nothing behind on its sessions', async ({
  pooler,
}) => {
  const url = await createEmptyDatabase(inject('postgresUrl'));
  const { db, close } = await connect(pooler.urlOf(url));
  const direct = await connect(url);
  onTestFinished(async () => void (await Promise.all([close(), direct.close()])));
  await Promise.all([migrate(db), migrate(db)]);
  const found = await rows<{ files: number; hashes: number }>(
    direct.db,
    'select count(*)::int as files, count(distinct hash)::int as hashes from drizzle.__drizzle_migrations',
  );
  expect(found[0]!.files).toBeGreaterThan(0);
  expect(found[0]!.files).toBe(found[0]!.hashes);
  const locks = `select from pg_locks where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())`;
  expect(await rows(direct.db, locks)).toEqual([]);
  // Side by side, so that each of the pooler's sessions answers.
  const limits = await Promise.all(
    Array.from({ length: 8 }, () =>
      rows<{ lock: string; statement: string }>(
        db,
        `select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement
         from pg_sleep(0.05)`,
      ),
    ),
  );
  expect(new Set(limits.flat().map(({ lock, statement }) => `${lock} ${statement}`))).toEqual(
    new Set(['0 0']),
  );
});
