import { describe, expect } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { countBadges } from '../../lib/console/dead-letters/count.ts';
import { readEvent } from '../../lib/console/event/read.ts';
import { readDeliveryId } from '../../lib/bus/deliveries/delivery-id.ts';
import { deadLetterQuery } from '../../lib/console/dead-letters/fields.ts';
import type { DeadLetterPage } from '../../lib/console/dead-letters/fields.ts';
import { readDeadLetters } from '../../lib/console/dead-letters/read.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, payloadOf, rows, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, deadLettersOf, deliveryIdsOf } from '../support/records.ts';
import { changeDeliveries } from '../support/scenes.ts';
import { fail, ledger } from '../support/ledger.ts';

const iso = (ms: number) => new Date(ms).toISOString();

const refusing = (message: (number: number) => string = () => 'refused') =>
  ledger((number) => {
    throw new PermanentError(message(number));
  });

/** Makes dead letters of the ledger, numbered on from 1, that die at this moment. @returns their events' ids. */
async function died(bus: Bus, count: number, nowMs = START, subscribers = [refusing()]): Promise<string[]> {
  const ids = await emitPayments(bus.db, 1, count);
  await drain(bus.db, subscribers, { now: nowMs });
  return ids;
}

/** As a query's fields write it. */
type Asked = Readonly<Record<string, string | number>>;

const list = (bus: Bus, asked: Asked = {}, nowMs = START + HOUR) =>
  readDeadLetters(bus.db, deadLetterQuery.parse(asked), new Date(nowMs));

/** Reads one delivery, with the fields of its event. */
async function readDelivery(bus: Bus, id: string) {
  const names = readDeliveryId(id);
  const view = names && (await readEvent(bus.db, names.eventId, { ...names, attached: [] }));
  return view ? { ...view.event, ...view.deliveries[0]! } : undefined;
}

/** Every page from this query on, as far as the cursors lead. */
async function pages(bus: Bus, asked: Asked): Promise<DeadLetterPage[]> {
  const found: DeadLetterPage[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: DeadLetterPage = await list(bus, cursor ? { ...asked, cursor } : asked);
    found.push(page);
    cursor = page.nextCursor;
    if (found.length > 200) throw new Error('the cursors lead nowhere');
  }
  return found;
}

const idsOf = (...found: readonly DeadLetterPage[]) =>
  found.flatMap(({ items }) => items.map(({ deliveryId }) => deliveryId));

describe('the list of dead letters', () => {
  test('is newest first, each with its event, when and why it died, and how often it failed', async ({
    bus,
  }) => {
    const [first] = await died(bus, 1, START, [refusing(() => 'account 4711 is closed')]);
    await died(bus, 1, START + MINUTE);
    const { items, total, totalInAll, filters } = await list(bus);
    expect(items).toHaveLength(2);
    expect(items[1]).toEqual({
      deliveryId: `${first}.ledger`,
      eventId: first,
      topic: 'payment.captured',
      subscriber: 'ledger',
      subject: expect.stringMatching(/^\w+( \w+)* \S+$/),
      createdAt: expect.stringMatching(/Z$/),
      deadLetteredAt: expect.stringMatching(/^2031-05-04T10:00:00/),
      failures: 1,
      replays: 0,
      isHalting: false,
      lastError: {
        kind: 'permanent',
        message: 'account 4711 is closed',
        group: expect.stringMatching(/^[0-9a-f]{16}$/),
      },
    });
    expect(items[0]!.deadLetteredAt.slice(0, 16)).toBe('2031-05-04T10:01');
    expect([total, totalInAll]).toEqual([2, 2]);
    expect(filters).toEqual({});
  });

  test('is empty while deliveries still fail', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    expect(await list(bus, {}, START)).toMatchObject({
      items: [],
      groups: [],
      total: 0,
      nextCursor: null,
    });
  });
});

describe('cursors', () => {
  test.for([{}, { topic: 'payment.captured' }, { subscriber: 'ledger' }])(
    'lead to every dead letter once: %j',
    async (filters, { bus }) => {
      for (let moment = 0; moment < 5; moment += 1) await died(bus, 4, START + moment * SECOND);
      const all = await deadLettersOf(bus.db);
      const forwards = await pages(bus, { ...filters, limit: 3 });
      expect(idsOf(...forwards)).toEqual(all);
      expect(forwards).toHaveLength(7);
      expect(new Set(forwards.map(({ total }) => total))).toEqual(new Set([20]));
    },
  );

  test('tell dead letters of the same moment apart, in one lane and in several', async ({ bus }) => {
    for (const orderingKey of ['', 'venue 1', 'venue 2']) await emitPayments(bus.db, 1, 5, { orderingKey });
    await drain(bus.db, [refusing()]);
    const atOnce = `dead_lettered_at = '2031-05-04 10:00:00.123456Z'`;
    await changeDeliveries(bus.db, atOnce, 'dead_lettered_at is not null');
    const all = await deadLettersOf(bus.db);
    expect(all).toHaveLength(15);
    const forwards = await pages(bus, { limit: 4 });
    expect(idsOf(...forwards)).toEqual(all);
  });

  test('skip and repeat nothing while others die', async ({ bus }) => {
    await died(bus, 6);
    const before = await deadLettersOf(bus.db);
    const first = await list(bus, { limit: 2 });
    await died(bus, 3, START + MINUTE);
    const second = await list(bus, { limit: 2, cursor: first.nextCursor! });
    await died(bus, 1, START + 2 * MINUTE);
    const third = await list(bus, { limit: 2, cursor: second.nextCursor! });
    expect(idsOf(first, second, third)).toEqual(before);
    expect(third.nextCursor).toBeNull();
  });

  test('work when the dead letter that a page ended with has been replayed', async ({ bus }) => {
    await died(bus, 5);
    const all = await deadLettersOf(bus.db);
    const first = await list(bus, { limit: 2 });
    const ended = first.items.at(-1)!.deliveryId;
    await replay(bus.db, { deliveryIds: [ended] }, 'kari', new Date(START + MINUTE));
    expect(idsOf(await list(bus, { limit: 2, cursor: first.nextCursor! }))).toEqual(all.slice(2, 4));
  });

  const coded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

  test.each([
    ['a word', 'garbage'],
    ['no JSON', Buffer.from('[').toString('base64url')],
    ['a list that is too short', coded(['2031-05-04T10:00:00.000000Z', '1'])],
    ['a list that is too long', coded(['2031-05-04T10:00:00.000000Z', '1', '1', '1'])],
    ['SQL', coded([`2031-05-04T10:00:00.000000Z' or true --`, '1', '1'])],
    ['numbers', coded([1, 2, 3])],
    ['a position beyond any', coded(['2031-05-04T10:00:00.000000Z', '1', '9'.repeat(19)])],
  ])('that are %s are refused, with what would be right', (_, cursor) => {
    const parsed = deadLetterQuery.safeParse({ cursor });
    expect(parsed.error?.issues).toMatchObject([
      { path: ['cursor'], message: expect.stringContaining('expected a cursor') },
    ]);
  });

  test.each(['2031-13-45T10:00:00.000000Z', '2031-05-04T99:99:99.999999Z', '0000-01-01T00:00:00.000000Z'])(
    'with the impossible instant %s are refused before the database is asked',
    async (instant) => {
      expect(deadLetterQuery.safeParse({ cursor: coded([instant, '1', '1']) }).success).toBe(false);
    },
  );
});

describe('filters', () => {
  const refusesAll = (name: 'ledger' | 'accounting', topics: readonly TopicName[], message: string) =>
    subscriber(
      name,
      Object.fromEntries(
        topics.map((topic) => [
          topic,
          () => {
            throw new PermanentError(message);
          },
        ]),
      ),
    );

  test.beforeEach(async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    for (let count = 0; count < 2; count += 1)
      await emitAlone(bus.db, 'invoice.paid', payloadOf('invoice.paid'));
    await drain(bus.db, [
      refusesAll('ledger', ['payment.captured', 'invoice.paid'], 'the Period is closed'),
      refusesAll('accounting', ['payment.captured'], 'no such account'),
    ]);
    await emitPayments(bus.db, 4, 4);
    await drain(bus.db, [refusesAll('ledger', ['payment.captured'], 'disk full')], {
      now: START + 50 * MINUTE,
    });
  });

  test.for<[Asked, string, number]>([
    [{}, 'true', 9],
    [{ topic: 'payment.captured' }, `topic = 'payment.captured'`, 7],
    [{ topic: 'invoice.paid' }, `topic = 'invoice.paid'`, 2],
    [{ topic: 'mfa.completed' }, 'false', 0],
    [{ subscriber: 'ledger' }, `subscriber = 'ledger'`, 6],
    [
      { topic: 'payment.captured', subscriber: 'ledger' },
      `topic = 'payment.captured' and subscriber = 'ledger'`,
      4,
    ],
    [{ since: '30m' }, `dead_lettered_at > '2031-05-04 10:30Z'`, 1],
    [{ since: '2h' }, 'true', 9],
    [{ since: '30m', subscriber: 'accounting' }, 'false', 0],
    [{ since: '30m', subscriber: 'ledger' }, `dead_lettered_at > '2031-05-04 10:30Z'`, 1],
    [{ q: 'period' }, `attempt_log::text like '%Period%'`, 5],
    [{ q: 'PERMANENT' }, 'true', 9],
    [{ q: 'period', topic: 'invoice.paid' }, `topic = 'invoice.paid'`, 2],
    [{ q: '%' }, 'false', 0],
    [{ q: '_' }, 'false', 0],
    [{ q: `'; drop table events; --` }, 'false', 0],
    [{ q: '00000000-0000-7000-8000-000000000000' }, 'false', 0],
    [{ q: '00000000-0000-7000-8000-000000000000.accounting' }, 'false', 0],
  ])('%j', async ([asked, condition, count], { bus }) => {
    const expected = await deadLettersOf(bus.db, condition);
    expect(expected).toHaveLength(count);
    const page = await list(bus, asked);
    expect(idsOf(page)).toEqual(expected);
    expect(page.total).toBe(count);
    expect(page.totalInAll).toBe(9);
    expect(page.groups.reduce((total, group) => total + group.count, 0)).toBe(count);
    // The total is the whole list's, not the page's.
    expect((await list(bus, { ...asked, limit: 1 })).total).toBe(count);
  });

  test('by a group find its dead letters, with the counts of the window', async ({ bus }) => {
    const { groups } = await list(bus);
    expect(groups).toHaveLength(4);
    for (const { group, count, topic, subscriber: name } of groups) {
      const page = await list(bus, { group });
      expect(page.total).toBe(count);
      expect(
        new Set(page.items.map((item) => `${item.topic} ${item.subscriber} ${item.lastError.group}`)),
      ).toEqual(new Set([`${topic} ${name} ${group}`]));
      expect((await list(bus, { group, since: '30m' })).total).toBe(
        page.items[0]!.deadLetteredAt > iso(START + 30 * MINUTE) ? 1 : 0,
      );
    }
    expect((await list(bus, { group: '0000000000000000' })).total).toBe(0);
  });

  test('by a group count only the dead letters within the window', async ({ bus }) => {
    await drain(bus.db, [refusesAll('ledger', ['payment.captured'], 'disk full')], {
      now: START + 50 * MINUTE,
    });
    await emitPayments(bus.db, 5, 6);
    await drain(bus.db, [refusesAll('ledger', ['payment.captured'], 'the Period is closed')], {
      now: START + 55 * MINUTE,
    });
    const all = await list(bus, { since: '2h', topic: 'payment.captured' });
    expect(all.groups.map(({ message, count }) => [message, count]).toSorted()).toEqual([
      ['disk full', 1],
      ['no such account', 3],
      ['the Period is closed', 5],
    ]);
    const { groups, total } = await list(bus, { since: '30m', topic: 'payment.captured' });
    expect(total).toBe(3);
    expect(groups.map(({ message, count }) => [message, count])).toEqual([
      ['the Period is closed', 2],
      ['disk full', 1],
    ]);
    expect(groups[0]!.firstAt.slice(0, 16)).toBe(iso(START + 55 * MINUTE).slice(0, 16));
  });

  test.each([
    { topic: 'payment captured' },
    { since: '24' },
    { limit: '0' },
    { limit: '1001' },
    { limit: 'many' },
    { q: 'x'.repeat(201) },
  ])('that are wrong are refused: %j', (asked) => {
    const [issue] = deadLetterQuery.safeParse(asked).error?.issues ?? [];
    expect(issue?.path).toEqual(Object.keys(asked));
  });
});

describe('groups of errors', () => {
  test('hold errors that differ only in numbers, ids and addresses', async ({ bus }) => {
    const messages = [
      'payment 17 of 019a3c1e-0000-7000-8000-00000000abcd for kari@example.no: HTTP 503 after 1200 ms',
      'payment 18 of 019a3c1e-0000-7000-8000-00000000abce for ola.bakken@bærum.kommune.no: HTTP 503 after 7 ms',
      'payment 19 of 019a3c1e-1111-7000-8000-00000000abcf for per@example.no: HTTP 503 after 3 ms',
    ];
    await died(bus, 3, START, [refusing((number) => messages[number - 1]!)]);
    const { groups, items } = await list(bus);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toMatchObject({ count: 3, kind: 'permanent', subscriber: 'ledger' });
    expect(groups[0]!.message).toContain('HTTP 503');
    expect(items.map(({ lastError }) => lastError.message)).toEqual(
      expect.arrayContaining([expect.stringContaining('payment 17')]),
    );
  });

  test('tell apart kinds, messages, statuses, subscribers and topics', async ({ bus }) => {
    class Refused extends PermanentError {
      override readonly name = 'Refused';
    }
    await emitPayments(bus.db, 1, 4);
    await emitAlone(bus.db, 'invoice.paid', payloadOf('invoice.paid'));
    const errors = [
      new PermanentError('HTTP 500'),
      new PermanentError('HTTP 503'),
      Object.assign(new Error('HTTP 500'), { code: 'other' }),
      new Refused('HTTP 500'),
    ];
    const ledger = subscriber(
      'ledger',
      {
        'payment.captured': (event) => {
          throw errors[event.payload.amountMinor - 1]!;
        },
        'invoice.paid': () => {
          throw errors[0]!;
        },
      },
      { maxAttempts: 1 },
    );
    const accounting = subscriber('accounting', {
      'payment.captured': () => {
        throw errors[0]!;
      },
    });
    await drain(bus.db, [ledger, accounting]);
    const { groups } = await list(bus);
    expect(
      groups
        .map(({ topic, subscriber: name, kind, message, count }) =>
          [topic, name, kind, message, count].join(' '),
        )
        .toSorted(),
    ).toEqual([
      'invoice.paid ledger permanent HTTP 500 1',
      'payment.captured accounting permanent HTTP 500 4',
      'payment.captured ledger other HTTP 500 1',
      'payment.captured ledger permanent HTTP 500 2',
      'payment.captured ledger permanent HTTP 503 1',
    ]);
    expect(groups[0]!.count).toBe(4);
  });

  test('say when the first and the last of them died', async ({ bus }) => {
    await died(bus, 1);
    await died(bus, 1, START + 5 * MINUTE);
    await died(bus, 1, START + 3 * MINUTE);
    const { groups } = await list(bus);
    expect(groups).toHaveLength(1);
    expect(groups[0]!.firstAt.slice(0, 16)).toBe(iso(START).slice(0, 16));
    expect(groups[0]!.lastAt.slice(0, 16)).toBe(iso(START + 5 * MINUTE).slice(0, 16));
  });

  test('are gone when all their dead letters have been replayed', async ({ bus }) => {
    await died(bus, 3);
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', new Date(START + MINUTE));
    expect(await list(bus)).toMatchObject({ groups: [], total: 0, totalInAll: 0 });
    expect(await countBadges(bus.db)).toMatchObject({ deadLetters: 0 });
  });
});

describe('one dead letter', () => {
  const down = () => {
    throw new TypeError('the ledger is down');
  };

  test('tells everything that happened to it, over every replay', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    const by = 'kari';
    // It asked to wait, failed, was retried early, and failed permanently.
    await drain(bus.db, [
      ledger(() => {
        throw new RetryAfter(30 * SECOND, 'not yet');
      }),
    ]);
    await drain(bus.db, [ledger(down)], { now: START + 30 * SECOND });
    const [deliveryId = ''] = await deliveryIdsOf(bus.db);
    const at = (seconds: number) => new Date(START + seconds * SECOND);
    await retryNow(bus.db, { deliveryId, by, reason: 'it is mended', now: at(40) });
    await drain(bus.db, [ledger(down, { maxAttempts: 2 })], { now: START + 41 * SECOND });
    expect(await readDelivery(bus, deliveryId)).toMatchObject({ state: 'dead_lettered', failures: 2 });
    // Replayed, failed, skipped; replayed, delivered; replayed with all, delivered.
    const { replayId } = await replay(bus.db, { deliveryIds: [deliveryId], reason: 'again' }, by, at(50));
    await drain(bus.db, [ledger(down)], { now: START + 51 * SECOND });
    await skip(bus.db, { deliveryId, by: 'ola', reason: 'hopeless', now: at(60) });
    await replay(bus.db, { deliveryIds: [deliveryId] }, by, at(70));
    await drain(bus.db, [ledger(() => undefined)], { now: START + 71 * SECOND });
    await replay(bus.db, { deliveryIds: [deliveryId], include: 'all' }, by, at(80));
    await drain(bus.db, [ledger(() => undefined)], { now: START + 81 * SECOND });

    const letter = (await readDelivery(bus, deliveryId))!;
    expect(
      letter.attempts.map((attempt) =>
        'attempt' in attempt
          ? `${attempt.outcome} ${attempt.attempt}`
          : `${attempt.outcome} by ${attempt.by}: ${attempt.reason}`,
      ),
    ).toEqual([
      'waited 1',
      'failed 1',
      'retried_early by kari: it is mended',
      'failed 2',
      'replayed by kari: again',
      'failed 1',
      'skipped by ola: hopeless',
      'replayed by kari: null',
      'delivered 1',
      'replayed by kari: null',
      'delivered 1',
    ]);
    expect(letter.attempts.map((attempt) => attempt.at)).toEqual(
      [0, 30, 40, 41, 50, 51, 60, 70, 71, 80, 81].map((seconds) => iso(START + seconds * SECOND)),
    );
    expect(letter.attempts[4]).toMatchObject({ replayId });
    expect(letter).toMatchObject({
      state: 'delivered',
      replays: 3,
      failures: 0,
      deadLetteredAt: null,
      nextAttemptAt: null,
      lastError: { kind: 'TypeError', message: 'the ledger is down', group: null },
    });
    expect(letter.deliveredAt?.slice(0, 19)).toBe(iso(START + 81 * SECOND).slice(0, 19));
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('tells how long it waited between attempts, and when the next is', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(down)]);
    await drain(bus.db, [ledger(down)], { now: START + MINUTE });
    const [row] = await rows<{ id: string }>(bus.db, `select id from ${RECORDS} where attempts > 0`);
    const letter = (await readDelivery(bus, row!.id))!;
    expect(letter).toMatchObject({
      state: 'failing',
      nextAttemptAt: iso(START + 6 * MINUTE),
      deadLetteredAt: null,
    });
    const waits = letter.attempts.map((attempt) => ('waitedMs' in attempt ? attempt.waitedMs : null));
    expect(waits.map((ms) => Math.round(ms! / SECOND))).toEqual([60, 300]);
  });

  test('is as every list shows it, with its event and the same event’s other deliveries', async ({ bus }) => {
    const [eventId] = await emitPayments(bus.db, 1, 1, {
      correlationId: 'request 1',
      causationId: 'event 0',
      traceparent: '00-1-2-01',
    });
    await drain(bus.db, [
      refusing(),
      subscriber('notifications', { 'payment.captured': () => undefined }),
      subscriber('accounting', { 'payment.captured': down }),
    ]);
    const item = (await list(bus)).items[0]!;
    const letter = await readDelivery(bus, item.deliveryId);
    expect(letter).toMatchObject({ ...item, isHalting: false });
    expect(letter).toMatchObject({
      eventId,
      state: 'dead_lettered',
      orderingKey: '',
      producer: 'payments',
      version: catalog['payment.captured'].version,
      correlationId: 'request 1',
      causationId: 'event 0',
      traceparent: '00-1-2-01',
      payload: payloadOf('payment.captured', { amountMinor: 1 }),
      hidden: [],
      isValid: true,
      isRevealed: false,
      erasedAt: null,
    });
  });

  test('is pending after a replay, with fresh attempts and its history', async ({ bus }) => {
    await died(bus, 1);
    const [item] = (await list(bus)).items;
    await replay(bus.db, { deliveryIds: [item!.deliveryId] }, 'kari', new Date(START + MINUTE));
    expect(await readDelivery(bus, item!.deliveryId)).toMatchObject({
      state: 'pending',
      failures: 0,
      replays: 1,
      deadLetteredAt: null,
      attempts: [{ outcome: 'failed' }, { outcome: 'replayed', by: 'kari' }],
      lastError: { message: 'refused', group: null },
    });
    expect((await list(bus)).items).toEqual([]);
  });

  test.for(['1-1', '00000000-0000-7000-8000-000000000000.accounting'])(
    'with the unknown id %s is not found',
    async (id, { bus }) => {
      expect(await readDelivery(bus, id)).toBeUndefined();
    },
  );
});
