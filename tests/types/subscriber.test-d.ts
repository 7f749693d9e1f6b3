import { expectTypeOf, test } from 'vitest';

import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';

test('a handler gets one event, and a transaction where it asks for one', () => {
  subscriber('ledger', {
    'payment.captured': (event, context) => {
      expectTypeOf(event).toEqualTypeOf<BusEvent<'payment.captured'>>();
      expectTypeOf(context.deliveryId).toBeString();
      // @ts-expect-error -- there is none
      void context.tx;
    },
  });
  subscriber(
    'ledger',
    { 'payment.captured': (_, { tx }) => void expectTypeOf(tx).toEqualTypeOf<Transaction>() },
    { transactional: true },
  );
});

test('a handler of batches gets events in order, and says how many it took', () => {
  subscriber(
    'ledger',
    {
      'payment.captured': (events, context) => {
        expectTypeOf(events).toEqualTypeOf<readonly BusEvent<'payment.captured'>[]>();
        expectTypeOf(context.deliveries[0]!.attempt).toBeNumber();
        // @ts-expect-error -- there is one for each event
        void context.deliveryId;
        return events.length;
      },
    },
    { batch: true },
  );
  subscriber('ledger', { 'payment.captured': async () => {} }, { batch: true });
  subscriber(
    'ledger',
    { 'payment.captured': (_, { tx }) => expectTypeOf(tx).toEqualTypeOf<Transaction>() && undefined },
    { transactional: true, batch: true },
  );
  // @ts-expect-error -- a text is no count
  subscriber('ledger', { 'payment.captured': () => 'all' }, { batch: true });
});

test('a handler returns nothing: what it returned would say nothing', () => {
  subscriber('ledger', { 'payment.captured': () => {} });
  subscriber('ledger', { 'payment.captured': async () => await Promise.resolve() });
  // @ts-expect-error -- an event is not taken by throwing
  subscriber('ledger', { 'payment.captured': () => ({ ok: false }) });
  // @ts-expect-error -- nor by a promise of a value
  subscriber('ledger', { 'payment.captured': async () => await Promise.resolve({ ok: false }) });
  // @ts-expect-error -- Promise.all waits for promises, an array does not
  subscriber('ledger', { 'payment.captured': () => [Promise.resolve()] });
  // @ts-expect-error -- nor does an asynchronous handler
  subscriber('ledger', { 'payment.captured': async () => [Promise.resolve()] }, { transactional: true });
  // @ts-expect-error -- milliseconds are a number
  subscriber('ledger', { 'payment.captured': () => {} }, { timeoutMs: '30s' });
  // @ts-expect-error -- an option is written as it is named
  subscriber('ledger', { 'payment.captured': () => {} }, { timeout: 30_000 });
});

test('commits are shared or not where there are some', () => {
  subscriber('ledger', { 'payment.captured': () => {} }, { transactional: true, sharesCommits: false });
  // @ts-expect-error -- without a transaction there is no commit
  subscriber('ledger', { 'payment.captured': () => {} }, { sharesCommits: false });
});

test('the options of a subscription have the documented values', () => {
  const handlers = { 'payment.captured': () => {} };
  subscriber('ledger', handlers, { afterDeadLetter: 'halt', outage: 'wait', onReplay: 'refuse' });
  subscriber(
    'ledger',
    { 'payment.captured': () => 1 },
    { batch: true, afterDeadLetter: 'continue', outage: 'off', onReplay: 'run' },
  );
  // @ts-expect-error -- a lane goes on or halts
  subscriber('ledger', handlers, { afterDeadLetter: 'stop' });
  // @ts-expect-error -- deliveries wait, or the outage is off
  subscriber('ledger', handlers, { outage: true });
  // @ts-expect-error -- replays run or are refused
  subscriber('ledger', handlers, { onReplay: 'skip' });
  // @ts-expect-error -- where a handler runs is not its own choice
  subscriber('ledger', handlers, { place: 'elsewhere' });
});
