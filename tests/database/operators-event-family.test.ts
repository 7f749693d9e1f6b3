import { describe, expect } from 'vitest';

import { prune } from '../../lib/bus/deliveries/prune.ts';
import type { EmitOptions } from '../../lib/bus/outbox/emit.ts';
import { indexEvents } from '../../lib/components/identifiers/index-events.ts';
import { createPaymentIntent, payments } from '../../lib/components/payments.ts';
import { readEvent } from '../../lib/console/event/read.ts';
import type { EventView } from '../../lib/console/event/view.ts';
import { DAY } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { drain, payloadOf, rows, START, storeBacklog, emitAlone } from '../support/bus.ts';
import { deleteMarker } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { card, cardSucceeded, webhookOf } from '../support/payments.ts';

async function read(bus: Bus, eventId: string): Promise<EventView> {
  const view = await readEvent(bus.db, eventId, { attached: [payments], now: new Date(START) });
  return view!;
}

const idsOf = (events: readonly { readonly eventId: string }[]) => events.map(({ eventId }) => eventId);

/** Receives a webhook that captures a payment. @returns the ids of its event and of the event that it caused. */
async function captured(bus: Bus): Promise<{ webhook: string; capture: string }> {
  await createPaymentIntent(bus.db, card);
  const webhook = await webhookOf(bus.db, 'cardpayments', cardSucceeded());
  await drain(bus.db, [payments]);
  const [capture] = await rows<{ id: string }>(
    bus.db,
    `select id::text from events where topic = 'payment.captured'`,
  );
  return { webhook, capture: capture!.id };
}

const emitted = async (bus: Bus, options: EmitOptions) =>
  (await emitAlone(bus.db, 'ledger.entry.posted', payloadOf('ledger.entry.posted'), options)).id;

describe('the causes of an event', () => {
  test('are its webhook’s event, and it is among the effects of that', async ({ bus }) => {
    const { webhook, capture } = await captured(bus);
    const view = await read(bus, capture);
    expect(view.causes).toMatchObject([
      {
        eventId: webhook,
        topic: 'webhook.cardpayments.received',
        state: 'delivered',
        subject: expect.stringMatching(/^event evt_/),
      },
    ]);
    const first = await read(bus, webhook);
    expect(first.effects).toMatchObject([
      { eventId: capture, topic: 'payment.captured', subject: 'intent pi_1' },
    ]);
  });

  test('are told from the first to the last, as far as they are kept', async ({ bus }) => {
    const first = await emitted(bus, {});
    const second = await emitted(bus, { causationId: first });
    const third = await emitted(bus, { causationId: second });
    expect(idsOf((await read(bus, third)).causes)).toEqual([first, second]);
    await deleteMarker(bus.db, first);
    await rows(bus.db, 'delete from events where id = $1::uuid', [first]);
    expect((await read(bus, third)).causes).toMatchObject([
      { eventId: first, topic: null, createdAt: null },
      { eventId: second, topic: 'ledger.entry.posted' },
    ]);
  });

  test('may be named by a text that is no event’s id, or go round in a circle', async ({ bus }) => {
    const odd = await emitted(bus, { causationId: 'a letter' });
    expect((await read(bus, odd)).causes).toMatchObject([{ eventId: 'a letter', topic: null }]);
    await rows(bus.db, 'update events set causation_id = id::text where id = $1::uuid', [odd]);
    const { causes, effects } = await read(bus, odd);
    expect([causes.length <= 12, effects.length]).toEqual([true, 0]);
  });
});

describe('the effects of an event', () => {
  test('are those that name it, oldest first; those that name these are on their pages', async ({ bus }) => {
    const first = await emitted(bus, { correlationId: 'request 1' });
    const [one, other] = [
      await emitted(bus, { causationId: first, correlationId: 'request 1' }),
      await emitted(bus, { causationId: first, correlationId: 'request 1' }),
    ];
    const grandchild = await emitted(bus, { causationId: one, correlationId: 'request 1' });
    await emitted(bus, { correlationId: 'request 2' });
    expect(idsOf((await read(bus, first)).effects)).toEqual([one, other]);
    expect(idsOf((await read(bus, one)).effects)).toEqual([grandchild]);
  });

  test('are found without a correlation id', async ({ bus }) => {
    const first = await emitted(bus, {});
    const second = await emitted(bus, { causationId: first });
    expect(idsOf((await read(bus, first)).effects)).toEqual([second]);
  });

  test('are found in the index of identifiers behind thousands of newer events', async ({ bus }) => {
    const first = await emitted(bus, {});
    const second = await emitted(bus, { causationId: first });
    const third = await emitted(bus, { causationId: first });
    await drain(bus.db, []);
    // Their ids are random, and most random ids are higher than those of this century.
    await storeBacklog(bus.db, 'payment.captured', 6000);
    await drain(bus.db, []);
    expect((await read(bus, first)).effects).toEqual([]);
    await indexEvents({ db: bus.db, until: Date.now() + 45_000 });
    expect(idsOf((await read(bus, first)).effects)).toEqual([second, third]);
  });

  test('outlive their cause, which is then known by its id alone', async ({ bus }) => {
    const { webhook, capture } = await captured(bus);
    // The webhook's event is delivered, its effect is not.
    await prune({ db: bus.db, until: Date.now() + 45_000, now: new Date(Date.now() + 40 * DAY) });
    expect((await read(bus, capture)).causes).toMatchObject([{ eventId: webhook, topic: null }]);
  });
});
