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
  await rows(
    bus.db,
    `insert into webhook_receipts (provider, event_id, body_sha256, received_at, duplicates)
     select 'cardpayments', payload ->> 'eventId', '', created_at, 2 from events where id = $1::uuid`,
    [webhook],
  );
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
  test('are its webhook’s receipt and event, and it is among the effects of these', async ({ bus }) => {
    const { webhook, capture } = await captured(bus);
    const view = await read(bus, capture);
    expect(view.webhook).toMatchObject({
      provider: 'cardpayments',
      webhookId: expect.stringMatching(/^evt_/),
      receivedAt: expect.stringMatching(/Z$/),
      duplicates: 2,
    });
    expect(view.causes).toMatchObject([
      {
        eventId: webhook,
        isKept: true,
        topic: 'webhook.cardpayments.received',
        state: 'delivered',
        subject: `event ${view.webhook!.webhookId}`,
        causedBy: null,
      },
    ]);
    const first = await read(bus, webhook);
    expect(first.webhook).toEqual(view.webhook);
    expect(first.effects).toMatchObject([
      { eventId: capture, topic: 'payment.captured', causedBy: webhook, subject: 'intent pi_1' },
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
      { eventId: first, isKept: false, topic: null, createdAt: null },
      { eventId: second, isKept: true },
    ]);
  });

  test('may be named by a text that is no event’s id, or go round in a circle', async ({ bus }) => {
    const odd = await emitted(bus, { causationId: 'a letter' });
    expect((await read(bus, odd)).causes).toMatchObject([{ eventId: 'a letter', isKept: false }]);
    await rows(bus.db, 'update events set causation_id = id::text where id = $1::uuid', [odd]);
    const { causes, effects } = await read(bus, odd);
    expect([causes.length <= 12, effects.length]).toEqual([true, 0]);
  });
});

describe('the effects of an event', () => {
  test('are those that name it, and those that name these, oldest first', async ({ bus }) => {
    const first = await emitted(bus, { correlationId: 'request 1' });
    const [one, other] = [
      await emitted(bus, { causationId: first, correlationId: 'request 1' }),
      await emitted(bus, { causationId: first, correlationId: 'request 1' }),
    ];
    const grandchild = await emitted(bus, { causationId: one, correlationId: 'request 1' });
    await emitted(bus, { correlationId: 'request 2' });
    const { effects, areMoreEffects } = await read(bus, first);
    expect(effects.map(({ eventId, causedBy }) => [eventId, causedBy])).toEqual([
      [one, first],
      [other, first],
      [grandchild, one],
    ]);
    expect(areMoreEffects).toBe(false);
  });

  test('are found without a correlation id', async ({ bus }) => {
    const first = await emitted(bus, {});
    const second = await emitted(bus, { causationId: first });
    const third = await emitted(bus, { causationId: second });
    expect(idsOf((await read(bus, first)).effects)).toEqual([second, third]);
  });

  test('are found in the index of identifiers behind thousands of newer events, and it is said until then', async ({
    bus,
  }) => {
    const first = await emitted(bus, {});
    const second = await emitted(bus, { causationId: first });
    const third = await emitted(bus, { causationId: second });
    await drain(bus.db, []);
    // Their ids are random, and most random ids are higher than those of this century.
    await storeBacklog(bus.db, 'payment.captured', 6000);
    await drain(bus.db, []);
    expect(await read(bus, first)).toMatchObject({ effects: [], areMoreEffects: true });
    await indexEvents({ db: bus.db, until: Date.now() + 45_000 });
    const { effects, areMoreEffects } = await read(bus, first);
    expect([idsOf(effects), areMoreEffects]).toEqual([[second, third], false]);
  });

  test('outlive their cause, which is then known by its id alone', async ({ bus }) => {
    const { webhook, capture } = await captured(bus);
    // The webhook's event is delivered, its effect is not.
    await prune({ db: bus.db, until: Date.now() + 45_000, now: new Date(Date.now() + 40 * DAY) });
    expect((await read(bus, capture)).causes).toMatchObject([{ eventId: webhook, isKept: false }]);
  });
});
