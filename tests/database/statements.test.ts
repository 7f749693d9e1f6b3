import pg from 'pg';
import { describe, expect, inject } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { run } from '../../lib/platform/db/statement.ts';
import type { Executor } from '../../lib/platform/db/statement.ts';
import { test } from '../support/bus-test.ts';
import {
  contradictions,
  drain,
  emitPayments,
  onConnectionsOf,
  rows,
  rowsRead,
  statementsDuring,
  storeBacklog,
} from '../support/bus.ts';
import { fail, ledger } from '../support/ledger.ts';
import { createDatabase } from '../support/postgres.ts';

/** Five topics that `bookings` and `audit` both have, or whose other subscriber stands in. */
const topics = [
  'payment.captured',
  'payment.failed',
  'payment.intent.created',
  'payment.reserved',
  'payment.refunded',
] as const;

describe('the statements that a relay sends', () => {
  test('are at most one per 500 deliveries in strict order', async ({ bus }) => {
    const handed = new Map<string, number[]>();
    const note = (name: string) => (event: BusEvent) => {
      const lane = `${name} ${event.topic}`;
      if (!handed.has(lane)) handed.set(lane, []);
      handed.get(lane)!.push(event.seq);
    };
    const bookings = subscriber('bookings', {
      'payment.captured': note('bookings'),
      'payment.failed': note('bookings'),
      'payment.intent.created': note('bookings'),
      'payment.reserved': note('bookings'),
      'payment.refunded': note('bookings'),
    });
    const notifications = subscriber('notifications', {
      'payment.captured': note('notifications'),
      'payment.failed': note('notifications'),
      'payment.refunded': note('notifications'),
    });
    const audit = subscriber('audit', {
      'payment.intent.created': note('audit'),
      'payment.reserved': note('audit'),
    });
    for (const topic of topics) await storeBacklog(bus.db, topic satisfies TopicName, 3000);
    let delivered = 0;
    const statements = await statementsDuring(async () => {
      ({ delivered } = await drain(bus.db, [bookings, notifications, audit]));
    });
    expect(delivered).toBe(30_000);
    expect(handed.size).toBe(10);
    for (const seqs of handed.values()) expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
    expect(statements).toBeLessThanOrEqual(30_000 / 500);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('are one when nothing is due, however many deliveries wait for later', async ({ bus }) => {
    const failing = ledger(fail);
    await emitPayments(bus.db, 1, 20);
    await drain(bus.db, [failing]);
    expect(await statementsDuring(() => drain(bus.db, [failing]))).toBe(1);
    expect(await statementsDuring(() => drain(bus.db, []))).toBe(1);
  });

  test('are few for one event', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    // Look and place; claim and settle; look and find nothing.
    expect(await statementsDuring(() => drain(bus.db, [ledger()]))).toBeLessThanOrEqual(5);
  });

  test('read no more of a backlog than is delivered of it', async () => {
    const url = await createDatabase(inject('postgresUrl'));
    const read = () => rowsRead(url, 'log');
    await onConnectionsOf(url, async (db) => {
      // Autovacuum's reads are counted too. Also where it is off for a table, it reads each new range of a BRIN index to
      // summarize it. And after a vacuum in the middle, rows move to other pages, where each is read once more.
      await rows(db, 'alter table log set (autovacuum_enabled = false)');
      await rows(db, 'alter index log_event set (autosummarize = off)');
      await storeBacklog(db, 'payment.captured', 9000);
      await drain(db, []);
      await rows(db, 'analyze');
    });
    const before = await read();
    await onConnectionsOf(url, async (db) => {
      expect(await drain(db, [ledger()])).toMatchObject({ delivered: 9000 });
    });
    // Each is read when it is claimed; what a slow machine leaves of a claim is claimed once more.
    expect((await read()) - before).toBeLessThan(9000 * 2.5);
  });

  test('read large payloads in portions, and the first of a lane however large it is', async ({ bus }) => {
    const handed: number[] = [];
    const subscribed = subscriber('payments', {
      'webhook.cardpayments.received': (event) => void handed.push(event.seq),
    });
    const body = { padding: 'x'.repeat(6 * 1024 * 1024) };
    await bus.db.transaction(async (tx) => {
      for (let number = 0; number < 8; number += 1) {
        await emit(tx, 'webhook.cardpayments.received', { eventId: `evt_${number}`, eventType: null, body });
      }
    });
    const { delivered, ticks } = await drain(bus.db, [subscribed]);
    expect(delivered).toBe(8);
    expect(handed).toEqual(handed.toSorted((a, b) => a - b));
    // One to place, three for 48 MB, one that finds nothing.
    expect(ticks).toBeGreaterThanOrEqual(4);
  });
});

describe('the statements that run again and again', () => {
  test('are not prepared on a connection of somebody else’s, whose transaction a pooler could abort', async ({
    bus,
  }) => {
    const client = new pg.Client(bus.url);
    await client.connect();
    await client.query('begin');
    await emit(client, 'payment.captured', catalog['payment.captured'].example);
    await client.query('commit');
    const { rows: prepared } = await client.query('select from pg_prepared_statements');
    expect(prepared).toEqual([]);
    await client.end();
  });

  test('are prepared once by each connection of ours, also in the transaction of a producer and of a handler', async ({
    bus,
  }) => {
    // Each name has a hash of its text behind it.
    const prepared = async (on: Executor) =>
      await run<{ name: string; uses: number }>(on, {
        text: `select left(name, -9) as name, (generic_plans + custom_plans)::int as uses from pg_prepared_statements
          where name ~ '^(postbud_emit|settle)_' order by name`,
        values: [],
      });
    const payload = catalog['payment.captured'].example;
    await bus.db.transaction(async (tx) => {
      for (let event = 0; event < 3; event += 1) await emit(tx, 'payment.captured', payload);
      expect(await prepared(tx)).toContainEqual({ name: 'postbud_emit', uses: expect.any(Number) });
    });
    const found: unknown[] = [];
    const bookings = subscriber(
      'bookings',
      { 'payment.captured': async (_, { tx }) => void found.push(...(await prepared(tx))) },
      { transactional: true, sharesCommits: false },
    );
    await drain(bus.db, [bookings]);
    expect(found).toContainEqual({ name: 'settle', uses: expect.any(Number) });
  });
});
