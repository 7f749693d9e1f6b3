import { PGlite } from '@electric-sql/pglite';
import type { Pool as NeonPool } from '@neondatabase/serverless';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { PermanentError, RECEIVED_TABLE, RetryAfter, receiver } from 'postbud/receive';
import { v7 as uuidv7 } from 'uuid';
import { describe, expect, onTestFinished, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { gate, payloadOf } from '../support/bus.ts';
import { connectWithNeon } from '../support/neon-tunnel.ts';
import { freePort } from '../support/postgres.ts';
import { read, test } from '../support/receive-test.ts';
import { SECRET, eventOf, requestOf } from '../support/receive.ts';

const ids = (count: number) => Array.from({ length: count }, () => uuidv7());

const failing = (which: string, error: unknown) => (event: { readonly id: string }) => {
  if (event.id === which) throw error;
};

describe('an event that arrives', () => {
  test('an event is handed over with all that the bus tells of it', async ({ ledger }) => {
    const [id, previousid] = ids(2) as [string, string];
    const handed: unknown[] = [];
    const answer = ledger((event) => handed.push(event));
    const document = eventOf({ id, orderingKey: 'solvik', causationId: 'evt-0', erased: true, previousid });
    expect(await answer(document)).toMatchObject({ status: 204, body: null });
    expect(handed).toEqual([
      {
        id,
        topic: 'payment.captured',
        payload: payloadOf('payment.captured'),
        version: 1,
        producer: 'payments',
        createdAt: new Date('2026-02-21T09:30:00Z'),
        seq: 7,
        orderingKey: 'solvik',
        correlationId: 'req-1',
        causationId: 'evt-0',
        traceparent: null,
        erased: true,
        previousId: previousid,
        previousSkipped: false,
      },
    ]);
  });

  test('an event that comes twice has its effect once', async ({ ledger, effects }) => {
    const [id] = ids(1) as [string];
    for (let time = 1; time <= 3; time += 1)
      expect(await ledger()(eventOf({ id }))).toMatchObject({ status: 204 });
    expect(await effects()).toEqual([id]);
  });

  test('a twin waits for the first delivery of its event, and is not handed over when that was committed', async ({
    ledger,
    effects,
    pool,
  }) => {
    const [id] = ids(1) as [string];
    const [begun, held] = [gate(), gate()];
    const first = ledger(async () => {
      begun.open();
      await held.opened;
    })(eventOf({ id }));
    await begun.opened;
    const twin = ledger()(eventOf({ id }));
    await waitingForLock(pool);
    held.open();
    expect([(await first).status, (await twin).status]).toEqual([204, 204]);
    expect(await effects()).toEqual([id]);
  });

  test('a twin is handed over when the first delivery of its event was rolled back', async ({
    ledger,
    effects,
    pool,
  }) => {
    const [id] = ids(1) as [string];
    const [begun, held] = [gate(), gate()];
    const first = ledger(async () => {
      begun.open();
      await held.opened;
      throw new Error('not today');
    })(eventOf({ id }));
    await begun.opened;
    const twin = ledger()(eventOf({ id }));
    await waitingForLock(pool);
    held.open();
    expect([(await first).status, (await twin).status]).toEqual([500, 204]);
    expect(await effects()).toEqual([id]);
  });

  test('two components in one database remember the same event each for itself', async ({
    pool,
    remembered,
  }) => {
    const [id] = ids(1) as [string];
    const handed: string[] = [];
    for (const subscriber of ['ledger', 'accounting'] as const) {
      const handlers = { 'payment.captured': () => void handed.push(subscriber) };
      const answer = receiver({ subscriber, secrets: SECRET, database: pool, handlers });
      await answer(requestOf(eventOf({ id })));
    }
    expect(handed).toEqual(['ledger', 'accounting']);
    expect(await remembered()).toEqual([id, id]);
  });

  test('an older version of a payload is handed over with its version', async ({ ledger }) => {
    const versions: number[] = [];
    const row: Topic = catalog['payment.captured'];
    vi.spyOn(row, 'version', 'get').mockReturnValue(3);
    await ledger(({ version }) => versions.push(version))(eventOf({ id: uuidv7(), version: 2 }));
    expect(versions).toEqual([2]);
  });

  test.for(['of Drizzle', 'PGlite'])(
    'a handler writes in the transaction of a database %s',
    async (kind, { pool }) => {
      const embedded = kind === 'PGlite' ? new PGlite('memory://') : null;
      await embedded?.exec(`${RECEIVED_TABLE} create table effects (event_id uuid not null, place serial)`);
      const drizzled = drizzle({ client: pool });
      let isFirst = true;
      const effect = (id: string) => `insert into effects (event_id) values ('${id}')`;
      const failOnce = () => {
        if (!isFirst) return;
        isFirst = false;
        throw new Error('the first attempt fails');
      };
      const options = { subscriber: 'ledger', secrets: SECRET, onError: () => undefined } as const;
      const answer = embedded
        ? receiver({
            ...options,
            database: embedded,
            handlers: {
              'payment.captured': async ({ id }, tx) => {
                await tx.exec(effect(id));
                failOnce();
              },
            },
          })
        : receiver({
            ...options,
            database: drizzled,
            handlers: {
              'payment.captured': async ({ id }, tx) => {
                await tx.execute(effect(id));
                failOnce();
              },
            },
          });
      const [id, previousid] = ids(2) as [string, string];
      const statuses: number[] = [];
      for (let time = 1; time <= 3; time += 1)
        statuses.push((await answer(requestOf(eventOf({ id, previousid })))).status);
      expect(statuses).toEqual([500, 204, 204]);
      const found = 'select event_id as id from effects';
      expect((await (embedded ? embedded.query(found) : pool.query(found))).rows).toEqual([{ id }]);
      await embedded?.close();
    },
  );
});

describe('a component on Neon', () => {
  test('a handler writes in the transaction of Neon’s Pool, and an event has its effect once', async ({
    pool,
    effects,
  }) => {
    const connection = await connectWithNeon(pool.options.connectionString!);
    onTestFinished(connection.close);
    let fails = true;
    const answer = receiver({
      subscriber: 'ledger',
      secrets: SECRET,
      database: connection.db.$client as NeonPool,
      handlers: {
        'payment.captured': async ({ id }, tx) => {
          await tx.query('insert into effects values ($1)', [id]);
          if (fails) throw new Error('the first attempt fails');
        },
      },
      onError: () => undefined,
    });
    const [id, previousid] = ids(2) as [string, string];
    const event = eventOf({ id, previousid });
    expect((await answer(requestOf(event))).status).toBe(500);
    fails = false;
    expect([(await answer(requestOf(event))).status, (await answer(requestOf([event]))).status]).toEqual([
      204, 204,
    ]);
    expect(await effects()).toEqual([id]);
  });
});

describe('the test event of a smoke test', () => {
  const smoke = { ...eventOf({ id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77' }), type: SMOKE_TEST.topic };

  test('the test event of a smoke test is taken, and no handler is called', async ({ ledger, effects }) => {
    expect(await ledger()(smoke)).toMatchObject({ status: 204 });
    expect(await ledger()(smoke)).toMatchObject({ status: 204 });
    expect(await effects()).toEqual([]);
  });

  test('the test event of a smoke test shows that the table is missing', async ({ ledger, pool }) => {
    await pool.query('alter table postbud_received rename to elsewhere');
    const { body } = await ledger()(smoke);
    await pool.query('alter table elsewhere rename to postbud_received');
    expect(body).toMatchObject({ code: 'no_table' });
  });
});

describe('a batch', () => {
  test('a batch is taken in order, and answered without a count when all of it was taken', async ({
    ledger,
    effects,
  }) => {
    const all = ids(5);
    expect(await ledger()(all.map((id) => eventOf({ id })))).toMatchObject({ status: 204 });
    expect(await effects()).toEqual(all);
  });

  test('a batch is taken up to the event that fails, each in a transaction of its own, and the answer counts them', async ({
    ledger,
    effects,
  }) => {
    const all = ids(5);
    const batch = all.map((id) => eventOf({ id }));
    const answer = ledger(failing(all[2]!, new Error('not this one')));
    expect(await answer(batch)).toMatchObject({ status: 200, body: { delivered: 2 } });
    expect(await effects()).toEqual(all.slice(0, 2));
    // As the bus sends it next.
    expect(await answer(batch.slice(2))).toMatchObject({ status: 500 });
    expect(await ledger()(batch.slice(2))).toMatchObject({ status: 204 });
    expect(await effects()).toEqual(all);
  });

  test('a batch of which some events are known is taken without handing these over again', async ({
    ledger,
    effects,
  }) => {
    const all = ids(4);
    await ledger()(eventOf({ id: all[1]! }));
    expect(await ledger()(all.map((id) => eventOf({ id })))).toMatchObject({ status: 204 });
    expect(await effects()).toEqual([all[1], all[0], all[2], all[3]]);
  });

  test('a batch whose first event fails is answered for that event', async ({ ledger }) => {
    const all = ids(2);
    const answer = ledger(failing(all[0]!, new PermanentError('no such account')));
    expect(await answer(all.map((id) => eventOf({ id })))).toMatchObject({
      status: 410,
      body: { code: 'permanent', detail: 'no such account' },
    });
  });

  test('an empty batch is taken', async ({ ledger }) => {
    expect(await ledger()([])).toMatchObject({ status: 204 });
  });
});

describe('the answer to an event that is not taken', () => {
  test('a handler that throws is answered 500, without the words of its error, and nothing of it is committed', async ({
    ledger,
    effects,
    remembered,
  }) => {
    const thrown: unknown[] = [];
    const answer = ledger(
      () => {
        throw Object.assign(new RangeError('kari.lunde@example.no is not here'), { code: '23505' });
      },
      { onError: (error) => thrown.push(error) },
    );
    const { status, headers, body } = await answer(eventOf({ id: uuidv7() }));
    expect([status, headers.get('content-type')]).toEqual([500, 'application/problem+json']);
    expect(body).toEqual({
      type: 'about:blank',
      status: 500,
      code: 'handler_failed',
      detail: 'The handler threw RangeError 23505.',
    });
    expect(thrown).toEqual([expect.any(RangeError)]);
    expect([await effects(), await remembered()]).toEqual([[], []]);
  });

  test.for(['no error', null, undefined, { status: 3 }])(
    'a handler that throws %j is answered 500',
    async (thrown, { ledger }) => {
      const answer = ledger(() => {
        throw thrown;
      });
      expect(await answer(eventOf({ id: uuidv7() }))).toMatchObject({ status: 500 });
    },
  );

  test('a handler’s error is logged by default without the personal data of the event', async ({ pool }) => {
    const said = vi.spyOn(console, 'error').mockReturnValue(undefined);
    const handlers = {
      'user.signed_up': () => {
        throw new Error('no room for kari.lunde@example.no');
      },
    };
    const answer = receiver({ subscriber: 'intelligence', secrets: SECRET, database: pool, handlers });
    const event = eventOf<'user.signed_up'>({ id: uuidv7(), topic: 'user.signed_up' });
    expect((await answer(requestOf(event))).status).toBe(500);
    expect(said.mock.calls.flat().join()).toMatch(
      /user\.signed_up .* was not taken: Error: no room for \[hidden\]/,
    );
    expect(said.mock.calls.flat().join()).not.toContain('kari');
  });

  test('an error is logged with what caused it, also without the personal data of the event', async ({
    pool,
  }) => {
    const said = vi.spyOn(console, 'error').mockReturnValue(undefined);
    const handlers = {
      'user.signed_up': () => {
        const cause = new Error('kari.lunde@example.no is there already');
        cause.cause = Object.assign(new Error('the outermost one'), { cause });
        throw new Error(`Failed query: ${'x'.repeat(2000)}`, { cause });
      },
    };
    const answer = receiver({ subscriber: 'intelligence', secrets: SECRET, database: pool, handlers });
    const event = eventOf<'user.signed_up'>({ id: uuidv7(), topic: 'user.signed_up' });
    expect((await answer(requestOf(event))).status).toBe(500);
    expect(said.mock.calls.flat().join()).toMatch(
      /was not taken: Error: Failed query: x+\nCaused by: Error: \[hidden\] is there already\n/,
    );
    expect(said.mock.calls.flat().join()).not.toContain('kari');
  });

  test('a PermanentError is answered 410, with its words but without personal data', async ({ ledger }) => {
    const answer = ledger(() => {
      throw new PermanentError('no account for kari.lunde@example.no');
    });
    expect(await answer(eventOf({ id: uuidv7() }))).toMatchObject({
      status: 410,
      body: { code: 'permanent', detail: 'no account for [hidden]' },
    });
  });

  test.for([
    [90_000, '90'],
    [1, '1'],
    [0, '1'],
    [1500, '2'],
  ] as const)(
    'a RetryAfter of %i ms is answered 503 with Retry-After %s',
    async ([ms, seconds], { ledger }) => {
      const { status, headers } = await ledger(() => {
        throw new RetryAfter(ms);
      })(eventOf({ id: uuidv7() }));
      expect([status, headers.get('retry-after')]).toEqual([503, seconds]);
    },
  );

  test('a payload that is newer than the installed catalog waits, and both sides are told what to install', async ({
    ledger,
    effects,
  }) => {
    const told: unknown[] = [];
    const answer = ledger(undefined, { onError: (error) => told.push(error) });
    const { status, headers, body } = await answer(eventOf({ id: uuidv7(), version: 2 }));
    expect([status, headers.get('retry-after')]).toEqual([503, '60']);
    const message = 'Install a newer postbud package: payment.captured is version 2, this one reads up to 1.';
    expect(told).toEqual([expect.objectContaining({ code: 'newer_version', message })]);
    expect(body).toMatchObject({
      code: 'newer_version',
      detail: 'Install a newer postbud package: payment.captured is version 2, this one reads up to 1.',
    });
    expect(await effects()).toEqual([]);
  });

  test('a topic without a handler is refused, and the answer says what to do', async ({
    ledger,
    remembered,
  }) => {
    const event = eventOf<'payment.failed'>({ id: uuidv7(), topic: 'payment.failed' });
    const told: unknown[] = [];
    expect(await ledger(undefined, { onError: (error) => told.push(error) })(event)).toMatchObject({
      status: 501,
      body: {
        code: 'no_handler',
        detail:
          'ledger has no handler for this topic. Add one, or leave the topic out of SUBSCRIBER_LEDGER_TOPICS at the bus.',
      },
    });
    expect(told).toEqual([expect.objectContaining({ code: 'no_handler' })]);
    expect(await ledger()({ ...event, type: 'payment.doubled' })).toMatchObject({
      status: 501,
      body: { detail: expect.stringContaining('does not know the topic') as string },
    });
    expect(await ledger()({ ...event, type: 'toString' })).toMatchObject({ status: 501 });
    expect(await remembered()).toEqual([]);
  });

  test('a database that is down is answered 503 without Retry-After, which the bus takes for an outage', async () => {
    const pool = new pg.Pool({ port: await freePort(), host: '127.0.0.1' });
    const handlers = { 'payment.captured': () => undefined };
    for (const database of [pool, drizzle({ client: pool })]) {
      const told: unknown[] = [];
      const onError = (error: unknown) => told.push(error);
      const answer = receiver({ subscriber: 'ledger', secrets: SECRET, database, handlers, onError });
      const { status, headers, body } = await read(await answer(requestOf(eventOf({ id: uuidv7() }))));
      expect([status, headers.get('retry-after'), body?.code]).toEqual([503, null, 'database_unreachable']);
      expect(told).toEqual([expect.objectContaining({ code: 'ECONNREFUSED' })]);
    }
  });

  test('an onError that throws changes no answer', async () => {
    const database = new pg.Pool({ port: await freePort(), host: '127.0.0.1' });
    const handlers = { 'payment.captured': () => undefined };
    const onError = () => {
      throw new Error('the log is full');
    };
    const answer = receiver({ subscriber: 'ledger', secrets: SECRET, database, handlers, onError });
    const { status, body } = await read(await answer(requestOf(eventOf({ id: uuidv7() }))));
    expect([status, body?.code]).toEqual([503, 'database_unreachable']);
  });

  test.for(['pg', 'Drizzle'])('a missing table is named, on %s', async (driver, { pool }) => {
    const handlers = { 'payment.captured': () => undefined };
    const onError = () => undefined;
    const options = { subscriber: 'ledger', secrets: SECRET, handlers, onError } as const;
    const answer =
      driver === 'pg'
        ? receiver({ ...options, database: pool })
        : receiver({ ...options, database: drizzle({ client: pool }) });
    await pool.query('alter table postbud_received rename to elsewhere');
    const { status, body } = await read(await answer(requestOf(eventOf({ id: uuidv7() }))));
    await pool.query('alter table elsewhere rename to postbud_received');
    expect(status).toBe(500);
    expect(body).toMatchObject({
      code: 'no_table',
      detail: expect.stringContaining('RECEIVED_TABLE') as string,
    });
  });

  test.for(['pg', 'Drizzle'])(
    'a handler that hides the error of a statement is not answered as if it were committed, on %s',
    async (driver, { pool }) => {
      const hide = async (failing: PromiseLike<unknown>) => {
        await Promise.resolve(failing).catch(() => undefined);
      };
      const options = { subscriber: 'ledger', secrets: SECRET, onError: () => undefined } as const;
      const answer =
        driver === 'pg'
          ? receiver({
              ...options,
              database: pool,
              handlers: { 'payment.captured': (_, tx) => hide(tx.query('select * from nowhere')) },
            })
          : receiver({
              ...options,
              database: drizzle({ client: pool }),
              handlers: { 'payment.captured': (_, tx) => hide(tx.execute('select * from nowhere')) },
            });
      const { status, body } = await read(await answer(requestOf(eventOf({ id: uuidv7() }))));
      expect([status, body?.detail]).toEqual([
        500,
        'The handler threw TransactionAborted transaction_aborted.',
      ]);
    },
  );

  test.for(['pg', 'Drizzle'])(
    'a handler that ends its transaction, or keeps it, has failed, and nothing of it is committed, on %s',
    async (driver, { pool, effects, remembered }) => {
      const kept: ((text: string) => PromiseLike<unknown>)[] = [];
      let text = 'select 1';
      const act = async (send: (text: string) => PromiseLike<unknown>, id: string) => {
        kept.push(send);
        await send(`insert into effects values ('${id}')`);
        await send(text);
      };
      const errors: unknown[] = [];
      const onError = (error: unknown) => void errors.push(error);
      const options = { subscriber: 'ledger', secrets: SECRET, onError } as const;
      const answer =
        driver === 'pg'
          ? receiver({
              ...options,
              database: pool,
              handlers: { 'payment.captured': ({ id }, tx) => act((text) => tx.query(text), id) },
            })
          : receiver({
              ...options,
              database: drizzle({ client: pool }),
              handlers: { 'payment.captured': ({ id }, tx) => act((text) => tx.execute(text), id) },
            });
      const [id] = ids(1) as [string];
      for (const command of ['commit', 'rollback; begin', '/* now */ End', 'select pg_advisory_lock(1)']) {
        text = command;
        expect((await answer(requestOf(eventOf({ id })))).status).toBe(500);
      }
      expect(errors).toMatchObject(Array.from({ length: 4 }, () => ({ code: 'transaction_command' })));
      expect([await effects(), await remembered()]).toEqual([[], []]);
      text = 'savepoint mine; rollback to savepoint mine';
      expect((await answer(requestOf(eventOf({ id })))).status).toBe(204);
      for (const send of kept)
        await expect(Promise.resolve().then(() => send('delete from effects'))).rejects.toMatchObject({
          code: 'transaction_ended',
        });
      expect(await effects()).toEqual([id]);
    },
  );

  test('a handler on another client that ends its transaction has failed', async () => {
    const database = new PGlite();
    onTestFinished(() => database.close());
    await database.exec(RECEIVED_TABLE);
    const answer = receiver({
      subscriber: 'ledger',
      secrets: SECRET,
      database,
      handlers: { 'payment.captured': (_, tx) => tx.exec('rollback; begin') },
      onError: () => undefined,
    });
    const { status, body } = await read(await answer(requestOf(eventOf({ id: uuidv7() }))));
    expect([status, body?.detail]).toEqual([
      500,
      'The handler threw TransactionCommand transaction_command.',
    ]);
  });

  test.for(['pg', 'Drizzle'])(
    'an idle connection that is lost ends nothing, on %s',
    async (driver, { pool: admin }) => {
      const pool = new pg.Pool({ connectionString: admin.options.connectionString, max: 1 });
      onTestFinished(() => pool.end());
      const options = { subscriber: 'ledger', secrets: SECRET } as const;
      const handlers = { 'payment.captured': () => undefined };
      const answer =
        driver === 'pg'
          ? receiver({ ...options, database: pool, handlers })
          : receiver({ ...options, database: drizzle({ client: pool }), handlers });
      await answer(requestOf(eventOf({ id: uuidv7() })));
      const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
      const removed = new Promise((resolve) => pool.once('remove', resolve));
      await admin.query('select pg_terminate_backend($1)', [rows[0]!.pid]);
      await removed;
      expect((await answer(requestOf(eventOf({ id: uuidv7() })))).status).toBe(204);
    },
  );

  test('a connection that is lost in the middle of a handler is a failed attempt, and the process goes on', async ({
    ledger,
    pool,
    effects,
  }) => {
    const [id] = ids(1) as [string];
    const answer = ledger(async (_, tx) => {
      const lost = new Promise((resolve) => tx.once('end', resolve));
      const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
      await pool.query('select pg_terminate_backend($1)', [rows[0]!.pid]);
      await lost;
    });
    expect(await answer(eventOf({ id }))).toMatchObject({ status: 500 });
    expect(await ledger()(eventOf({ id }))).toMatchObject({ status: 204 });
    expect(await effects()).toEqual([id]);
  });
});

/** Waits until a connection waits for another one's row. */
async function waitingForLock(pool: pg.Pool): Promise<void> {
  await expect
    .poll(async () => {
      const { rows } = await pool.query(
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      );
      return rows.length;
    })
    .toBe(1);
}
