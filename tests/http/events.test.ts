import { describe, expect } from 'vitest';

import { indexEvents } from '../../lib/components/identifiers/index-events.ts';
import type { EventItem, EventList } from '../../lib/console/events/fields.ts';
import { eventsQuery } from '../../lib/console/events/fields.ts';
import { readEvents } from '../../lib/console/events/read.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { HOUR } from '../../lib/platform/time.ts';
import {
  drainLive,
  emitPayments,
  placeEvents,
  openTransaction,
  payloadOf,
  payment,
  rows,
  storeBacklog,
  emitAlone,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, HOME, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

async function list(operators: Operators, query: Readonly<Record<string, string>>): Promise<EventList> {
  const { status, json } = await operators.ask(`/events?${new URLSearchParams(query)}`);
  expect([query, status, json['detail']]).toEqual([query, 200, undefined]);
  return json as unknown as EventList;
}

const idsOf = ({ items }: { readonly items: readonly EventItem[] }) => items.map(({ eventId }) => eventId);

/** Fills the last block with other events, so that all before them come into the index, and indexes. */
async function index({ db }: Bus): Promise<void> {
  await run(driverOf(db), {
    text: `select setval('events_seq_seq', nextval('events_seq_seq') / 1024 * 1024 + 1024)`,
    values: [],
  });
  await emitAlone(db, 'user.signed_in', payloadOf('user.signed_in'));
  await drainLive(db, []);
  await indexEvents({ db, until: Date.now() + 30_000 });
}

/** Asks before the event has its place, after that, and when it is in the index. */
async function inEachPlace(bus: Bus, ask: () => Promise<void>): Promise<void> {
  await ask();
  await drainLive(bus.db, []);
  await ask();
  await index(bus);
  expect(await rows(bus.db, 'select from identifiers limit 1')).toHaveLength(1);
  await ask();
}

describe('a search', () => {
  test('an event is found by each of its ids and keys, wherever it is', async ({ bus, operators }) => {
    const { id: cause } = await emitAlone(bus.db, 'payment.captured', payment(1));
    const { id } = await emitAlone(
      bus.db,
      'payment.captured',
      payloadOf('payment.captured', { bookingId: 'bkg_findme1' }),
      {
        correlationId: 'req-4711',
        causationId: cause,
        orderingKey: 'hall 7',
        dedupeKey: 'capture:4711',
      },
    );
    await emitPayments(bus.db, 2, 5);
    const searches = [
      ['req-4711', 'correlation id'],
      ['hall 7', 'ordering key'],
      ['capture:4711', 'deduplication key'],
      ['bkg_findme1', 'payload /bookingId'],
      [id, 'event id'],
      [id.toUpperCase(), 'event id'],
    ];
    await inEachPlace(bus, async () => {
      for (const [q = '', by] of searches) {
        const { items, nextCursor } = await list(operators, { q });
        expect([q, items]).toMatchObject([q, [{ eventId: id, topic: 'payment.captured', foundBy: [by] }]]);
        expect(nextCursor).toBeNull();
      }
      // What it caused comes behind the event itself.
      expect((await list(operators, { q: cause })).items).toMatchObject([
        { eventId: cause, foundBy: ['event id'] },
        { eventId: id, foundBy: ['causation id'] },
      ]);
      expect((await list(operators, { q: 'bkg_findme2' })).items).toEqual([]);
    });
  });

  test('an event is found by the beginning of its id, and by the id of a delivery', async ({
    bus,
    operators,
  }) => {
    const [delivery = ''] = await operators.died(1);
    const [{ id }] = (await rows<{ id: string }>(bus.db, 'select id::text from events')) as [{ id: string }];
    for (const q of [id.slice(0, 8), id.slice(0, 13), id.replaceAll('-', ''), id.slice(0, 20).toUpperCase()])
      expect([q, idsOf(await list(operators, { q }))]).toEqual([q, [id]]);
    expect(idsOf(await list(operators, { q: id.slice(0, 7) }))).toEqual([]);
    const { items } = await list(operators, { q: delivery });
    expect(items).toMatchObject([{ eventId: id, foundBy: ['delivery id'], state: 'dead_lettered' }]);
  });

  test('a webhook is found by its provider’s event id and by an id in its body, which stays hidden', async ({
    bus,
    operators,
  }) => {
    const { id } = await emitAlone(bus.db, 'webhook.cardpayments.received', {
      eventId: 'evt_77',
      eventType: 'payment_intent.succeeded',
      body: { data: { object: { id: 'pi_77', receipt_email: 'kari@example.no' } } },
    });
    await inEachPlace(bus, async () => {
      expect((await list(operators, { q: 'evt_77' })).items).toMatchObject([
        { eventId: id, foundBy: ['payload /eventId'] },
      ]);
      const found = await operators.ask('/events?q=pi_77');
      expect((found.json as unknown as EventList).items).toMatchObject([
        { eventId: id, foundBy: ['payload /body/data/object/id'] },
      ]);
      expect(found.text).not.toContain('kari');
    });
  });

  test('a webhook is found by no other text of its body: no telephone, account or passport number', async ({
    bus,
    operators,
  }) => {
    const personal = {
      phone: '004791234567',
      account: '1234.56.78903',
      iban: 'NO9386011117947',
      passport: 'CCC012345',
      note: 'kari-lunde/1985',
    };
    const metadata = { passport: 'CCC012346', id: 'fnr:01018512345' };
    const { id } = await emitAlone(bus.db, 'webhook.cardpayments.received', {
      eventId: 'evt_78',
      eventType: 'payment_intent.succeeded',
      body: { ...personal, id: 'evt_78', data: { object: { ...personal, id: 'pi_78', metadata } } },
    });
    await emitAlone(bus.db, 'webhook.identityprovider.received', {
      eventId: 'evt_79',
      eventType: 'login.succeeded',
      body: { ...personal, data: { subject: 'sub-78', ...personal } },
    });
    await inEachPlace(bus, async () => {
      for (const q of [...Object.values(personal), ...Object.values(metadata), 'sub-78'])
        expect([q, (await list(operators, { q })).items]).toEqual([q, []]);
      expect(idsOf(await list(operators, { q: 'pi_78' }))).toEqual([id]);
    });
  });

  test('personal data finds no event, and the answer says that payloads were not searched', async ({
    bus,
    operators,
  }) => {
    await emitAlone(bus.db, 'user.signed_up', payloadOf('user.signed_up', { email: 'kari.85@example.no' }), {
      correlationId: 'kari.85@example.no',
      dedupeKey: '01018512345',
      orderingKey: '+4791234567',
    });
    await emitPayments(bus.db, 1, 1);
    await inEachPlace(bus, async () => {
      for (const q of ['kari.85@example.no', '+4791234567', '01018512345']) {
        const { items } = await list(operators, { q });
        expect([q, items]).toEqual([q, []]);
      }
    });
  });

  test('a browser that searches for an event or a delivery is led to the event’s page', async ({
    bus,
    operators,
  }) => {
    const [delivery = ''] = await operators.died(1);
    const [{ id }] = (await rows<{ id: string }>(bus.db, 'select id::text from events')) as [{ id: string }];
    for (const q of [id, id.slice(0, 9), delivery]) {
      const { status, headers } = await operators.ask(`/events?q=${q}`, { accept: BROWSER });
      expect([q, status, headers.get('location')]).toEqual([q, 303, `${HOME}/events/${id}`]);
    }
    const listed = await operators.ask(`/events?q=${id}&limit=50`, { accept: BROWSER });
    expect(listed.status).toBe(200);
  });

  test('a search that is narrowed by topic, state, subscriber or time finds what is in both', async ({
    bus,
    operators,
  }) => {
    const options = { correlationId: 'req-both' };
    const [payment1] = await emitPayments(bus.db, 1, 1, options);
    const { id: signIn } = await emitAlone(bus.db, 'user.signed_in', payloadOf('user.signed_in'), options);
    await inEachPlace(bus, async () => {
      const found = async (query: Readonly<Record<string, string>>) =>
        idsOf(await list(operators, { q: 'req-both', ...query }));
      expect(await found({})).toEqual([signIn, payment1]);
      expect(await found({ topic: 'payment.captured' })).toEqual([payment1]);
      expect(await found({ subscriber: 'accounting' })).toEqual([payment1]);
      expect(await found({ state: 'pending', since: '1h' })).toEqual([signIn, payment1]);
      expect(await found({ state: 'delivered' })).toEqual([]);
      // By its own id, too.
      expect(idsOf(await list(operators, { q: payment1!, subscriber: 'accounting' }))).toEqual([payment1]);
      expect(idsOf(await list(operators, { q: signIn, subscriber: 'accounting' }))).toEqual([]);
    });
  });

  test('a search says that it leaves out events, and a list finds them all the same', async ({
    bus,
    operators,
  }) => {
    const old = { correlationId: 'req_old' };
    const ids: string[] = [];
    for (let number = 1; number <= 10; number += 1)
      ids.push((await emitAlone(bus.db, 'payment.refunded', payloadOf('payment.refunded'), old)).id);
    await storeBacklog(bus.db, 'payment.captured', 4200);
    // Their ids are random, and those of events that follow one another are not.
    await rows(
      bus.db,
      `with event as (
         update events set id = ('02ffffff-ffff-7fff-bfff-' || lpad(to_hex(seq), 12, '0'))::uuid
         where topic = 'payment.captured' returning id, seq
       )
       update awaiting set event_id = event.id from event where awaiting.seq = event.seq`,
    );
    const [newest] = await rows<{ seq: number }>(bus.db, 'select max(seq)::float8 as seq from events');
    const ahead = await list(operators, { q: 'req_old' });
    expect(ahead).toMatchObject({ items: [], isComplete: false });
    // An index that has begun with the newest, and not come to the others.
    const begin = 'insert into indexed_events (from_seq, to_seq) values ($1::float8, $1::float8)';
    await rows(bus.db, begin, [newest!.seq - 100]);
    const begun = await list(operators, { q: 'req_old' });
    expect(begun).toMatchObject({ items: [], isComplete: false });
    await rows(bus.db, 'delete from indexed_events');
    await indexEvents({ db: bus.db, until: Date.now() + 30_000 });
    const whole = await list(operators, { q: 'req_old' });
    expect(whole.isComplete).toBe(true);
    expect(idsOf(whole)).toEqual(ids.toReversed());
    expect(idsOf(await list(operators, { topic: 'payment.refunded' }))).toEqual(ids.toReversed());
  });

  test('a frequent id is paged through, each event once', async ({ bus, operators }) => {
    const ids = await emitPayments(bus.db, 1, 60, { correlationId: 'req-many' });
    await drainLive(bus.db, []);
    await index(bus);
    ids.push(...(await emitPayments(bus.db, 61, 80, { correlationId: 'req-many' })));
    await drainLive(bus.db, []);
    ids.push(...(await emitPayments(bus.db, 81, 100, { correlationId: 'req-many' })));
    expect(await allPages(operators, { q: 'req-many', limit: '7' })).toEqual(ids.toReversed());
  });
});

async function allPages(operators: Operators, query: Readonly<Record<string, string>>): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: EventList = await list(operators, { ...query, ...(cursor && { cursor }) });
    found.push(...idsOf(page));
    cursor = page.nextCursor;
  }
  return found;
}

describe('a list', () => {
  test('events are listed by topic, subscriber, state and time, page by page, newest first', async ({
    bus,
    operators,
  }) => {
    const refuse = (number: number) => {
      if (number <= 4) throw new TypeError('the ledger is down');
    };
    const dead = (await operators.died(6), await eventIds(bus, 'payment.captured'));
    await drainLive(bus.db, [ledger()]);
    const held = await emitPayments(bus.db, 1, 4);
    await drainLive(bus.db, [ledger(refuse)]);
    const { id: other } = await emitAlone(bus.db, 'user.signed_in', payloadOf('user.signed_in'));
    await drainLive(bus.db, []);
    const awaiting = await emitPayments(bus.db, 7, 9);
    const newestFirst = (...ids: readonly string[]) => ids.toReversed();
    const pages = async (query: Readonly<Record<string, string>>) =>
      await allPages(operators, { ...query, limit: '2' });
    const captured = { topic: 'payment.captured' };
    const ofLedger = { subscriber: 'ledger' };
    expect(await pages({})).toEqual(newestFirst(...dead, ...held, other, ...awaiting));
    expect(await pages(captured)).toEqual(newestFirst(...dead, ...held, ...awaiting));
    expect(await pages({ topic: 'user.signed_in' })).toEqual([other]);
    expect(await pages(ofLedger)).toEqual(newestFirst(...dead, ...held, ...awaiting));
    expect(await pages({ state: 'dead_lettered' })).toEqual(newestFirst(...dead));
    expect(await pages({ state: 'dead_lettered', subscriber: 'accounting' })).toEqual([]);
    expect(await pages({ state: 'failing' })).toEqual([held[0]]);
    expect(await pages({ state: 'failing', ...captured, ...ofLedger })).toEqual([held[0]]);
    expect(await pages({ state: 'pending', ...ofLedger })).toEqual(
      newestFirst(...held.slice(1), ...awaiting),
    );
    expect(await pages({ state: 'pending' })).toEqual(newestFirst(...held.slice(1), other, ...awaiting));
    expect(await pages({ state: 'pending', subscriber: 'accounting' })).toEqual(
      newestFirst(...dead, ...held, ...awaiting),
    );
    expect(await pages({ state: 'delivered' })).toEqual([]);
    expect(await pages({ since: '1h' })).toHaveLength(14);
    await rows(bus.db, `update events set created_at = created_at - interval '2 hours' where id = any ($1)`, [
      dead,
    ]);
    expect(await pages({ since: '1h' })).toEqual(newestFirst(...held, other, ...awaiting));
    expect(await pages({ since: '1h', ...captured })).toEqual(newestFirst(...held, ...awaiting));
  });

  test.for([{ topic: 'payment.captured' }, { topic: 'payment.captured', state: 'pending' }])(
    'events that get their places between two pages are missing from none and repeated on none: %j',
    async (query, { bus, operators }) => {
      const idOf = async (number: number) =>
        (await emitAlone(bus.db, 'payment.captured', payment(number))).id;
      const ids = [await idOf(1), await idOf(2)];
      await drainLive(bus.db, []);
      for (let number = 3; number <= 9; number += 1) ids.push(await idOf(number));
      const seen: string[] = [];
      let cursor: string | null = '';
      do {
        const page: EventList = await list(operators, { ...query, limit: '2', ...(cursor && { cursor }) });
        seen.push(...idsOf(page));
        cursor = page.nextCursor;
        // In the middle of the waiting ones.
        if (seen.length === 4) await drainLive(bus.db, []);
      } while (cursor !== null);
      expect(seen).toEqual(ids.toReversed());
    },
  );

  describe.for([{ state: 'pending' }, { subscriber: 'ledger' }])(
    'of several topics, of which a transaction holds back one: %j',
    (query) => {
      const captured = async ({ db }: Bus, number: number) => (await emitPayments(db, number, number))[0]!;
      const refunded = async ({ db }: Bus) =>
        (await emitAlone(db, 'payment.refunded', payloadOf('payment.refunded'))).id;

      test('events that have their places and those that wait are in one order', async ({
        bus,
        operators,
      }) => {
        const open = await openTransaction(bus.url);
        await open.emit('payment.captured', payment(0));
        const waiting = await emitPayments(bus.db, 1, 5);
        const placed = [await refunded(bus), await refunded(bus), await refunded(bus)];
        await placeEvents(bus.db);
        const found = await allPages(operators, { ...query, limit: '2' });
        await open.rollback();
        expect(found).toEqual([...waiting, ...placed].toReversed());
      });

      test('no page misses or repeats an event when they are placed in another order', async ({
        bus,
        operators,
      }) => {
        const before = [await refunded(bus), await refunded(bus)];
        await placeEvents(bus.db);
        const open = await openTransaction(bus.url);
        await open.emit('payment.captured', payment(0));
        const waiting = [];
        for (let number = 1; number <= 3; number += 1)
          waiting.push(await captured(bus, number), await refunded(bus));
        const seen: string[] = [];
        let cursor: string | null = '';
        do {
          const page: EventList = await list(operators, { ...query, limit: '1', ...(cursor && { cursor }) });
          seen.push(...idsOf(page));
          cursor = page.nextCursor;
          if (seen.length !== 2) continue;
          await placeEvents(bus.db);
          await open.rollback();
          await placeEvents(bus.db);
        } while (cursor !== null);
        expect(seen).toEqual([...before, ...waiting].toReversed());
      });
    },
  );

  test('old events that wait hide no newer one that has its place', async ({ bus }) => {
    const open = await openTransaction(bus.url);
    await open.emit('payment.captured', payment(0));
    await emitPayments(bus.db, 1, 3);
    const { id } = await emitAlone(bus.db, 'payment.refunded', payloadOf('payment.refunded'));
    await placeEvents(bus.db);
    await rows(bus.db, `update events set created_at = created_at + interval '3 hours' where id = $1`, [id]);
    const query = eventsQuery.parse({ state: 'pending', since: '1h', limit: 2 });
    const found = await readEvents(bus.db, query, new Date(Date.now() + 3 * HOUR));
    await open.rollback();
    expect(idsOf(found)).toEqual([id]);
  });

  test('an event of a key that waits is listed like one of a whole topic', async ({ bus, operators }) => {
    const refuse = (number: number) => {
      if (number === 1) throw new TypeError('the ledger is down');
    };
    const held = await emitPayments(bus.db, 1, 3, { orderingKey: 'booking 1' });
    const beside = await emitPayments(bus.db, 4, 6, { orderingKey: 'booking 2' });
    await drainLive(bus.db, [ledger(refuse)]);
    held.push(...(await emitPayments(bus.db, 7, 8, { orderingKey: 'booking 1' })));
    beside.push(...(await emitPayments(bus.db, 9, 9, { orderingKey: 'booking 2' })));
    await drainLive(bus.db, [ledger(refuse)]);
    const [failing = '', ...waiting] = held;
    const ofLedger = { subscriber: 'ledger', limit: '2' };
    expect(await allPages(operators, { ...ofLedger, state: 'failing' })).toEqual([failing]);
    expect(await allPages(operators, { ...ofLedger, state: 'pending' })).toEqual(waiting.toReversed());
    expect(await allPages(operators, { ...ofLedger, state: 'delivered' })).toEqual(beside.toReversed());
    expect(await allPages(operators, { q: 'booking 1', limit: '2' })).toEqual(held.toReversed());
    const { items } = await list(operators, { q: 'booking 1', ...ofLedger, state: 'failing' });
    expect(items).toMatchObject([{ eventId: failing, state: 'failing', foundBy: ['ordering key'] }]);
  });

  test('a list for a subscriber shows the state of each delivery to it', async ({ operators }) => {
    await operators.died(1);
    const stateFor = async (subscriber: string) => (await list(operators, { subscriber })).items[0]!.state;
    expect([await stateFor('ledger'), await stateFor('accounting')]).toEqual(['dead_lettered', 'pending']);
  });

  test('an unknown topic or subscriber is refused, with the name that was probably meant', async ({
    operators,
  }) => {
    for (const [query, message] of [
      ['topic=payment.capture', 'expected a topic of the catalog; did you mean payment.captured?'],
      ['subscriber=acounting', 'expected a subscriber of the catalog; did you mean accounting?'],
    ] as const) {
      const { status, json } = await operators.ask(`/events?${query}`);
      expect([status, json['issues']]).toMatchObject([400, [{ message }]]);
    }
    for (const wrong of ['state=dead', 'cursor=abc', 'since=yesterday', 'limit=0', `q=${'x'.repeat(256)}`])
      expect([wrong, (await operators.ask(`/events?${wrong}`)).status]).toEqual([wrong, 400]);
  });
});

async function eventIds(bus: Bus, topic: string): Promise<string[]> {
  const found = await rows<{ id: string }>(
    bus.db,
    'select id::text from events where topic = $1 order by created_at, seq',
    [topic],
  );
  return found.map(({ id }) => id);
}
