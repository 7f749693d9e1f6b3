import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, vi } from 'vitest';

import { catalog } from '../../lib/catalog/catalog.ts';
import type { PayloadInput, TopicName } from '../../lib/catalog/catalog.ts';
import type { Topic } from '../../lib/catalog/topic.ts';
import type { Config } from '../../lib/config.ts';
import { endpoint } from '../../lib/http/endpoint.ts';
import { codeOf } from '../../lib/log.ts';
import { replay } from '../../lib/deliveries/replay.ts';
import { emit } from '../../lib/outbox/emit.ts';
import { InvalidPayload } from '../../lib/outbox/errors.ts';
import { relay } from '../../lib/relay/relay.ts';
import type { RelayReport } from '../../lib/relay/relay.ts';
import { audit } from '../../lib/subscribers/audit.ts';
import { identity } from '../../lib/subscribers/identity.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import type { SendGridStandIn } from '../../dev/stand-ins/sendgrid.ts';
import { notificationsBy } from '../../lib/subscribers/notifications.ts';
import { createPaymentIntent, payments } from '../../lib/subscribers/payments.ts';
import { subscribersOf } from '../../lib/subscribers/registry.ts';
import { attach, topicsOf } from '../../lib/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../lib/subscribers/subscriber.ts';
import { MINUTE, SECOND } from '../../lib/time.ts';
import { receiveWebhook } from '../../lib/webhooks/receive.ts';
import { Rejections } from '../../lib/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/webhooks/route.ts';
import { contradictions, deliveriesOf, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { test } from '../support/bus-test.ts';
import {
  card,
  cardFailed,
  cardRefunded,
  cardSucceeded,
  wallet,
  walletCallback,
} from '../support/payments.ts';

type WebhookTopic = Extract<
  TopicName,
  `webhook.${string}payments.received` | 'webhook.identityprovider.received'
>;

/** Delivers what is due. @param now the clock; the database's when left out. */
async function deliver(
  bus: Bus,
  attached: readonly AttachedSubscriber[],
  now?: number,
): Promise<RelayReport> {
  const until = Date.now() + 45 * SECOND;
  return await relay({ db: bus.db, subscribers: attached, until, ...(now !== undefined && { now }) });
}

let received = 0;

/** Emits what the intake emits for a webhook. @returns the event's id. */
async function webhook(bus: Bus, topic: WebhookTopic, body: Record<string, unknown>): Promise<string> {
  received += 1;
  const named = body['type'] ?? body['name'];
  const eventType = typeof named === 'string' ? named : null;
  const { id } = await emit(bus.db, topic, { eventId: `evt_${received}`, eventType, body });
  return id;
}

interface Emitted {
  readonly id: string;
  readonly topic: string;
  readonly payload: Record<string, unknown>;
  readonly correlationId: string;
  readonly causationId: string | null;
}

/** The events of the topics that begin so, oldest first. */
const emitted = (bus: Bus, prefix: string) =>
  rows<Emitted>(
    bus.db,
    `select id::text, topic, payload, correlation_id as "correlationId", causation_id as "causationId"
     from events where starts_with(topic, $1) order by created_at, seq`,
    [prefix],
  );

/** `topic` and what is told apart by it, oldest first; the intents' own creation is left out. */
const outcomes = async (bus: Bus) =>
  (await emitted(bus, 'payment.')).flatMap(({ topic }) => (topic === 'payment.intent.created' ? [] : topic));

const intentStates = (bus: Bus) =>
  rows<{ id: string; state: string }>(bus.db, 'select id, state from payment_intents order by id');

const replayAll = (bus: Bus, topic: TopicName, attached: readonly AttachedSubscriber[] = []) =>
  replay(bus.db, { topic, since: '1h', include: 'all' }, 'kari', undefined, attached);

describe('payments', () => {
  describe("turn a card webhook into the booking's payment event:", () => {
    const common = { intentId: 'pi_1', bookingId: 'bkg_1', provider: 'cardpayments' };
    test.for([
      ['captured', cardSucceeded(), { amountMinor: 125_000, currency: 'NOK' }],
      ['failed', cardFailed(), { reason: 'expired_card' }],
      ['failed', cardFailed('pi_1', null), { reason: 'declined' }],
      ['failed', cardFailed('pi_1', { code: 17 }), { reason: 'declined' }],
      ['refunded', cardRefunded(), { amountMinor: 25_000, currency: 'NOK' }],
    ] as const)('payment.%s', async ([state, body, more], { bus }) => {
      await createPaymentIntent(bus.db, card);
      const id = await webhook(bus, 'webhook.cardpayments.received', body);
      expect(await deliver(bus, [payments])).toMatchObject({ delivered: 1, failed: 0, deadLettered: 0 });
      expect((await emitted(bus, 'payment.')).at(-1)).toMatchObject({
        topic: `payment.${state}`,
        payload: { ...common, ...more, providerEventId: `evt_${received}` },
        causationId: id,
      });
      expect(await intentStates(bus)).toEqual([{ id: 'pi_1', state }]);
    });
  });

  describe("turn a wallet callback into the booking's payment event:", () => {
    test.for([
      ['CAPTURED', 'captured', { amountMinor: 80_000, currency: 'NOK' }],
      ['REFUNDED', 'refunded', { amountMinor: 80_000, currency: 'NOK' }],
      ['FAILED', 'failed', { reason: 'failed' }],
      ['ABORTED', 'failed', { reason: 'aborted' }],
      ['EXPIRED', 'failed', { reason: 'expired' }],
      ['TERMINATED', 'failed', { reason: 'terminated' }],
    ] as const)('%s is payment.%s', async ([name, state, more], { bus }) => {
      await createPaymentIntent(bus.db, wallet);
      await webhook(bus, 'webhook.walletpayments.received', walletCallback(name));
      expect(await deliver(bus, [payments])).toMatchObject({ delivered: 1 });
      expect((await emitted(bus, 'payment.')).at(-1)).toMatchObject({
        topic: `payment.${state}`,
        payload: { intentId: 'wallet-1', bookingId: 'bkg_2', provider: 'walletpayments', ...more },
      });
      expect(await intentStates(bus)).toEqual([{ id: 'wallet-1', state }]);
    });

    test('a capture that did not succeed emits nothing', async ({ bus }) => {
      await createPaymentIntent(bus.db, wallet);
      await webhook(bus, 'webhook.walletpayments.received', walletCallback('CAPTURED', { success: false }));
      expect(await deliver(bus, [payments])).toMatchObject({ delivered: 1 });
      expect(await outcomes(bus)).toEqual([]);
      expect(await intentStates(bus)).toEqual([{ id: 'wallet-1', state: 'created' }]);
    });
  });

  test('emit an outcome of an intent once, however many webhooks report it and however often they are replayed', async ({
    bus,
  }) => {
    await createPaymentIntent(bus.db, card);
    await webhook(bus, 'webhook.cardpayments.received', cardSucceeded());
    await webhook(bus, 'webhook.cardpayments.received', cardSucceeded());
    await webhook(bus, 'webhook.cardpayments.received', cardRefunded());
    expect(await deliver(bus, [payments])).toMatchObject({ delivered: 3 });
    expect(await outcomes(bus)).toEqual(['payment.captured', 'payment.refunded']);
    expect(await replayAll(bus, 'webhook.cardpayments.received')).toMatchObject({ replayed: 3 });
    expect(await deliver(bus, [payments])).toMatchObject({ delivered: 3 });
    expect(await outcomes(bus)).toEqual(['payment.captured', 'payment.refunded']);
    expect(await intentStates(bus)).toEqual([{ id: 'pi_1', state: 'refunded' }]);
  });

  test.for([
    ['webhook.cardpayments.received', { type: 'invoice.paid', data: { object: { id: 'in_1' } } }],
    ['webhook.cardpayments.received', { type: 'PAYMENT_INTENT.SUCCEEDED' }],
    ['webhook.cardpayments.received', { type: ['payment_intent.succeeded'] }],
    [
      'webhook.cardpayments.received',
      {
        type: 'charge.refunded',
        data: { object: { id: 'ch_1', payment_intent: null, amount_refunded: 5, currency: 'nok' } },
      },
    ],
    ['webhook.cardpayments.received', {}],
    ['webhook.walletpayments.received', { name: 'AUTHORIZED', reference: 'wallet-1' }],
    ['webhook.walletpayments.received', { name: null }],
  ] as const)('ignore a webhook without a meaning for them: %s %j', async ([topic, body], { bus }) => {
    await webhook(bus, topic, body);
    expect(await deliver(bus, [payments])).toMatchObject({ delivered: 1, deadLettered: 0 });
    expect(await outcomes(bus)).toEqual([]);
  });

  test.for([
    ['webhook.cardpayments.received', { type: 'payment_intent.succeeded' }],
    ['webhook.cardpayments.received', { type: 'payment_intent.succeeded', data: { object: 'pi_1' } }],
    [
      'webhook.cardpayments.received',
      {
        type: 'payment_intent.succeeded',
        data: { object: { id: 'pi_1', amount_received: '1', currency: 'nok' } },
      },
    ],
    [
      'webhook.cardpayments.received',
      {
        type: 'payment_intent.succeeded',
        data: { object: { id: 'pi_1', amount_received: 1.5, currency: 'nok' } },
      },
    ],
    [
      'webhook.cardpayments.received',
      { type: 'charge.refunded', data: { object: { payment_intent: null } } },
    ],
    ['webhook.walletpayments.received', { name: 'CAPTURED', amount: { value: 1, currency: 'NOK' } }],
    ['webhook.walletpayments.received', { name: 'CAPTURED', reference: 'wallet-1' }],
    ['webhook.walletpayments.received', { name: 'FAILED', reference: '' }],
  ] as const)(
    'dead-letter a body that does not fit its type at once: %s %j',
    async ([topic, body], { bus }) => {
      await createPaymentIntent(bus.db, card);
      await createPaymentIntent(bus.db, wallet);
      await webhook(bus, topic, body);
      expect(await deliver(bus, [payments])).toMatchObject({ delivered: 0, failed: 0, deadLettered: 1 });
      const [letter] = await deliveriesOf(bus.db, 'payments');
      expect(letter).toMatchObject({ state: 'dead_lettered', attempts: 1, log: [{ kind: 'permanent' }] });
      expect(await outcomes(bus)).toEqual([]);
    },
  );

  test.for([
    ['webhook.cardpayments.received', { amount_received: -1, currency: 'nok' }],
    ['webhook.cardpayments.received', { amount_received: 1, currency: '12 ' }],
  ] as const)(
    'dead-letter an outcome that no event can carry at once: %s %j',
    async ([topic, object], { bus }) => {
      await createPaymentIntent(bus.db, card);
      await webhook(bus, topic, {
        type: 'payment_intent.succeeded',
        data: { object: { id: 'pi_1', ...object } },
      });
      expect(await deliver(bus, [payments])).toMatchObject({ failed: 0, deadLettered: 1 });
    },
  );

  test('keep a capture after a late failure, and a refund after a late capture', async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await webhook(bus, 'webhook.cardpayments.received', cardSucceeded());
    await webhook(bus, 'webhook.cardpayments.received', cardFailed());
    await deliver(bus, [payments]);
    expect(await intentStates(bus)).toEqual([{ id: card.id, state: 'captured' }]);

    await createPaymentIntent(bus.db, wallet);
    for (const name of ['REFUNDED', 'CAPTURED', 'FAILED']) {
      await webhook(bus, 'webhook.walletpayments.received', walletCallback(name));
    }
    await deliver(bus, [payments]);
    expect(await intentStates(bus)).toEqual([
      { id: card.id, state: 'captured' },
      { id: wallet.id, state: 'refunded' },
    ]);
  });

  test('create an intent with its row and its event', async ({ bus }) => {
    const { eventId } = await createPaymentIntent(bus.db, card);
    const { id, ...rest } = card;
    expect(await emitted(bus, 'payment.')).toMatchObject([
      { id: eventId, topic: 'payment.intent.created', payload: { intentId: id, ...rest } },
    ]);
    expect(await intentStates(bus)).toEqual([{ id, state: 'created' }]);
  });

  test('create neither row nor event of an intent that is invalid or exists', async ({ bus }) => {
    await expect(createPaymentIntent(bus.db, { ...card, currency: 'nok' })).rejects.toBeInstanceOf(
      InvalidPayload,
    );
    expect([await intentStates(bus), await emitted(bus, 'payment.')]).toEqual([[], []]);
    await createPaymentIntent(bus.db, card);
    const taken = await createPaymentIntent(bus.db, { ...card, bookingId: 'bkg_9' }).catch(codeOf);
    expect(taken).toBe('23505');
    expect(await emitted(bus, 'payment.')).toHaveLength(1);
  });
});

describe('identity', () => {
  const login = (bus: Bus, data: object) =>
    webhook(bus, 'webhook.identityprovider.received', { type: 'login.succeeded', data: data });
  const kari = { subject: 'kari', method: 'bank-id', email: 'kari@bærum.kommune.no' };

  test('reports the first sight of a subject as a sign-up and every later one as a sign-in', async ({
    bus,
  }) => {
    const first = await login(bus, kari);
    await login(bus, { subject: 'kari', method: 'national-id' });
    await login(bus, { subject: 'ola', method: 'magic-link' });
    expect(await deliver(bus, [identity])).toMatchObject({ delivered: 3 });
    expect(await emitted(bus, 'user.')).toMatchObject([
      { topic: 'user.signed_up', payload: kari, causationId: first },
      { topic: 'user.signed_in', payload: { subject: 'kari', method: 'national-id' } },
      { topic: 'user.signed_up', payload: { subject: 'ola', method: 'magic-link' } },
    ]);
  });

  test('takes the first callback for the sign-up again when it is replayed, and emits nothing twice', async ({
    bus,
  }) => {
    await login(bus, kari);
    await login(bus, kari);
    await deliver(bus, [identity]);
    const before = await emitted(bus, 'user.');
    expect(await replayAll(bus, 'webhook.identityprovider.received')).toMatchObject({ replayed: 2 });
    expect(await deliver(bus, [identity])).toMatchObject({ delivered: 2 });
    expect(await emitted(bus, 'user.')).toEqual(before);
    expect(before.map(({ topic }) => topic)).toEqual(['user.signed_up', 'user.signed_in']);
  });

  test.for(['not an address', '', 17, null])(
    'signs in without the invalid e-mail address %j',
    async (email, { bus }) => {
      await login(bus, { ...kari, email });
      expect(await deliver(bus, [identity])).toMatchObject({ delivered: 1 });
      expect((await emitted(bus, 'user.'))[0]!.payload).toEqual({ subject: 'kari', method: 'bank-id' });
    },
  );

  test.for([
    {},
    { subject: '', method: 'bank-id' },
    { subject: 'k'.repeat(256), method: 'bank-id' },
    { subject: 'kari', method: 'password' },
    { subject: 17, method: 'bank-id' },
  ])('dead-letters a login that it cannot read at once: %j', async (data, { bus }) => {
    await login(bus, data);
    expect(await deliver(bus, [identity])).toMatchObject({ delivered: 0, failed: 0, deadLettered: 1 });
    expect(await emitted(bus, 'user.')).toEqual([]);
  });

  test('ignores callbacks of other types', async ({ bus }) => {
    await webhook(bus, 'webhook.identityprovider.received', { type: 'login.failed', data: kari });
    await webhook(bus, 'webhook.identityprovider.received', {});
    expect(await deliver(bus, [identity])).toMatchObject({ delivered: 2 });
    expect(await emitted(bus, 'user.')).toEqual([]);
  });
});

/** Emits the catalog's example of each topic. @returns the ids by topic. */
async function emitExamples(bus: Bus, topics: readonly string[]): Promise<Map<string, string>> {
  return await bus.db.transaction(async (tx) => {
    const ids = new Map<string, string>();
    for (const topic of topics as TopicName[]) {
      const example = catalog[topic].example as PayloadInput<typeof topic>;
      ids.set(topic, (await emit(tx, topic, example)).id);
    }
    return ids;
  });
}

describe('audit', () => {
  const trail = (bus: Bus) =>
    rows<{ id: string; topic: string; payload: object; recorded: string }>(
      bus.db,
      `select event_id::text as id, topic, payload, recorded_at::text as recorded from audit_log order by topic`,
    );

  test('keeps one row for each event, without personal data, and a replay adds none', async ({ bus }) => {
    const topics = topicsOf('audit');
    const ids = await emitExamples(bus, topics);
    expect(await deliver(bus, [audit])).toMatchObject({ delivered: topics.length, failed: 0 });
    const kept = await trail(bus);
    expect(kept.map(({ topic, id }) => [topic, id]).toSorted()).toEqual([...ids].toSorted());
    const text = JSON.stringify(kept);
    expect(text).not.toMatch(/[\w.]+@[\w.]+/);
    expect(kept.find(({ topic }) => topic === 'user.signed_up')!.payload).toEqual({ method: 'bank-id' });
    expect(await replayAll(bus, 'user.signed_up')).toMatchObject({ matched: 1, replayed: 1 });
    expect(await deliver(bus, [audit])).toMatchObject({ delivered: 1 });
    expect(await trail(bus)).toEqual(kept);
  });

  test('keeps the fields that the schema names and does not mark as personal, and no unknown fields', async ({
    bus,
  }) => {
    await emitExamples(bus, ['integration.archive.deposited']);
    const newer = { archivedFor: 'Kari Lunde', caseworkerId: 'kari', papers: [{ of: 'Kari' }] };
    await rows(bus.db, 'update events set payload = payload || $1::text::jsonb', [JSON.stringify(newer)]);
    expect(await deliver(bus, [audit])).toMatchObject({ delivered: 1 });
    const [kept] = await trail(bus);
    expect(kept!.payload).toEqual(catalog['integration.archive.deposited'].example);
  });

  test('keeps nothing that a visitor typed into an inquiry', async ({ bus }) => {
    await emitExamples(bus, ['inquiry.submitted']);
    expect(await deliver(bus, [audit])).toMatchObject({ delivered: 1 });
    const [kept] = await trail(bus);
    expect(kept!.payload).toEqual({ inquiryId: 'inq_5521' });
  });
});

describe('notifications', () => {
  test('records one row for each event, with the e-mail where the payload names one, and takes no replay', async ({
    bus,
  }) => {
    const topics = topicsOf('notifications');
    const ids = await emitExamples(bus, topics);
    await deliver(bus, [notificationsBy(undefined)]);
    const recorded = () =>
      rows<{ topic: string; id: string; email: string | null; subject: string }>(
        bus.db,
        'select topic, event_id::text as id, email, subject from notifications order by topic',
      );
    const first = await recorded();
    expect(first).toEqual(
      [...topics].toSorted().map((topic) => {
        const { example, description } = catalog[topic as TopicName] as Topic;
        const { email = null } = example as { email?: string };
        return { topic, id: ids.get(topic), email, subject: description };
      }),
    );
    expect(first.some(({ email }) => email !== null)).toBe(true);
    expect(first.some(({ email }) => email === null)).toBe(true);
    await replayAll(bus, 'user.signed_up');
    // By a release that does not know that it refuses.
    expect(await deliver(bus, [notificationsBy(undefined)])).toMatchObject({ delivered: 0, deadLettered: 1 });
    expect(await recorded()).toHaveLength(topics.length);
  });

  describe('where e-mail is configured', () => {
    let sendGrid: SendGridStandIn;
    beforeAll(async () => {
      sendGrid = await startSendGrid();
    });
    afterAll(() => sendGrid.close());
    const mailing = () =>
      notificationsBy({
        apiKey: 'SG.stand-in',
        baseUrl: sendGrid.url,
        residency: 'global',
        from: 'ikke-svar@example.no',
        admin: 'post@example.no',
        cc: 'kopi@example.no',
      });
    const created = (bus: Bus, email?: string) => {
      const { email: _, ...example } = catalog['booking.created'].example;
      return bus.db.transaction((tx) =>
        emit(tx, 'booking.created', { ...example, ...(email !== undefined && { email }) }),
      );
    };
    const notices = (bus: Bus) =>
      rows<{ email: string | null; mailed: boolean }>(
        bus.db,
        'select email, mailed_at is not null as mailed from notifications',
      );
    const sentTo = () => sendGrid.mails.map(({ personalizations }) => personalizations);

    test('mail the person whom the payload names, nobody else, and not again at a replay', async ({
      bus,
    }) => {
      const before = sendGrid.mails.length;
      await created(bus, 'kari@example.no');
      await created(bus);
      expect(await deliver(bus, [mailing()])).toMatchObject({ delivered: 2 });
      expect(sentTo().slice(before)).toEqual([[{ to: [{ email: 'kari@example.no' }] }]]);
      await replayAll(bus, 'booking.created');
      expect(await deliver(bus, [mailing()])).toMatchObject({ delivered: 0, deadLettered: 2 });
      expect(sendGrid.mails).toHaveLength(before + 1);
      expect((await notices(bus)).toSorted((a) => (a.mailed ? -1 : 1))).toEqual([
        { email: 'kari@example.no', mailed: true },
        { email: null, mailed: false },
      ]);
    });

    test('tries again when the provider is down, and gives up on a mail that it refuses', async ({ bus }) => {
      sendGrid.behave([500, 500, 400]);
      await created(bus, 'kari@example.no');
      await created(bus, 'per@example.no');
      // Ahead of the database's clock, by which they were created.
      const at = Date.now() + SECOND;
      expect(await deliver(bus, [mailing()], at)).toMatchObject({ failed: 1, delivered: 0 });
      expect(await notices(bus)).toEqual([]);
      expect(await deliver(bus, [mailing()], at + MINUTE)).toMatchObject({ deadLettered: 1, delivered: 1 });
    });

    test('does not mail the stranger who sent an inquiry', async ({ bus }) => {
      const before = sendGrid.mails.length;
      await bus.db.transaction((tx) => emit(tx, 'inquiry.submitted', catalog['inquiry.submitted'].example));
      expect(await deliver(bus, [mailing()])).toMatchObject({ delivered: 1 });
      expect(sendGrid.mails).toHaveLength(before);
    });
  });
});

describe('the journal', () => {
  const embedded = { kind: 'embedded', dataDir: 'memory://' } as const;
  const inCatalog = Object.entries<Topic>(catalog)
    .flatMap(([topic, { subscribers }]) => subscribers.map((name) => `${topic} ${name}`))
    .toSorted();
  const subscriptionsOf = (attached: readonly AttachedSubscriber[]) =>
    attached
      .flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`))
      .toSorted();
  const ledger = {
    name: 'ledger',
    url: 'http://localhost:1/',
    secret: `whsec_${Buffer.alloc(32).toString('base64')}`,
  };

  test('stands in for exactly the unattached subscribers: every subscription of the catalog is attached once', () => {
    expect(subscriptionsOf(subscribersOf({ remoteSubscribers: [], database: embedded }))).toEqual(inCatalog);
    const remote = subscribersOf({
      remoteSubscribers: [ledger, { ...ledger, name: 'audit', topics: topicsOf('audit') }],
      database: embedded,
    });
    expect(subscriptionsOf(remote)).toEqual(inCatalog);
    expect(remote.filter(({ name }) => name === 'ledger' || name === 'audit')).toMatchObject([
      { name: 'audit', transactional: false },
      { name: 'ledger', transactional: false },
    ]);
  });

  test.each<Config['database']>([
    { kind: 'postgres', url: 'postgres://localhost/x' },
    { kind: 'neon', url: 'postgres://ep-1.neon.tech/x' },
    { kind: 'none' },
  ])('stands in for nobody elsewhere: $kind', (database) => {
    const names = (remoteSubscribers: (typeof ledger)[]) =>
      subscribersOf({ remoteSubscribers, database })
        .map(({ name }) => name)
        .toSorted();
    expect(names([])).toEqual(['audit', 'identity', 'notifications', 'payments']);
    expect(names([ledger])).toEqual(['audit', 'identity', 'ledger', 'notifications', 'payments']);
  });

  test('records each delivery once', async ({ bus }) => {
    const ids = await emitExamples(bus, ['payment.captured']);
    const attached = subscribersOf({ remoteSubscribers: [], database: embedded });
    expect(await deliver(bus, attached)).toMatchObject({ delivered: 4 });
    await replayAll(bus, 'payment.captured', attached);
    // All but notifications.
    expect(await deliver(bus, attached)).toMatchObject({ delivered: 3, deadLettered: 0 });
    expect(
      await rows(bus.db, 'select event_id::text as id, subscriber, topic from journal order by subscriber'),
    ).toEqual(
      ['accounting', 'bookings', 'ledger'].map((subscriber) => ({
        id: ids.get('payment.captured'),
        subscriber,
        topic: 'payment.captured',
      })),
    );
  });
});

describe('the whole chain', () => {
  test('takes a signed webhook through payments to the four subscribers of payment.captured, traced all the way', async ({
    bus,
  }) => {
    const secret = 'whsec_of_the_card_provider';
    const none = { scheme: 'standard', secrets: [] } as const;
    const settings: Config['webhooks'] = {
      cardpayments: { scheme: 'stripe', secrets: [secret] },
      walletpayments: none,
      identityprovider: none,
    };
    const database = async () => bus.db;
    const rejections = new Rejections(database);
    const { fetch } = endpoint(webhookRoute, {
      handle: async (request, { requestId }) =>
        Response.json(await receiveWebhook({ request, requestId, settings, database, rejections })),
    });
    vi.spyOn(process.stdout, 'write').mockReturnValueOnce(true);
    await createPaymentIntent(bus.db, card);
    const body = JSON.stringify({ id: 'evt_chain', ...cardSucceeded() });
    const response = await fetch(
      new Request('https://postbud.example/webhooks/cardpayments', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-request-id': 'req-chain',
          'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload: body, secret }),
        },
        body,
      }),
    );
    vi.restoreAllMocks();
    expect(await response.json()).toMatchObject({ received: true, duplicate: false });

    const handed: { name: string; event: BusEvent }[] = [];
    const others = (['bookings', 'ledger', 'accounting'] as const).map((name) =>
      attach(name, { 'payment.captured': (event) => handed.push({ name, event }) }),
    );
    await deliver(bus, [payments, notificationsBy(undefined), ...others]);
    const [arrived] = await emitted(bus, 'webhook.');
    const [captured] = await emitted(bus, 'payment.captured');
    expect(arrived).toMatchObject({ correlationId: 'req-chain', causationId: null });
    expect(captured).toMatchObject({ correlationId: 'req-chain', causationId: arrived!.id });
    expect(handed.map(({ name }) => name).toSorted()).toEqual(['accounting', 'bookings', 'ledger']);
    for (const { event } of handed) {
      expect(event).toMatchObject({
        id: captured!.id,
        correlationId: 'req-chain',
        causationId: arrived!.id,
        payload: { intentId: 'pi_1', bookingId: 'bkg_1', providerEventId: 'evt_chain', currency: 'NOK' },
      });
    }
    expect(await rows(bus.db, 'select event_id::text as id from notifications')).toEqual([
      { id: captured!.id },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});
