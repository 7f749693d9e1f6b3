import { expect } from 'vitest';

import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { test } from '../support/operator-test.ts';

// What the contract says of the answers to operators' programs, to the letter: other repositories read these fields.

const counts = { pending: expect.any(Number), failing: expect.any(Number), deadLettered: expect.any(Number) };
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string;

test.beforeEach(async ({ bus, operators }) => {
  await operators.died(2);
  await watchIncidents(bus.db);
});

test('the overview lists every topic with its counts, and below it each subscriber', async ({
  operators,
}) => {
  const { json } = await operators.ask('');
  expect(json).toMatchObject({
    generatedAt: instant,
    relay: { state: 'running', lastPassAt: instant, lagSeconds: expect.any(Number) },
    totals: { ...counts, deadLettered: 2 },
  });
  const topic = (json['topics'] as { topic: string }[]).find((one) => one.topic === 'payment.captured');
  expect(topic).toMatchObject({
    producer: 'payments',
    ...counts,
    deadLettered: 2,
    oldestDueAgeSeconds: expect.toBeOneOf([null, expect.any(Number)]),
    nextRetryAt: null,
  });
  expect(topic).toHaveProperty(
    'subscribers',
    expect.arrayContaining([
      expect.objectContaining({
        subscriber: 'ledger',
        attached: true,
        ...counts,
        deadLettered: 2,
        paused: false,
      }),
    ]),
  );
});

test('dead letters are listed with their groups, and each with every attempt and its payload', async ({
  operators,
}) => {
  const { json } = await operators.ask(
    '/dead-letters?topic=payment.captured&subscriber=ledger&since=24h&limit=1',
  );
  const error = { kind: 'permanent', message: 'refused', group: expect.any(String) };
  const { items } = json as { items: { deliveryId: string; eventId: string }[] };
  expect(json).toMatchObject({
    total: 2,
    nextCursor: expect.any(String),
    items: [
      {
        deliveryId: expect.any(String),
        eventId: expect.any(String),
        topic: 'payment.captured',
        subscriber: 'ledger',
        subject: expect.any(String),
        createdAt: instant,
        deadLetteredAt: instant,
        failures: 1,
        replays: 0,
        lastError: error,
      },
    ],
    groups: [
      {
        group: expect.any(String),
        message: 'refused',
        topic: 'payment.captured',
        subscriber: 'ledger',
        count: 2,
        firstAt: instant,
        lastAt: instant,
      },
    ],
  });
  const { deliveryId, eventId } = items[0]!;
  expect((await operators.ask(`/dead-letters/${deliveryId}`)).json).toMatchObject({
    deliveryId,
    eventId,
    topic: 'payment.captured',
    subscriber: 'ledger',
    state: 'dead_lettered',
    deadLetteredAt: instant,
    attempts: [{ attempt: 1, outcome: 'failed' }],
    payload: { amountMinor: expect.any(Number) },
    lastError: error,
  });
});

test('a replay answers with what matched and what it replayed, a dry run likewise', async ({ operators }) => {
  const asked = { topic: 'payment.captured', since: '24h' };
  expect((await operators.ask('/replay', { json: { ...asked, dryRun: true } })).json).toMatchObject({
    replayId: expect.any(String),
    ...asked,
    matched: 2,
    replayed: 0,
  });
  expect((await operators.ask('/replay', { json: { ...asked, reason: 'fixed' } })).json).toMatchObject({
    replayId: expect.any(String),
    ...asked,
    matched: 2,
    replayed: 2,
  });
});

test('events are listed, and each says why a delivery waits', async ({ operators }) => {
  const { json } = await operators.ask('/events?topic=payment.captured');
  const { items } = json as { items: { eventId: string }[] };
  expect(json).toMatchObject({ nextCursor: null });
  expect(items[0]).toMatchObject({
    eventId: expect.any(String),
    topic: 'payment.captured',
    subject: expect.any(String),
    state: 'dead_lettered',
    createdAt: instant,
  });
  const one = (await operators.ask(`/events/${items[0]!.eventId}`)).json as {
    deliveries: { subscriber: string }[];
  };
  expect(one).toMatchObject({
    event: { eventId: items[0]!.eventId },
    verdict: expect.any(String),
    causes: [],
    effects: [],
  });
  expect(one.deliveries.find(({ subscriber }) => subscriber === 'ledger')).toMatchObject({
    deliveryId: expect.any(String),
    state: 'dead_lettered',
    attempts: [expect.any(Object)],
    why: null,
  });
  expect(one.deliveries.find(({ subscriber }) => subscriber === 'notifications')).toMatchObject({
    why: { code: 'unattached', text: expect.any(String) },
  });
});

test('incidents are listed and settled', async ({ operators }) => {
  const { json } = await operators.ask('/incidents');
  const [incident] = json['items'] as { incidentId: string; state: string }[];
  expect(incident).toMatchObject({ state: 'owed' });
  const at = `/incidents/${incident!.incidentId}`;
  const noted = await operators.ask(`${at}/acknowledge`, { json: { note: 'The supplier is told.' } });
  expect(noted.status).toBe(200);
  expect((await operators.ask(at)).json).toMatchObject({
    acknowledged: { by: expect.any(String), note: 'The supplier is told.' },
  });
  expect((await operators.ask(`${at}/dismiss`, { json: { reason: 'Booked by hand.' } })).status).toBe(200);
  expect((await operators.ask('/dead-letters')).json).toMatchObject({ total: 0 });
});

test('subscribers say where each runs, how it is, and what it said last', async ({ operators }) => {
  const { json } = await operators.ask('/subscribers');
  const ledger = (json['items'] as { subscriber: string }[]).find(
    ({ subscriber }) => subscriber === 'ledger',
  );
  expect(ledger).toMatchObject({
    place: 'here',
    host: null,
    state: expect.toBeOneOf(['delivering', 'failing', 'outage', 'paused', 'unattached']),
    pausedBy: null,
    ...counts,
    lastDeliveredAt: null,
    lastFailedAt: instant,
    lastAnswer: expect.stringContaining('refused'),
  });
  expect((await operators.ask('/subscribers/ledger')).json).toMatchObject({
    items: [{ subscriber: 'ledger' }],
  });
});
