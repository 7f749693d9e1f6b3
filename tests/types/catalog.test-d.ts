import { expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import type {
  Payload,
  PayloadInput,
  Subscriber,
  SubscriberOf,
  TopicName,
  TopicsOf,
} from '../../lib/bus/catalog/catalog.ts';
import { catalog, isTopicName } from '../../lib/bus/catalog/catalog.ts';
import { topic } from '../../lib/bus/catalog/topic.ts';
import type { Topic, Versioned } from '../../lib/bus/catalog/topic.ts';

test('a topic’s name is one of the catalog’s, and no other string', () => {
  expectTypeOf<'payment.captured'>().toExtend<TopicName>();
  expectTypeOf<'cron.daily.06_00'>().toExtend<TopicName>();
  expectTypeOf<string>().not.toExtend<TopicName>();
  expectTypeOf<'payment.recaptured'>().not.toExtend<TopicName>();
});

test('a name from outside becomes a topic’s name by asking', () => {
  expectTypeOf(isTopicName).guards.toEqualTypeOf<TopicName>();
});

test('a payload has the fields of its topic’s schema', () => {
  expectTypeOf<Payload<'payment.captured'>>().toEqualTypeOf<{
    intentId: string;
    bookingId: string;
    provider: 'cardpayments' | 'walletpayments';
    amountMinor: number;
    currency: string;
    providerEventId: string;
    occurredAt?: string | undefined;
  }>();
  expectTypeOf<Payload<'user.signed_up'>>().toEqualTypeOf<{
    subject: string;
    method: string;
    email?: string | undefined;
  }>();
  expectTypeOf<Payload<'webhook.cardpayments.received'>>().toEqualTypeOf<{
    eventId: string;
    eventType: string | null;
    endpoint?: string | undefined;
    body: { [field: string]: unknown };
  }>();
  expectTypeOf<PayloadInput<'cron.daily.06_00'>>().toEqualTypeOf<{ day: string; scheduledFor: string }>();
});

test('a payload of one topic does not pass for another’s', () => {
  // @ts-expect-error -- a failed payment states a reason, not an amount
  const failed: PayloadInput<'payment.failed'> = catalog['payment.captured'].example;
  void failed;
});

test('a topic’s subscribers are those of its row', () => {
  expectTypeOf<SubscriberOf<'payment.captured'>>().toEqualTypeOf<
    'bookings' | 'ledger' | 'notifications' | 'accounting'
  >();
  expectTypeOf<SubscriberOf<'mfa.required'>>().toEqualTypeOf<'notifications'>();
  expectTypeOf<string>().not.toExtend<Subscriber>();
  expectTypeOf<'http'>().not.toExtend<Subscriber>();
});

test('a subscriber’s topics are those that list it', () => {
  expectTypeOf<'webhook.cardpayments.received'>().toExtend<TopicsOf<'payments'>>();
  expectTypeOf<'webhook.identityprovider.received'>().not.toExtend<TopicsOf<'payments'>>();
  // @ts-expect-error -- no topic is handed to `http`, which only produces
  expectTypeOf<TopicsOf<'http'>>().toBeNever();
});

test('every row passes as a plain topic', () => {
  expectTypeOf(catalog).toExtend<Record<TopicName, Topic>>();
});

test('a row that contradicts itself does not compile', () => {
  const row = {
    producer: 'bookings',
    subscribers: ['audit'],
    description: 'A booking was counted.',
    version: 1,
    listed: false,
  } as const;
  const payload = z.object({ bookingId: z.string() });

  topic({ ...row, payload, example: { bookingId: 'bkg_1' }, orderingKey: ({ bookingId }) => bookingId });
  // @ts-expect-error -- an example of the wrong type
  topic({ ...row, payload, example: { bookingId: 1 } });
  // @ts-expect-error -- an example without a required field
  topic({ ...row, payload, example: {} });
  // @ts-expect-error -- an ordering key that the payload does not have
  topic({ ...row, payload, example: { bookingId: 'bkg_1' }, orderingKey: ({ seatId }) => seatId });
  // @ts-expect-error -- nobody to hand it to
  topic({ ...row, payload, example: { bookingId: 'bkg_1' }, subscribers: [] });
});

test('an event of a topic with two versions has the fields of the one that its version says', () => {
  const row = topic({
    producer: 'bookings',
    subscribers: ['audit'],
    description: 'A booking was counted.',
    version: 2,
    earlier: { 1: z.object({ bookingId: z.string(), seat: z.string() }) },
    payload: z.object({ bookingId: z.string(), seats: z.array(z.string()) }),
    example: { bookingId: 'bkg_1', seats: ['A1'] },
  });
  const seatsOf = (event: Versioned<typeof row>): readonly string[] => {
    expectTypeOf(event.version).toEqualTypeOf<1 | 2>();
    expectTypeOf(event.payload.bookingId).toBeString();
    // @ts-expect-error -- version 1 has one seat
    void event.payload.seats;
    // @ts-expect-error -- version 2 has a list of them
    void event.payload.seat;
    // @ts-expect-error -- there is no version 3
    if (event.version === 3) return [];
    return event.version === 1 ? [event.payload.seat] : event.payload.seats;
  };
  void seatsOf;
});
