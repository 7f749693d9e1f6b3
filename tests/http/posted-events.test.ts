import { describe, expect, onTestFinished, vi } from 'vitest';

import { test } from '../support/bus-test.ts';
import { numbers, payloadOf, rows } from '../support/bus.ts';
import {
  approved,
  batch,
  BATCH,
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
      expect(await rows(bus.db, 'select from awaiting_fan_out')).toHaveLength(1);
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
