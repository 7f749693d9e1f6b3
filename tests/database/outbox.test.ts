import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { serve } from 'srvx';
import { describe, expect, inject, onTestFinished, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { emit, fromPrisma } from '../../lib/elsewhere/emit/emit.ts';
import {
  cancelTimer,
  discard,
  forward,
  ForwardFailed,
  InvalidPayload,
  keepForwarding,
  OUTBOX_TABLE,
  record,
  retry,
  setAside,
  waiting,
} from '../../lib/elsewhere/outbox/outbox.ts';
import type { RecordOptions } from '../../lib/elsewhere/outbox/outbox.ts';
import { RECORDING } from '../../lib/elsewhere/outbox/table.ts';
import { DAY } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { drain, gate, numbers, payloadOf, rows } from '../support/bus.ts';
import { PATIENTLY } from '../support/patience.ts';
import { createDatabase } from '../support/postgres.ts';
import { randomFrom } from '../support/random.ts';

/** A statement of the document, by the name in the comment above it. */
function documented(name: string): string {
  const document = readFileSync(new URL('../../docs/elsewhere.md', import.meta.url), 'utf8');
  const [, statement] = new RegExp(`<!-- ${name} -->\\n\`\`\`sql\\n(.*?)\`\`\``, 's').exec(document) ?? [];
  return statement!;
}

const B_2 = { topic: 'booking.approved', id: 'b-2' };

const SECRET = `whsec_${randomBytes(32).toString('base64')}`;

interface Away {
  /** Answers in the bus's place, which has taken the events. */
  answer: ((got: Response) => Response | Promise<Response>) | null;
  /** Whether the next request does not reach the bus. */
  isDown: boolean;
}

/** A service's own Postgres, and the bus's function behind an address, with a say in each answer. */
const test = busTest
  .extend('service', { scope: 'file' }, async ({}, { onCleanup }) => {
    const pool = new pg.Pool({ connectionString: await createDatabase(inject('postgresUrl')), max: 20 });
    onCleanup(async () => await pool.end());
    await pool.query(OUTBOX_TABLE);
    return pool;
  })
  .extend('own', { auto: true }, async ({ service }) => {
    await service.query('truncate postbud_outbox restart identity');
    return service;
  })
  .extend('away', (): Away => ({ answer: null, isDown: false }))
  .extend('url', async ({ bus, away }, { onCleanup }) => {
    vi.stubEnv('DATABASE_URL', bus.url);
    vi.stubEnv('RELAY', 'off');
    vi.stubEnv('PRODUCER_BOOKINGS_SECRET', SECRET);
    vi.resetModules();
    const { default: endpoint } = await import('../../api/events.ts');
    const server = serve({
      port: 0,
      hostname: '127.0.0.1',
      silent: true,
      fetch: async (request) => {
        if (away.isDown) {
          away.isDown = false;
          return new Response('gone', { status: 503, headers: { 'retry-after': '0' } });
        }
        const got = await endpoint.fetch(request);
        return away.answer ? await away.answer(got) : got;
      },
    });
    await server.ready();
    onCleanup(async () => {
      await server.close(true);
      vi.unstubAllEnvs();
    });
    return server.url!;
  });

// What is written is kept from the beginning of each test on.
test.beforeEach(({ output }) => void output.text());

const LONG = 'k'.repeat(255);

const approved = (bookingId: string) => payloadOf('booking.approved', { bookingId });

/** Runs a transaction of the service. */
async function inTransaction(pool: pg.Pool, body: (client: pg.PoolClient) => Promise<void>, end = 'commit') {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await body(client);
    await client.query(end);
  } finally {
    client.release();
  }
}

const recordBooking = async (pool: pg.Pool, id: string, end?: string) => {
  await inTransaction(
    pool,
    async (client) => void (await record(client, 'booking.approved', approved(id), { dedupeKey: id })),
    end,
  );
};

const keysOf = async (bus: { db: Parameters<typeof rows>[0] }) =>
  (await rows<{ key: string }>(bus.db, 'select dedupe_key as key from events order by created_at, seq')).map(
    ({ key }) => key,
  );

describe('postbud/outbox', () => {
  test('what a transaction recorded is on the bus once it is forwarded, and nothing of one that was rolled back', async ({
    bus,
    own,
    url,
  }) => {
    await recordBooking(own, 'rolled-back', 'rollback');
    await inTransaction(own, async (client) => {
      const { id } = await record(client, 'booking.approved', approved('b-1'), {
        orderingKey: 'hall 7',
        correlationId: 'case 12',
        causationId: 'req_9',
      });
      expect(id).toMatch(/^[\da-f-]{36}$/);
    });
    expect(await waiting(own)).toEqual({ count: 1, oldestAgeSeconds: expect.any(Number) as number });
    expect(await forward(own, { url, secret: SECRET })).toEqual({ forwarded: 1, isHeldBack: false });
    expect(await waiting(own)).toEqual({ count: 0, oldestAgeSeconds: null });
    expect(
      await rows(
        bus.db,
        'select topic, producer, ordering_key, correlation_id, causation_id, version, payload from events',
      ),
    ).toEqual([
      {
        topic: 'booking.approved',
        producer: 'bookings',
        ordering_key: 'hall 7',
        correlation_id: 'case 12',
        causation_id: 'req_9',
        version: catalog['booking.approved'].version,
        payload: approved('b-1'),
      },
    ]);
  });

  test('what a transaction recorded to happen later is a timer of the bus, is moved, and is cancelled in its turn', async ({
    bus,
    own,
    url,
  }) => {
    const timers = () =>
      rows(
        bus.db,
        `select timer_key, payload ->> 'bookingId' as booking, (due_at - clock_timestamp()) > interval '47 hours' as is_moved
         from timers order by timer_key`,
      );
    const set = async (client: pg.PoolClient, timerKey: string, at: string) =>
      await record(client, 'booking.approved', approved(timerKey), { at, timerKey });
    await inTransaction(own, async (client) => {
      await set(client, 'b-1', '24h');
      await set(client, 'b-2', '24h');
      await set(client, 'b-3', '24h');
    });
    await inTransaction(
      own,
      async (client) => await cancelTimer(client, 'booking.approved', 'b-3'),
      'rollback',
    );
    expect(await forward(own, { url, secret: SECRET })).toMatchObject({ forwarded: 3 });
    expect(await timers()).toEqual(
      ['b-1', 'b-2', 'b-3'].map((key) => ({ timer_key: key, booking: key, is_moved: false })),
    );
    await inTransaction(own, async (client) => {
      await cancelTimer(client, 'booking.approved', 'b-1');
      await set(client, 'b-2', '48h');
    });
    await forward(own, { url, secret: SECRET });
    expect(await timers()).toEqual([
      { timer_key: 'b-2', booking: 'b-2', is_moved: true },
      { timer_key: 'b-3', booking: 'b-3', is_moved: false },
    ]);
    await drain(bus.db, [], { now: Date.now() + 3 * DAY });
    expect(
      await rows(bus.db, `select payload ->> 'bookingId' as booking from events order by created_at, seq`),
    ).toEqual([{ booking: 'b-3' }, { booking: 'b-2' }]);
  });

  test('a payload that does not fit is refused before the database is asked, and the transaction goes on', async ({
    own,
  }) => {
    await inTransaction(own, async (client) => {
      const wrong = record(client, 'booking.approved', { bookingId: 7 } as never);
      await expect(wrong).rejects.toBeInstanceOf(InvalidPayload);
      await record(client, 'booking.approved', approved('b-1'));
    });
    expect(await waiting(own)).toMatchObject({ count: 1 });
  });

  test.for<[what: string, options: RecordOptions, isTaken: boolean]>([
    ['an empty ordering key', { orderingKey: '' }, true],
    ['keys of 255 characters', { orderingKey: LONG, dedupeKey: LONG, correlationId: LONG }, true],
    ['an empty dedupe key', { dedupeKey: '' }, false],
    ['an empty correlation id', { correlationId: '' }, false],
    ['an empty causation id', { causationId: '' }, false],
    ['an empty traceparent', { traceparent: '' }, false],
    ['an empty timer key', { at: '24h', timerKey: '' }, false],
    ['a timer key of 256 characters', { at: '24h', timerKey: `${LONG}k` }, false],
    ['a NUL in its ordering key', { orderingKey: 'a\0' }, false],
  ])(
    'an event with %s is taken by the bus, or refused before the database is asked',
    async ([, options, isTaken], { bus, own, url }) => {
      await inTransaction(own, async (client) => {
        const recorded = record(client, 'booking.approved', approved('b-1'), options);
        if (isTaken) await recorded;
        else await expect(recorded).rejects.toBeInstanceOf(InvalidPayload);
        await record(client, 'booking.approved', approved('b-2'), { dedupeKey: 'b-2' });
      });
      expect(await forward(own, { url, secret: SECRET })).toMatchObject({ forwarded: isTaken ? 2 : 1 });
      expect(await keysOf(bus)).toHaveLength(isTaken ? 2 : 1);
    },
  );

  test.for([
    ['empty', ''],
    ['too long', `${LONG}k`],
    ['with a NUL', 'a\0'],
    ['with half a character', '\ud800'],
  ] as const)(
    'a cancellation of a timer key that no timer can have, %s, is refused before the database is asked',
    async ([, timerKey], { own }) => {
      await inTransaction(own, async (client) => {
        const cancelled = cancelTimer(client, 'booking.approved', timerKey);
        await expect(cancelled).rejects.toMatchObject({
          code: 'invalid_payload',
          issues: [{ path: 'timerKey' }],
        });
        await record(client, 'booking.approved', approved('b-1'));
      });
      expect(await waiting(own)).toMatchObject({ count: 1 });
    },
  );

  test('a pool is refused, in whose place the client of the transaction is asked for', async ({ own }) => {
    const onPool = record(own as never, 'booking.approved', approved('b-1'));
    await expect(onPool).rejects.toThrow('record takes a transaction, got a pool');
    const emitted = emit(own as never, 'booking.approved', approved('b-1'));
    await expect(emitted).rejects.toThrow("client.query('begin'); …; await emit(client, …)");
    expect(await waiting(own)).toMatchObject({ count: 0 });
  });

  test('a client of Prisma’s kind is taken through its adapter', async ({ own }) => {
    await inTransaction(own, async (client) => {
      const prisma = {
        $queryRawUnsafe: async (text: string, ...values: unknown[]) =>
          (await client.query(text, values)).rows,
      };
      await record(fromPrisma(prisma), 'booking.approved', approved('b-1'));
    });
    expect(await waiting(own)).toMatchObject({ count: 1 });
  });

  type Step = (client: pg.PoolClient, own: pg.Pool) => Promise<unknown>;
  const recordFirst: Step = async (client) =>
    await record(client, 'booking.approved', approved('first'), { dedupeKey: 'first' });
  const commit: Step = async (client) => await client.query('commit');

  /**
   * Whether a forwarder has read the locks since. Where it may send up to some place it reads the events right after them,
   * on the same connection. Asked on a connection of its own: the pool's could be the forwarder's, whose last query this
   * would be then.
   */
  const looked = async (own: pg.Pool, since: string) => {
    const client = new pg.Client(own.options);
    await client.connect();
    const { rowCount } = await client.query(
      `select from pg_stat_activity
       where (query like '%from pg_locks%' or query like '%from postbud_outbox_refused as refused%')
         and pid <> pg_backend_pid() and query_start > $1::timestamptz + interval '100 milliseconds'
         and state = 'idle' and datname = current_database()`,
      [since],
    );
    await client.end();
    return rowCount! > 0;
  };
  const timeOf = async (own: pg.Pool) =>
    (await own.query<{ now: string }>('select clock_timestamp()::text as now')).rows[0]!.now;

  /** Makes a role that may write to the outbox but not read its sequence. */
  const makeClerk = async (own: pg.Pool) => {
    await own.query(`
      drop role if exists clerk;
      create role clerk;
      grant insert, select on postbud_outbox to clerk`);
    onTestFinished(async () => void (await own.query('drop owned by clerk; drop role clerk')));
  };
  const asClerk: Step = async (client) => await client.query('set local role clerk');

  const prepareAndCommitLater: Step = async (client, own) => {
    const now = await timeOf(own);
    // It would outlive the test, and its locks with it.
    onTestFinished(async () => {
      const left = await own.query(`select from pg_prepared_xacts where gid = 'later'`);
      if (left.rowCount! > 0) await own.query(`rollback prepared 'later'`);
    });
    await client.query(`prepare transaction 'later'`);
    await vi.waitFor(async () => expect(await looked(own, now)).toBe(true), PATIENTLY);
    await client.query(`commit prepared 'later'`);
  };

  /** A client in a transaction, which does not outlive the test. */
  const opened = async (own: pg.Pool) => {
    const client = await own.connect();
    onTestFinished(() => client.release(true));
    await client.query('begin');
    return client;
  };

  test.for<[what: string, recordIt: Step, end: Step]>([
    ['that was open before it', recordFirst, commit],
    [
      'whose first event was rolled back to a savepoint',
      async (client, own) => {
        await client.query('savepoint before');
        await record(client, 'booking.approved', approved('never'), { dedupeKey: 'never' });
        await client.query('rollback to savepoint before');
        await recordFirst(client, own);
      },
      commit,
    ],
    [
      'of an earlier release of the package',
      async (client) => {
        await client.query('select pg_advisory_xact_lock_shared($1, 0)', [RECORDING]);
        const event = { specversion: '1.0', id: 'first', source: 'bookings', type: 'booking.approved' };
        await client.query(`insert into postbud_outbox (topic, id, event) values ($1, 'first', $2)`, [
          'booking.approved',
          JSON.stringify({ ...event, data: approved('first') }),
        ]);
      },
      commit,
    ],
    [
      'of a role that may not read the sequence',
      async (client, own) => {
        await asClerk(client, own);
        await recordFirst(client, own);
      },
      commit,
    ],
    ['that is prepared, and committed later', recordFirst, prepareAndCommitLater],
    [
      'of a role that may not read the sequence, that is prepared, and committed later,',
      async (client, own) => {
        await asClerk(client, own);
        await recordFirst(client, own);
      },
      prepareAndCommitLater,
    ],
  ])(
    'an event waits for a transaction %s and may have an earlier one',
    async ([, recordIt, end], { bus, own, url }) => {
      await makeClerk(own);
      const client = await opened(own);
      await recordIt(client, own);
      await recordBooking(own, 'second');
      const now = await timeOf(own);
      const pass = forward(own, { url, secret: SECRET });
      await vi.waitFor(async () => expect(await looked(own, now)).toBe(true), PATIENTLY);
      expect(await keysOf(bus)).toEqual([]);
      await end(client, own);
      expect(await pass).toEqual({ forwarded: 2, isHeldBack: false });
      expect(await keysOf(bus)).toEqual(['first', 'second']);
    },
  );

  test('an event that was committed before a transaction began to record does not wait for it', async ({
    bus,
    own,
    url,
  }) => {
    await recordBooking(own, 'before');
    await recordBooking(own, 'before too');
    const client = await opened(own);
    await record(client, 'booking.approved', approved('open'), { dedupeKey: 'open' });
    await record(client, 'booking.approved', approved('open'), { dedupeKey: 'open too' });
    await recordBooking(own, 'after');
    const pass = forward(own, { url, secret: SECRET });
    await vi.waitFor(async () => expect(await keysOf(bus)).toEqual(['before', 'before too']), PATIENTLY);
    await client.query('commit');
    expect(await pass).toEqual({ forwarded: 5, isHeldBack: false });
    expect((await keysOf(bus)).slice(2)).toEqual(['open', 'open too', 'after']);
  });

  test.for<[whose: string, begin: Step]>([
    ['', async () => undefined],
    ['as a role that may not read the sequence, ', asClerk],
  ])(
    'while some transaction is always open that has recorded, %sand the bus is away now and then, events come in the turn of those that end',
    async ([, begin], { bus, own, away, url }) => {
      await makeClerk(own);
      const done = new AbortController();
      onTestFinished(() => done.abort());
      const forwarding = keepForwarding(own, { url, secret: SECRET, signal: done.signal, everyMs: 5 });
      let open: pg.PoolClient | null = null;
      const expected: string[] = [];
      for (const number of numbers(1, 5)) {
        const client = await opened(own);
        const [mine, between] = [`open-${number}`, `between-${number}`];
        await begin(client, own);
        await record(client, 'booking.approved', approved(mine), { dedupeKey: mine });
        away.isDown = true;
        await open?.query('commit');
        await vi.waitFor(async () => expect(await keysOf(bus)).toEqual(expected), PATIENTLY);
        await recordBooking(own, between);
        const now = await timeOf(own);
        await vi.waitFor(async () => expect(await looked(own, now)).toBe(true), PATIENTLY);
        expected.push(mine, between);
        open = client;
      }
      await open!.query('commit');
      await vi.waitFor(async () => expect(await keysOf(bus)).toEqual(expected), PATIENTLY);
      done.abort();
      await forwarding;
    },
  );

  test('several forwarders, overlapping transactions, rollbacks and a bus that is away or whose answers are lost: each event once, in order of creation', async ({
    bus,
    own,
    away,
    url,
  }) => {
    const random = randomFrom(7);
    let answers = 0;
    away.answer = (got) => ((answers += 1) % 3 === 1 ? new Response('gone', { status: 502 }) : got);
    const done = new AbortController();
    const errors: unknown[] = [];
    const forwarders = numbers(1, 3).map(() =>
      keepForwarding(own, {
        url,
        secret: SECRET,
        signal: done.signal,
        everyMs: 5,
        onError: (error) => errors.push(error),
      }),
    );
    const created: string[] = [];
    await Promise.all(
      numbers(1, 8).map(async (producer) => {
        for (const number of numbers(1, 25)) {
          const id = `p${producer}-${number}`;
          await recordBooking(own, id, random() < 0.2 ? 'rollback' : 'commit');
        }
      }),
    );
    // Removed once they are forwarded, so the order of creation is read off the bus's own answer below.
    await vi.waitFor(async () => expect((await waiting(own)).count).toBe(0), PATIENTLY);
    done.abort();
    await Promise.all(forwarders);
    const keys = await keysOf(bus);
    expect(new Set(keys).size).toBe(keys.length);
    for (const producer of numbers(1, 8)) {
      const own8 = keys
        .filter((key) => key.startsWith(`p${producer}-`))
        .map((key) => Number(key.split('-')[1]));
      expect(own8).toEqual(own8.toSorted((one, other) => one - other));
      created.push(...own8.map(String));
    }
    expect(errors.length).toBeGreaterThan(0);
    expect(errors.every((error) => error instanceof ForwardFailed && error.status === 502)).toBe(true);
    expect(created.length).toBeGreaterThan(100);
  });

  /** Makes an event of the outbox one that the bus refuses: of a version that it does not have. */
  const spoil = async (pool: pg.Pool, ...ids: string[]) =>
    await pool.query(
      `update postbud_outbox set event = event || '{"schemaversion": 9}' where id = any ($1)`,
      [ids],
    );
  const mend = async (pool: pg.Pool, id: string) =>
    await pool.query(`update postbud_outbox set event = event - 'schemaversion' where id = $1`, [id]);

  const recordKeyed = async (pool: pg.Pool, ...events: [id: string, orderingKey: string][]) => {
    await inTransaction(pool, async (client) => {
      for (const [id, orderingKey] of events)
        await record(client, 'booking.approved', approved(id), { dedupeKey: id, orderingKey });
    });
  };

  type Change = { readonly topic?: string; readonly event: object };

  test.for<[what: string, change: Change, status: number, code: string, reason: string]>([
    [
      'of a newer version',
      { event: { schemaversion: 9 } },
      400,
      'validation_failed',
      'this bus has version 1 of booking.approved',
    ],
    ['whose payload does not fit', { event: { data: {} } }, 400, 'validation_failed', 'data.bookingId: '],
    [
      'of an unknown topic',
      { topic: 'booking.aproved', event: { type: 'booking.aproved' } },
      400,
      'validation_failed',
      "type: unknown topic; did you mean 'booking.approved'?",
    ],
    [
      'of another producer’s topic',
      {
        topic: 'payment.captured',
        event: { type: 'payment.captured', source: 'payments', data: payloadOf('payment.captured') },
      },
      403,
      'not_your_topic',
      'not by the source of its events',
    ],
    [
      'of the id of another fact',
      { event: { id: 'b-1' } },
      409,
      'conflicting_duplicate',
      'the event recorded for it differs in data',
    ],
    [
      'that is too large',
      { event: { note: 'x'.repeat(1024 * 1024) } },
      413,
      'body_too_large',
      'The body is longer than',
    ],
  ])(
    'an event %s is set aside once that was reported, and others go on in the same pass',
    async ([, { topic = 'booking.approved', event }, status, code, reason], { bus, own, url }) => {
      await recordKeyed(own, ['b-1', 'k'], ['wrong', 'k'], ['b-2', 'other'], ['b-3', 'another']);
      await own.query(
        `update postbud_outbox set topic = $1, event = event || $2::text::jsonb where id = 'wrong'`,
        [topic, JSON.stringify(event)],
      );
      const told: unknown[] = [];
      const onError = (error: unknown) => told.push(error);
      expect(await forward(own, { url, secret: SECRET, onError })).toEqual({
        forwarded: 3,
        isHeldBack: false,
      });
      expect(await keysOf(bus)).toEqual(['b-1', 'b-2', 'b-3']);
      const refused = { topic, id: 'wrong', code, reason: expect.stringContaining(reason) as string };
      expect(told).toEqual([
        expect.objectContaining({
          code: 'forward_failed',
          status,
          refused,
          message: expect.stringContaining('It is set aside') as string,
        }),
      ]);
      expect(await setAside(own)).toEqual([{ ...refused, refusedAt: expect.any(Date) as Date }]);
      expect((await own.query(documented('set-aside.sql'))).rows).toEqual([
        { ...refused, refused_at: expect.any(Date) as Date },
      ]);
      // It is not sent again by itself.
      expect(await forward(own, { url, secret: SECRET, onError })).toEqual({
        forwarded: 0,
        isHeldBack: false,
      });
      expect(told).toHaveLength(1);
      expect(await waiting(own)).toMatchObject({ count: 1 });
    },
  );

  test('a refusal and a bus that is away are written to standard error where nobody asked for them', async ({
    own,
    url,
    away,
  }) => {
    await recordBooking(own, 'b-1');
    await spoil(own, 'b-1');
    const written = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    onTestFinished(() => written.mockRestore());
    await forward(own, { url, secret: SECRET });
    expect(written.mock.calls.join('\n')).toContain(
      'the bus refused booking.approved b-1 with 400 validation_failed: schemaversion: ',
    );
    await retry(own, { topic: 'booking.approved', id: 'b-1' }, 'another try');
    away.isDown = true;
    const done = new AbortController();
    onTestFinished(() => done.abort());
    const forwarding = keepForwarding(own, { url, secret: SECRET, signal: done.signal });
    await vi.waitFor(() => expect(written).toHaveBeenCalledTimes(2), PATIENTLY);
    done.abort();
    await forwarding;
    expect(written.mock.lastCall!.join(' ')).toContain('the bus answered 503');
  });

  test.for<[how: string, decide: (pool: pg.Pool) => Promise<unknown>, arrives: string[]]>([
    [
      'retry',
      async (pool) => expect(await retry(pool, B_2, 'mended')).toBe(true),
      ['b-1', 'free', 'b-2', 'b-3', 'b-4'],
    ],
    [
      'the documented retry',
      async (pool) => await pool.query(documented('retry.sql')),
      ['b-1', 'free', 'b-2', 'b-3', 'b-4'],
    ],
    [
      'discard',
      async (pool) => expect(await discard(pool, B_2, 'wrong')).toBe(true),
      ['b-1', 'free', 'b-3', 'b-4'],
    ],
    [
      'the documented discard',
      async (pool) => await pool.query(documented('discard.sql')),
      ['b-1', 'free', 'b-3', 'b-4'],
    ],
  ])(
    'later events of the same topic and ordering key wait behind one that is set aside, until %s',
    async ([, decide, arrives], { bus, own, url }) => {
      await recordKeyed(own, ['b-1', 'k'], ['b-2', 'k'], ['b-3', 'k'], ['free', 'other']);
      await spoil(own, 'b-2');
      const pass = () => forward(own, { url, secret: SECRET, onError: () => undefined });
      await pass();
      await recordKeyed(own, ['b-4', 'k']);
      expect(await pass()).toEqual({ forwarded: 0, isHeldBack: false });
      expect(await keysOf(bus)).toEqual(['b-1', 'free']);
      await mend(own, 'b-2');
      await decide(own);
      expect(await setAside(own)).toEqual([]);
      await pass();
      expect(await keysOf(bus)).toEqual(arrives);
      expect(await waiting(own)).toMatchObject({ count: 0 });
    },
  );

  test('a decision and its reason are kept, of a discarded event with the event; what is not set aside is not decided', async ({
    own,
    url,
  }) => {
    const decided = async () =>
      (
        await own.query(`select id, decision, decided_because, event ->> 'id' as event from postbud_outbox_refused
        where topic = 'booking.approved' and id in ('kept-1', 'kept-2') order by id`)
      ).rows as unknown[];
    await recordKeyed(own, ['kept-1', 'a'], ['kept-2', 'b']);
    const [first, second] = ['kept-1', 'kept-2'].map((id) => ({ topic: 'booking.approved', id }));
    expect([await retry(own, first!, 'too early'), await discard(own, second!, 'too early')]).toEqual([
      false,
      false,
    ]);
    await spoil(own, 'kept-1', 'kept-2');
    const pass = () => forward(own, { url, secret: SECRET, onError: () => undefined });
    await pass();
    await expect(discard(own, second!, ' ')).rejects.toThrow(
      "because: expected a reason, for example 'recorded for",
    );
    await discard(own, second!, 'for the wrong hall');
    await retry(own, first!, 'perhaps now');
    expect(await decided()).toEqual([
      { id: 'kept-1', decision: 'retry', decided_because: 'perhaps now', event: null },
      { id: 'kept-2', decision: 'discard', decided_because: 'for the wrong hall', event: 'kept-2' },
    ]);
    await pass();
    expect(await setAside(own)).toMatchObject([{ id: 'kept-1' }]);
    expect([await discard(own, second!, 'again'), await retry(own, second!, 'again')]).toEqual([
      false,
      false,
    ]);
  });

  test('an order is that of the topic’s own key where none was given, and of the whole topic where it has none', async ({
    bus,
    own,
    url,
  }) => {
    await inTransaction(own, async (client) => {
      for (const [id, bookingId] of [
        ['r-1', 'a'],
        ['r-2', 'a'],
        ['r-3', 'b'],
      ] as const)
        await record(client, 'booking.rescheduled', payloadOf('booking.rescheduled', { bookingId }), {
          dedupeKey: id,
        });
      for (const id of ['a-1', 'a-2'])
        await record(client, 'booking.approved', approved(id), { dedupeKey: id });
    });
    await spoil(own, 'r-1', 'a-1');
    await forward(own, { url, secret: SECRET, onError: () => undefined });
    expect(await keysOf(bus)).toEqual(['r-3']);
  });

  test('a timer and its cancellation do not overtake each other, whatever their keys', async ({
    bus,
    own,
    url,
  }) => {
    const timer = async (client: pg.PoolClient, id: string, timerKey: string, orderingKey: string) =>
      await record(client, 'booking.approved', approved(id), {
        at: '24h',
        timerKey,
        dedupeKey: id,
        orderingKey,
      });
    await inTransaction(own, async (client) => {
      await timer(client, 'refused', 't-1', 'k-1');
      await cancelTimer(client, 'booking.approved', 't-1');
      await timer(client, 'behind', 't-2', 'k-1');
      await cancelTimer(client, 'booking.approved', 't-2');
      await timer(client, 'free', 't-3', 'k-3');
    });
    await spoil(own, 'refused');
    const pass = () => forward(own, { url, secret: SECRET, onError: () => undefined });
    const timers = () => rows(bus.db, 'select timer_key from timers order by timer_key');
    expect(await pass()).toMatchObject({ forwarded: 1 });
    expect(await timers()).toEqual([{ timer_key: 't-3' }]);
    await mend(own, 'refused');
    await retry(own, { topic: 'booking.approved', id: 'refused' }, 'mended');
    expect(await pass()).toMatchObject({ forwarded: 4 });
    expect(await timers()).toEqual([{ timer_key: 't-3' }]);
  });

  test.for<[what: string, answer: () => Response]>([
    ['nothing that is a bus', () => new Response('<h1>Bad request</h1>', { status: 400 })],
    ['a wrong secret', () => Response.json({ code: 'invalid_signature' }, { status: 401 })],
    ['a firewall', () => new Response('<h1>Forbidden</h1>', { status: 403 })],
    ['a wrong address', () => Response.json({ code: 'not_found' }, { status: 404 })],
    ['another conflict', () => new Response('conflict', { status: 409 })],
    ['too many requests', () => Response.json({ code: 'rate_limited' }, { status: 429 })],
    ['a broken bus', () => Response.json({ code: 'internal' }, { status: 500 })],
    [
      'a redirect',
      () => new Response(null, { status: 308, headers: { location: 'https://bus.example.no' } }),
    ],
  ])(
    'after an answer of %s nothing is set aside, and all waits and is sent again',
    async ([, answer], { bus, own, away, url }) => {
      await recordBooking(own, 'b-1');
      away.answer = answer;
      const told: unknown[] = [];
      const onError = (error: unknown) => told.push(error);
      await expect(forward(own, { url, secret: SECRET, onError })).rejects.toMatchObject({
        code: 'forward_failed',
        status: answer().status,
        refused: null,
      });
      expect([told, await setAside(own)]).toEqual([[], []]);
      away.answer = null;
      expect(await forward(own, { url, secret: SECRET })).toEqual({ forwarded: 1, isHeldBack: false });
      expect(await keysOf(bus)).toEqual(['b-1']);
    },
  );

  test('in a batch every event but those of refused orders arrives in the same pass, also where the answer names none', async ({
    bus,
    own,
    url,
  }) => {
    const ids = numbers(1, 150).map((number) => `n-${number}`);
    await recordKeyed(own, ...ids.map((id): [string, string] => [id, id]));
    await spoil(own, 'n-1', 'n-70', 'n-150');
    await own.query(
      `update postbud_outbox set event = event || '{"type": "payment.captured"}' || jsonb_build_object('data', $1::text::jsonb)
       where id in ('n-40', 'n-41')`,
      [JSON.stringify(payloadOf('payment.captured'))],
    );
    const told: unknown[] = [];
    await forward(own, {
      url,
      secret: SECRET,
      onError: (error) => told.push((error as ForwardFailed).refused?.id),
    });
    const wrong = ['n-1', 'n-40', 'n-41', 'n-70', 'n-150'];
    expect(told.toSorted()).toEqual(wrong.toSorted());
    expect((await setAside(own)).map(({ id }) => id)).toEqual(wrong);
    expect(await keysOf(bus)).toEqual(ids.filter((id) => !wrong.includes(id)));
  });

  test('a forwarder that ends between the report and the setting aside leaves the event where it was; the next one reports it again', async ({
    own,
    url,
  }) => {
    await recordBooking(own, 'b-1');
    await spoil(own, 'b-1');
    const dying = {
      query: async (text: string, values: unknown[]) => {
        if (text.includes('insert into postbud_outbox_refused')) throw new Error('killed');
        return await own.query(text, values);
      },
    };
    const told: unknown[] = [];
    const options = { url, secret: SECRET, onError: (error: unknown) => told.push(error) };
    await expect(forward(dying, options)).rejects.toThrow('killed');
    expect(await setAside(own)).toEqual([]);
    await forward(own, options);
    expect([told.length, (await setAside(own)).length]).toEqual([2, 1]);
  });

  test('two forwarders that are refused the same event set it aside once, and neither sends what is behind it', async ({
    bus,
    own,
    away,
    url,
  }) => {
    await recordKeyed(own, ['b-1', 'k'], ['b-2', 'k'], ['free', 'other']);
    await spoil(own, 'b-1');
    const bothRefused = gate();
    let refusals = 0;
    away.answer = async (got) => {
      if (got.status !== 400) return got;
      if ((refusals += 1) === 2) bothRefused.open();
      await bothRefused.opened;
      return got;
    };
    const pass = async () => await forward(own, { url, secret: SECRET, onError: () => undefined });
    await Promise.all([pass(), pass()]);
    expect(await setAside(own)).toMatchObject([{ id: 'b-1' }]);
    expect(await keysOf(bus)).toEqual(['free']);
  });

  test('a refusal of a forwarder that comes after the discard of another one changes nothing', async ({
    own,
    away,
    url,
  }) => {
    await recordKeyed(own, ['late', 'k']);
    await spoil(own, 'late');
    const [hasArrived, mayGo] = [gate(), gate()];
    away.answer = async (got) => {
      away.answer = null;
      hasArrived.open();
      await mayGo.opened;
      return got;
    };
    const pass = async () => await forward(own, { url, secret: SECRET, onError: () => undefined });
    const slow = pass();
    await hasArrived.opened;
    await pass();
    await discard(own, { topic: 'booking.approved', id: 'late' }, 'wrong');
    mayGo.open();
    await slow;
    expect(await setAside(own)).toEqual([]);
    const { rows: kept } = await own.query(`select decision from postbud_outbox_refused where id = 'late'`);
    expect(kept).toEqual([{ decision: 'discard' }]);
  });

  test('in a service that has not made the second table a refused event holds up those behind it, and the error says what to do', async ({
    bus,
    own,
    url,
  }) => {
    await recordBooking(own, 'b-1');
    await recordBooking(own, 'b-2');
    await recordBooking(own, 'b-3');
    await spoil(own, 'b-2');
    await own.query('drop table postbud_outbox_refused');
    onTestFinished(async () => void (await own.query(OUTBOX_TABLE)));
    await expect(forward(own, { url, secret: SECRET })).rejects.toMatchObject({
      status: 400,
      refused: { topic: 'booking.approved', id: 'b-2' },
      message: expect.stringContaining('run OUTBOX_TABLE of this release in a migration') as string,
    });
    expect(await keysOf(bus)).toEqual(['b-1']);
    await own.query(OUTBOX_TABLE);
    await own.query(OUTBOX_TABLE);
    await forward(own, { url, secret: SECRET, onError: () => undefined });
    expect(await setAside(own)).toMatchObject([{ id: 'b-2' }]);
    expect(await waiting(own)).toMatchObject({ count: 2 });
  });

  test('the tables are found by the search path, also behind a schema with names of theirs and of types', async ({
    bus,
    url,
  }) => {
    const connectionString = await createDatabase(inject('postgresUrl'));
    const [plain, forwarder] = ['', '-c search_path=hostile,app'].map(
      (options) => new pg.Pool({ connectionString, options }),
    );
    onTestFinished(async () => void (await Promise.all([plain!.end(), forwarder!.end()])));
    await plain!.query(`create schema app; set search_path = app; ${OUTBOX_TABLE}`);
    await plain!
      .query(`create schema hostile; create domain hostile.jsonb as int; create domain hostile.text as int;
      create table hostile.events (id int)`);
    await inTransaction(plain!, async (client) => {
      await client.query("set local search_path = ''");
      await client.query('set local search_path = app');
      for (const id of ['b-1', 'wrong'])
        await record(client, 'booking.approved', approved(id), { dedupeKey: id, orderingKey: id });
    });
    await spoil(forwarder!, 'wrong');
    await forward(forwarder!, { url, secret: SECRET, onError: () => undefined });
    expect(await keysOf(bus)).toEqual(['b-1']);
    expect(await setAside(forwarder!)).toMatchObject([{ id: 'wrong' }]);
    expect(await discard(forwarder!, { topic: 'booking.approved', id: 'wrong' }, 'wrong')).toBe(true);
    expect(await waiting(forwarder!)).toMatchObject({ count: 0 });
  });

  test('batches keep within what the bus takes in one request', async ({ bus, own, url }) => {
    const reason = 'ø'.repeat(10_000);
    for (const number of numbers(1, 110)) {
      await inTransaction(own, async (client) => {
        await record(client, 'booking.cancelled', payloadOf('booking.cancelled', { reason }), {
          dedupeKey: `b-${number}`,
        });
      });
    }
    expect(await forward(own, { url, secret: SECRET })).toEqual({ forwarded: 110, isHeldBack: false });
    expect(await keysOf(bus)).toEqual(numbers(1, 110).map((number) => `b-${number}`));
  });

  test.for<[what: string, answer: () => Response]>([
    ['a page', () => new Response('<h1>Velkommen</h1>')],
    ['nothing', () => new Response(null, { status: 204 })],
    ['other JSON', () => Response.json({ ok: true })],
    ['fewer events', () => Response.json({ events: [] })],
    [
      'the events in another order',
      () => Response.json({ events: ['b-2', 'b-1'].map((id) => ({ id, eventId: null, duplicate: false })) }),
    ],
  ])(
    'an event stays where a server that is no bus answers 2xx with %s',
    async ([, answer], { bus, own, away, url }) => {
      await recordBooking(own, 'b-1');
      await recordBooking(own, 'b-2');
      away.answer = answer;
      await expect(forward(own, { url, secret: SECRET })).rejects.toMatchObject({
        code: 'forward_failed',
        status: answer().status,
        refused: null,
        message: expect.stringContaining('expected the answer of a bus') as string,
      });
      expect(await waiting(own)).toMatchObject({ count: 2 });
      away.answer = null;
      expect(await forward(own, { url, secret: SECRET })).toEqual({ forwarded: 2, isHeldBack: false });
      expect(await keysOf(bus)).toEqual(['b-1', 'b-2']);
    },
  );

  test('an answer whose connection is lost in the middle is a ForwardFailed, and the events stay', async ({
    own,
    url,
  }) => {
    await recordBooking(own, 'b-1');
    const broken = new ReadableStream({
      pull(controller) {
        controller.error(new TypeError('terminated'));
      },
    });
    vi.spyOn(globalThis, 'fetch').mockResolvedValueOnce(new Response(broken));
    await expect(forward(own, { url, secret: SECRET })).rejects.toMatchObject({
      code: 'forward_failed',
      status: null,
    });
    expect(await waiting(own)).toMatchObject({ count: 1 });
    expect(await forward(own, { url, secret: SECRET })).toEqual({ forwarded: 1, isHeldBack: false });
  });

  test('a restart of the service’s Postgres between two passes ends neither the process nor the forwarding', async ({
    bus,
    own,
    url,
  }) => {
    const pool = new pg.Pool({ ...own.options, application_name: 'forwarder' });
    const done = new AbortController();
    const forwarding = keepForwarding(pool, { url, secret: SECRET, signal: done.signal });
    await recordBooking(own, 'before');
    await vi.waitFor(async () => expect(await keysOf(bus)).toEqual(['before']), PATIENTLY);
    const lost = new Promise((resolve) => pool.once('remove', resolve));
    await vi.waitFor(async () => {
      const { rowCount } = await own.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'forwarder' and state = 'idle'
           and clock_timestamp() - state_change > interval '200 milliseconds'`,
      );
      expect(rowCount).toBeGreaterThan(0);
    }, PATIENTLY);
    await lost;
    await recordBooking(own, 'after');
    await vi.waitFor(async () => expect(await keysOf(bus)).toEqual(['before', 'after']), PATIENTLY);
    done.abort();
    await forwarding;
    await pool.end();
  });

  test('a bus that asks for no pause is not asked again at once', async ({ own, away, url }) => {
    await recordBooking(own, 'waits');
    away.answer = () => new Response('busy', { status: 503, headers: { 'retry-after': '0' } });
    const done = new AbortController();
    const failedAt: number[] = [];
    await keepForwarding(own, {
      url,
      secret: SECRET,
      signal: done.signal,
      onError: () => {
        if (failedAt.push(performance.now()) === 3) done.abort();
      },
    });
    // Timers may be a little early.
    expect(failedAt[2]! - failedAt[0]!).toBeGreaterThan(190);
  });

  test('a client that loses its only connection still ends the process, as nothing replaces it', async ({
    own,
    url,
  }) => {
    const signal = AbortSignal.abort();
    const client = new pg.Client(own.options);
    const lost = new Error('Connection terminated unexpectedly');
    for (const db of [client, drizzle({ client })]) {
      await keepForwarding(db, { url, secret: SECRET, signal });
      expect(() => client.emit('error', lost)).toThrow(lost);
    }
    const pool = new pg.Pool(own.options);
    await keepForwarding(drizzle({ client: pool }), { url, secret: SECRET, signal });
    expect(() => pool.emit('error', lost, client as never)).not.toThrow();
  });

  /** As its producer writes it, about 128 bytes for each. */
  const leases = (count: number) =>
    payloadOf('season.allocation.computed', {
      leases: numbers(1, count).map((number) => ({
        leaseId: `lea_${number}`.padEnd(11),
        organizationId: 'org_furulia',
        resourceId: 'res_hallen',
        weekday: 2,
        hoursPerWeek: 4.5,
      })),
    });

  test('an event that is as large as a request may be is forwarded; a larger one is refused, and the transaction goes on', async ({
    bus,
    own,
    url,
  }) => {
    vi.stubEnv('PRODUCER_SEASONS_SECRET', SECRET);
    await inTransaction(own, async (client) => {
      const larger = record(client, 'season.allocation.computed', leases(10_000));
      await expect(larger).rejects.toMatchObject({
        code: 'invalid_payload',
        message: expect.stringContaining('expected an event of at most 1 MiB') as string,
      });
      await record(client, 'season.allocation.computed', leases(9_000), { dedupeKey: 'large' });
    });
    const { rows: stored } = await own.query<{ bytes: number }>(
      'select octet_length(event::text) as bytes from postbud_outbox',
    );
    expect(stored[0]!.bytes).toBeGreaterThan(1024 * 1024);
    expect(await forward(own, { url, secret: SECRET })).toEqual({ forwarded: 1, isHeldBack: false });
    expect(await keysOf(bus)).toEqual(['large']);
  });

  test.for<[url: string, secret: string, message: string]>([
    ['bus.example.no', SECRET, "url: expected the bus's address, for example https://bus.example.no"],
    ['https://bus.example.no', 'hunter2', 'secret: expected whsec_ and base64'],
  ])('an address %s or a secret %s is refused at once', async ([url, secret, message], { own }) => {
    await expect(forward(own, { url, secret })).rejects.toThrow(message);
    const { signal } = new AbortController();
    await expect(keepForwarding(own, { url, secret, signal })).rejects.toThrow(message);
  });
});
