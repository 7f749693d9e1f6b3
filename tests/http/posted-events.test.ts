import { describe, expect, onTestFinished, vi } from 'vitest';

import { test } from '../support/bus-test.ts';
import { numbers, payloadOf, rows } from '../support/bus.ts';
import { awaitingPlace } from '../support/records.ts';
import {
  approved,
  batch,
  BATCH,
  binary,
  BOOKINGS,
  deployed,
  PAYMENTS,
  RETIRED,
  secret,
  signed,
  stored,
  structured,
} from '../support/posted-events.ts';

// What is written is kept from the beginning of each test on.
test.beforeEach(({ output }) => void output.text());
test.afterEach(() => {
  vi.unstubAllEnvs();
});

/** In its place stand lists in lists, more than `JSON.stringify` would write. */
const NESTED = 'nested 9,000 levels deep';

const answerOf = async (response: Response) => [response.status, await response.json()] as const;

describe('POST /api/events', () => {
  test.for([BOOKINGS, RETIRED])(
    'records an event of the official SDK, signed with one of the secrets, with its attributes',
    async (by, { bus }) => {
      const endpoint = await deployed({ DATABASE_URL: bus.url });
      const event = approved('b-1', {
        orderingkey: 'hall 7',
        correlationid: 'case 12',
        causationid: 'req_9',
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      });
      const [status, body] = await answerOf(await endpoint.fetch(structured(event, by)));
      const [recorded] = await stored(bus);
      expect([status, body]).toEqual([
        200,
        { events: [{ id: 'b-1', eventId: recorded?.id, duplicate: false }] },
      ]);
      expect(
        await rows(
          bus.db,
          'select topic, producer, ordering_key, dedupe_key, correlation_id, causation_id, traceparent, payload from events',
        ),
      ).toEqual([
        {
          topic: 'booking.approved',
          producer: 'bookings',
          ordering_key: 'hall 7',
          dedupe_key: 'b-1',
          correlation_id: 'case 12',
          causation_id: 'req_9',
          traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
          payload: payloadOf('booking.approved', { bookingId: 'b-1' }),
        },
      ]);
      expect(await awaitingPlace(bus.db)).toHaveLength(1);
    },
  );

  test('a batch is recorded in its order, what was sent before or twice is a duplicate', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const [, first] = await answerOf(await endpoint.fetch(structured(approved('b-2'))));
    const { events } = first as { events: { eventId: string }[] };
    const ids = ['b-1', 'b-2', 'b-3', 'b-1'];
    const [status, body] = await answerOf(await endpoint.fetch(batch(ids.map((id) => approved(id)))));
    const found = await stored(bus);
    expect(found.map(({ dedupe_key: key }) => key)).toEqual(['b-2', 'b-1', 'b-3']);
    const idOf = (key: string) => found.find(({ dedupe_key: one }) => one === key)!.id;
    expect([status, body]).toEqual([
      200,
      {
        events: [
          { id: 'b-1', eventId: idOf('b-1'), duplicate: false },
          { id: 'b-2', eventId: events[0]!.eventId, duplicate: true },
          { id: 'b-3', eventId: idOf('b-3'), duplicate: false },
          { id: 'b-1', eventId: idOf('b-1'), duplicate: true },
        ],
      },
    ]);
  });

  test.for<[mode: string, send: (event: ReturnType<typeof approved>) => Request]>([
    ['structured', structured],
    ['batch', (event) => batch([event])],
    ['binary', binary],
  ])('takes an event of the official SDK in %s mode, with its attributes', async ([, send], { bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const event = approved('b-1', {
      source: 'https://bookings.example.no/bookings',
      time: '2026-02-20T09:12:41+00:00',
      subject: '100',
      partitionkey: 'hall 7',
      correlationid: 'case 12',
      causationid: 'req_9',
      schemaversion: 1,
      at: '2h',
      timerkey: 'b-1',
    });
    expect(await answerOf(await endpoint.fetch(send(event)))).toMatchObject([
      200,
      { events: [{ id: 'b-1', duplicate: false }] },
    ]);
    expect(
      await rows(
        bus.db,
        'select topic, producer, ordering_key, dedupe_key, timer_key, correlation_id, causation_id, payload from timers',
      ),
    ).toEqual([
      {
        topic: 'booking.approved',
        producer: 'bookings',
        ordering_key: 'hall 7',
        dedupe_key: 'https://bookings.example.no/bookings#b-1',
        timer_key: 'b-1',
        correlation_id: 'case 12',
        causation_id: 'req_9',
        payload: payloadOf('booking.approved', { bookingId: 'b-1' }),
      },
    ]);
  });

  test('attributes in headers are percent-decoded and unquoted', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const encoded = {
      'ce-partitionkey': 'S%C3%B8lvik%20%E2%82%AC%25',
      'ce-correlationid': String.raw`"a \"case\" %2F"`,
      // It is no attribute that the bus knows.
      'ce-subject': '100%',
      'ce-data': '{}',
    };
    const sent = await answerOf(await endpoint.fetch(binary(approved('b-1'), encoded)));
    expect(sent[0], JSON.stringify(sent)).toBe(200);
    expect(await rows(bus.db, 'select ordering_key, correlation_id, payload from events')).toEqual([
      {
        ordering_key: 'Sølvik €%',
        correlation_id: 'a "case" /',
        payload: payloadOf('booking.approved', { bookingId: 'b-1' }),
      },
    ]);
  });

  test.for<[what: string, headers: Record<string, string>, status: number, detail: string]>([
    [
      'a broken encoding',
      { 'ce-partitionkey': '100%' },
      400,
      'partitionkey: expected UTF-8 with percent-encoding',
    ],
    ['other bytes than UTF-8', { 'ce-partitionkey': '%ff' }, 400, 'in the header ce-partitionkey'],
    ['letters without encoding', { 'ce-partitionkey': 'Sølvik' }, 400, 'in the header ce-partitionkey'],
    ['no version', { 'ce-specversion': '' }, 400, 'specversion: expected 1.0'],
    ['no type', { 'ce-type': '' }, 400, 'type: expected a string, got nothing'],
    ['data of another type', { 'content-type': 'text/xml' }, 415, 'as application/json'],
    ['a character set', { 'content-type': 'application/json; charset=latin1' }, 415, 'in UTF-8'],
    ['an unknown encoding of events', { 'content-type': 'application/cloudevents+avro' }, 415, 'binary mode'],
  ])('an event in binary mode with %s is refused', async ([, headers, status, detail], { bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    expect(await answerOf(await endpoint.fetch(binary(approved('b-1'), headers)))).toEqual([
      status,
      expect.objectContaining({ detail: expect.stringContaining(detail) as string }),
    ]);
    expect(await stored(bus)).toEqual([]);
  });

  test('a timer is cancelled in binary mode, without data and their type', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    await endpoint.fetch(structured(approved('b-1', { at: '2h', timerkey: 'b' })));
    const cancel = approved('b-2', { data: undefined, at: 'never', timerkey: 'b' });
    expect((await endpoint.fetch(binary(cancel, { 'content-type': '' }))).status).toBe(200);
    expect(await rows(bus.db, 'select from timers')).toEqual([]);
  });

  test.for<[source: string, status: number]>([
    ['bookings', 200],
    ['/bookings', 200],
    ['urn:postbud:bookings', 200],
    ['https://bookings.example.no/bookings', 200],
    ['//example.no/a?b=c#bookings', 200],
    ['/bookings/', 400],
    ['', 400],
    ['/my bookings', 400],
    ['/mybookings', 403],
    ['Bookings', 403],
    ['https://bookings.example.no/payments', 403],
    ['/bookings?payments', 403],
  ])('the source %j is answered %i', async ([source, status], { bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const event = { ...approved('b-1').toJSON(), source };
    expect((await endpoint.fetch(batch([event]))).status).toBe(status);
  });

  test('the same id from another source of the producer is another event', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const from = (source: string) => ({ ...approved('b-1').toJSON(), source });
    const sources = ['bookings', '/x/bookings', '/y/bookings', '/x/bookings'];
    expect((await answerOf(await endpoint.fetch(batch(sources.map(from)))))[1]).toMatchObject({
      events: [false, false, false, true].map((duplicate) => ({ id: 'b-1', duplicate })),
    });
    const long = { ...approved('b'.repeat(200)).toJSON(), source: `/${'x'.repeat(60)}/bookings` };
    expect((await answerOf(await endpoint.fetch(batch([long]))))[1]).toMatchObject({
      detail: '0.id: expected at most 255 characters together with source',
    });
  });

  test('orderingkey is another name for partitionkey', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const keyed = (id: string, keys: object) => approved(id, keys);
    const sent = [
      keyed('b-1', { partitionkey: 'p' }),
      keyed('b-2', { orderingkey: 'o' }),
      keyed('b-3', { partitionkey: 'same', orderingkey: 'same' }),
      { ...approved('b-4').toJSON(), partitionkey: '' },
    ];
    expect((await endpoint.fetch(batch(sent))).status).toBe(200);
    expect(await rows(bus.db, 'select ordering_key from events order by dedupe_key')).toEqual(
      ['p', 'o', 'same', ''].map((key) => ({ ordering_key: key })),
    );
    const both = batch([keyed('b-5', { partitionkey: 'p', orderingkey: 'o' })]);
    expect(await answerOf(await endpoint.fetch(both))).toMatchObject([
      400,
      {
        detail: '0.orderingkey: expected the same as partitionkey, whose other name it is: send one of them',
      },
    ]);
  });

  test('an instant at +00:00 is stored as one in UTC', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const at = { approvedAt: '2026-02-20T09:12:41.123456+00:00', startsAt: '2026-03-14T16:00:00-00:00' };
    const event = approved('b-1', {
      data: payloadOf('booking.approved', at),
      time: '2026-02-20T09:12:41+00:00',
    });
    expect((await endpoint.fetch(structured(event))).status).toBe(200);
    expect(await rows(bus.db, 'select payload from events')).toMatchObject([
      { payload: { approvedAt: '2026-02-20T09:12:41.123456Z', startsAt: '2026-03-14T16:00:00Z' } },
    ]);
    const due = approved('b-2', {
      at: `${new Date(Date.now() + 3_600_000).toISOString().slice(0, -1)}+00:00`,
    });
    expect((await endpoint.fetch(structured(due))).status).toBe(200);
    const local = approved('b-3', {
      data: payloadOf('booking.approved', { approvedAt: '2026-02-20T09:12:41+01:00' }),
    });
    expect(await answerOf(await endpoint.fetch(structured(local)))).toMatchObject([
      400,
      { detail: 'data.approvedAt: expected an instant of UTC, for example 2026-02-21T09:30:00Z' },
    ]);
  });

  const HOUR_AHEAD = new Date(Date.now() + 3_600_000).toISOString();
  const data = payloadOf('booking.approved', { bookingId: 'b-1' });

  test.for<[what: string, first: object, second: object]>([
    ['with its fields in another order', {}, { data: Object.fromEntries(Object.entries(data).toReversed()) }],
    ['with a field that no schema names', {}, { data: { ...data, later: 1 } }],
    [
      'with another spelling of its instants',
      {},
      { data: { ...data, approvedAt: data.approvedAt.replace('Z', '+00:00') } },
    ],
    [
      'of another trace, time and cause',
      {},
      { time: '2026-02-20T09:12:41Z', correlationid: 'c', causationid: 'd', subject: 'e' },
    ],
    ['with the other name of its ordering key', { partitionkey: 'a' }, { orderingkey: 'a' }],
    ['whose ordering key is named now', {}, { partitionkey: '' }],
    ['with the version of its payload', {}, { schemaversion: 1 }],
    [
      'as the same timer',
      { at: HOUR_AHEAD, timerkey: 'a' },
      { at: HOUR_AHEAD.replace('Z', '+00:00'), timerkey: 'a' },
    ],
    ['as a timer after the same time', { at: '1h' }, { at: '1h' }],
  ])('the same event sent again %s is a duplicate', async ([, first, second], { bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const written = { ...approved('b-1').toJSON() };
    const post = async (fields: object) =>
      await answerOf(await endpoint.fetch(batch([{ ...written, ...fields }])));
    expect(await post(first)).toMatchObject([200, { events: [{ duplicate: false }] }]);
    expect(await post(second)).toMatchObject([200, { events: [{ duplicate: true }] }]);
  });

  test.for<[what: string, first: object, second: object, differing: string]>([
    ['another value in its data', {}, { data: { ...data, amountMinor: 1 } }, 'data'],
    ['a field less', {}, { data: { ...data, email: undefined } }, 'data'],
    ['another ordering key', { partitionkey: 'a' }, { partitionkey: 'b' }, 'partitionkey'],
    ['an ordering key', {}, { partitionkey: 'b' }, 'partitionkey'],
    ['a time', {}, { at: '1h' }, 'at'],
    ['no time', { at: '1h' }, {}, 'at'],
    [
      'another time',
      { at: HOUR_AHEAD },
      { at: HOUR_AHEAD.replace(/\d{3}Z/, '999Z').replace('T', 'T') },
      'at',
    ],
    ['other data at its time', { at: '1h' }, { at: '1h', data: { ...data, amountMinor: 1 } }, 'data'],
    ['another timer key', { at: '1h', timerkey: 'a' }, { at: '1h', timerkey: 'b' }, 'timerkey'],
    ['a cancellation', { at: '1h', timerkey: 'a' }, { at: 'never', timerkey: 'a', data: undefined }, 'at'],
    ['a cancellation of an event', {}, { at: 'never', timerkey: 'a', data: undefined }, 'at'],
    ['an event after a cancellation', { at: 'never', timerkey: 'a', data: undefined }, {}, 'at'],
    ['a timer after a cancellation', { at: 'never', timerkey: 'a', data: undefined }, { at: '1h' }, 'at'],
  ])(
    'the same source and id with %s is a 409, sent later or in one batch, and nothing of the request is recorded',
    async ([, first, second, differing], { bus }) => {
      const endpoint = await deployed({ DATABASE_URL: bus.url });
      const written = approved('b-1').toJSON();
      const [before, other] = [first, second].map((fields) => ({ ...written, ...fields }));
      const another = approved('b-0');
      const refused = (place: number) => [
        409,
        expect.objectContaining({
          code: 'conflicting_duplicate',
          issues: [
            expect.objectContaining({
              pointer: `/${place}/id`,
              message: `expected an id of its own: the event recorded for it differs in ${differing}`,
            }),
          ],
        }),
      ];
      const kept = async () =>
        await rows(bus.db, 'select id::text from events union all select id::text from timers order by 1');
      expect(await answerOf(await endpoint.fetch(batch([another, before, other])))).toEqual(refused(2));
      expect(await kept()).toEqual([]);
      expect((await endpoint.fetch(batch([before]))).status).toBe(200);
      const after = await kept();
      expect(await answerOf(await endpoint.fetch(batch([another, other])))).toEqual(refused(1));
      expect(await kept()).toEqual(after);
      expect((await endpoint.fetch(batch([before]))).status).toBe(200);
    },
  );

  test('two that are sent at once with one id and other data are one event and a 409', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const sent = numbers(1, 8).map((amountMinor) => approved('b-1', { data: { ...data, amountMinor } }));
    const answers = await Promise.all(sent.map(async (event) => await endpoint.fetch(structured(event))));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...numbers(1, 7).map(() => 409)]);
    expect(await stored(bus)).toHaveLength(1);
  });

  test('what an erasure has overwritten is a duplicate, and not compared', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    await endpoint.fetch(structured(approved('b-1')));
    await endpoint.fetch(structured(approved('b-2', { at: '1h' })));
    for (const table of ['events', 'timers'])
      await rows(
        bus.db,
        `update ${table} set erased_at = now(), payload = payload - 'email' || '{"bookingId": "x"}'`,
      );
    const again = [
      approved('b-1'),
      approved('b-1', { data: { ...data, amountMinor: 1 } }),
      approved('b-2', { at: '1h' }),
    ];
    expect(await answerOf(await endpoint.fetch(batch(again)))).toMatchObject([
      200,
      { events: again.map(() => ({ duplicate: true })) },
    ]);
  });

  test('data of an earlier version of the catalog are compared as that version keeps them', async ({
    bus,
  }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    await endpoint.fetch(structured(approved('b-1')));
    // The next version has a field that the producer sends already, and an older one had it.
    await rows(
      bus.db,
      `update catalog_topics set version = 2, schemas = schemas || jsonb_build_object('2',
        jsonb_set(schemas -> '1', '{properties,later}', '{"type": "number"}')) where topic = 'booking.approved'`,
    );
    const again = approved('b-1', { data: { ...data, later: 1 } });
    expect((await answerOf(await endpoint.fetch(structured(again))))[1]).toMatchObject({
      events: [{ duplicate: true }],
    });
  });

  test('an empty batch is taken', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    expect(await answerOf(await endpoint.fetch(batch([])))).toEqual([200, { events: [] }]);
  });

  test.for<[what: string, fields: Record<string, unknown>, path: string, message: string]>([
    [
      'a topic with a typing error',
      { type: 'booking.aproved' },
      'type',
      "unknown topic; did you mean 'booking.approved'?",
    ],
    ['another version of CloudEvents', { specversion: '0.3' }, 'specversion', 'expected 1.0'],
    ['no id', { id: '' }, 'id', 'expected 1 to 255 characters'],
    ['an id that is too long', { id: 'x'.repeat(256) }, 'id', 'expected 1 to 255 characters'],
    ['a NUL in its id', { id: 'a\0b' }, 'id', 'U+0000 and unpaired surrogates cannot be stored'],
    [
      'a field of the wrong type',
      { data: { ...payloadOf('booking.approved'), amountMinor: 'much' } },
      'data.amountMinor',
      'number',
    ],
    ['no payload', { data: undefined }, 'data', 'expected a value, got nothing'],
    [
      'a NUL in the payload',
      { data: payloadOf('booking.approved', { bookingId: 'a\0' }) },
      'data.bookingId',
      'U+0000',
    ],
    ['binary data', { data_base64: 'AAAA' }, 'data_base64', 'expected the payload as JSON, in data'],
    [
      'data that is not JSON',
      { datacontenttype: 'text/xml' },
      'datacontenttype',
      'expected application/json',
    ],
    [
      'a version that this bus does not have',
      { schemaversion: 7 },
      'schemaversion',
      'this bus has version 1 of booking.approved',
    ],
    [
      'a NUL in a field that its schema does not name',
      { data: { ...payloadOf('booking.approved'), note: 'a\0b' } },
      'data.note',
      'U+0000',
    ],
    [
      'half a character in such a field',
      { data: { ...payloadOf('booking.approved'), note: ['\ud800'] } },
      'data.note.0',
      'unpaired surrogates',
    ],
    [
      'a NUL in the name of such a field',
      { data: { ...payloadOf('booking.approved'), 'a\0b': 1 } },
      'data.a\0b',
      'U+0000',
    ],
    [
      `such a field, ${NESTED}`,
      { data: { ...payloadOf('booking.approved'), note: NESTED } },
      'data.note.0.0.0.0.0.0.0.0.0',
      'expected at most 100 levels of nesting',
    ],
    [
      'a NUL in the data of a cancellation',
      { at: 'never', timerkey: 'b-2', data: { note: 'a\0b' } },
      'data.note',
      'U+0000',
    ],
    ['a NUL in its content type', { datacontenttype: 'application/json;\0' }, 'datacontenttype', 'U+0000'],
    [
      'a timer far ahead',
      { at: '9999-05-04T10:00:00Z' },
      'at',
      'expected an instant at most a year ahead, or never',
    ],
  ])(
    'an event with %s is a 400 that says what is right, and nothing of its batch is recorded',
    async ([, fields, path, message], { bus }) => {
      const endpoint = await deployed({ DATABASE_URL: bus.url });
      const wrong = { ...approved('b-2').toJSON(), ...fields };
      const body = JSON.stringify([approved('b-1'), wrong]);
      const lists = '['.repeat(9000) + ']'.repeat(9000);
      const request = signed(BATCH, body.replace(JSON.stringify(NESTED), lists));
      expect(await answerOf(await endpoint.fetch(request))).toEqual([
        400,
        expect.objectContaining({
          code: 'validation_failed',
          issues: [
            expect.objectContaining({
              path: `1.${path}`,
              message: expect.stringContaining(message) as string,
            }),
          ],
        }),
      ]);
      expect(await stored(bus)).toEqual([]);
    },
  );

  test('a batch of 101 is a 400, of more than 1 MiB a 413', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const many = await endpoint.fetch(batch(numbers(1, 101).map((number) => approved(`b-${number}`))));
    expect((await answerOf(many))[1]).toMatchObject({
      detail: 'body: expected at most 100 elements, got 101',
    });
    const large = await endpoint.fetch(batch([approved('b-1', { subject: 'x'.repeat(1024 * 1024) })]));
    expect(large.status).toBe(413);
  });

  test.for<[why: string, request: () => Request, status: number, detail: string]>([
    [
      'of another producer’s topic',
      () => structured(approved('b-1', { type: 'payment.captured', data: payloadOf('payment.captured') })),
      403,
      'payment.captured is a topic of payments, not of bookings.',
    ],
    [
      'in another producer’s name',
      () => structured(approved('b-1'), PAYMENTS),
      403,
      'Send source: payments.',
    ],
    [
      'signed with another secret',
      () => structured(approved('b-1'), secret()),
      401,
      'The signature or its timestamp is missing or invalid.',
    ],
    [
      'signed 301 seconds ago',
      () => signed('application/cloudevents+json', JSON.stringify(approved('b-1')), BOOKINGS, 301_000),
      401,
      'The signature',
    ],
    [
      'as JSON',
      () => signed('application/json', '{}'),
      415,
      'application/cloudevents+json, application/cloudevents-batch+json',
    ],
    ['that is no JSON', () => signed('application/cloudevents+json', '{'), 400, 'expected JSON in UTF-8'],
  ])('an event %s is refused, and not recorded', async ([, request, status, detail], { bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    expect(await answerOf(await endpoint.fetch(request()))).toEqual([
      status,
      expect.objectContaining({ detail: expect.stringContaining(detail) as string }),
    ]);
    expect(await stored(bus)).toEqual([]);
  });

  test.for<[variables: Record<string, string | undefined>, code: string]>([
    [{ PRODUCER_BOOKINGS_SECRET: undefined, PRODUCER_PAYMENTS_SECRET: ' ' }, 'events_not_configured'],
    [{ PRODUCER_BOOKINGS_SECRET: 'short' }, 'misconfigured'],
    [
      {
        PRODUCER_BOOKINGS_SECRET: undefined,
        PRODUCER_PAYMENTS_SECRET: undefined,
        PRODUCER_BOKINGS_SECRET: BOOKINGS,
      },
      'events_not_configured',
    ],
  ])('without a usable secret (%j) it is a 503', async ([variables, code], { bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url, ...variables });
    expect(await answerOf(await endpoint.fetch(structured(approved('b-1'))))).toEqual([
      503,
      expect.objectContaining({ code }),
    ]);
  });

  test('a wrong secret of one producer keeps no other from posting', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url, PRODUCER_PAYMENTS_SECRET: 'short' });
    expect((await endpoint.fetch(structured(approved('b-1')))).status).toBe(200);
  });

  test('more than 3,000 requests of a producer in ten seconds are told to wait', async ({ bus }) => {
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const { limiter } = await import('../../lib/components/postbud.ts');
    const limit = { name: 'events', limit: 3000, windowMs: 10_000 };
    for (let taken = 1; taken < 3000; taken += 1) await limiter().take([{ key: 'bookings', limit }]);
    expect((await endpoint.fetch(batch([]))).status).toBe(200);
    const refused = await endpoint.fetch(batch([]));
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await endpoint.fetch(structured(approved('b-1'), PAYMENTS))).status).toBe(403);
  });
});
