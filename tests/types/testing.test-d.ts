import { expectTypeOf, test } from 'vitest';

import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import type { Received, TestBus } from 'postbud/testing';

declare const bus: TestBus;

test('a test bus emits only topics of the catalog, with fields of their payload', () => {
  void bus.emit('payment.captured');
  void bus.emit('payment.captured', { amountMinor: 17 }, { orderingKey: 'a' });
  void bus.emit('user.signed_up', { email: undefined });
  // @ts-expect-error -- not a topic
  void bus.emit('payment.capture');
  // @ts-expect-error -- an amount is a number
  void bus.emit('payment.captured', { amountMinor: '17' });
  // @ts-expect-error -- not a field of the payload
  void bus.emit('payment.captured', { amount: 17 });
});

test('what a subscriber received has the payloads of its topics', () => {
  const [captured] = bus.received('ledger', 'payment.captured');
  expectTypeOf(captured).toEqualTypeOf<Received<'payment.captured'> | undefined>();
  expectTypeOf(captured!.event.payload.amountMinor).toEqualTypeOf<number>();
  expectTypeOf(bus.events('user.signed_up')).resolves.toEqualTypeOf<BusEvent<'user.signed_up'>[]>();
  // @ts-expect-error -- not a subscriber
  bus.received('ledgr');
  // @ts-expect-error -- the ledger does not subscribe to it
  bus.received('ledger', 'user.signed_up');
});
