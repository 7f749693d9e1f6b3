import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, test as plainTest, vi } from 'vitest';
import type { TestBus } from 'postbud/testing';

import { book } from '../../dev/bookings.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import type { Behaviour, SendGridStandIn } from '../../dev/stand-ins/sendgrid.ts';
import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { audit } from '../../lib/components/audit.ts';
import { identity } from '../../lib/components/identity.ts';
import { notificationsBy } from '../../lib/components/notifications.ts';
import { createPaymentIntent, payments } from '../../lib/components/payments.ts';
import { subscribersOf } from '../../lib/components/registry.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import type { Config } from '../../lib/platform/config.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { DAY, HOUR, instantOf, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { contradictions, rows, cancelAlone } from '../support/bus.ts';
import { card, cardSucceeded } from '../support/payments.ts';
import { busTest, eventsOf, testOn, webhook } from '../support/test-bus.ts';
import { endLimit } from '../support/waits.ts';

describe('identity', () => {
  const test = testOn(identity);
  const login = (bus: TestBus, data: object) =>
    webhook(bus, 'webhook.identityprovider.received', { type: 'login.succeeded', data: data });
  const kari = { subject: 'kari', method: 'bank-id', email: 'kari@bærum.kommune.no' };

  test('reports the first sight of a subject as a sign-up and every later one as a sign-in', async ({
    bus,
  }) => {
    const first = await login(bus, kari);
    await login(bus, { subject: 'kari', method: 'national-id' });
    await login(bus, { subject: 'ola', method: 'magic-link' });
    // The catalog has never heard of these.
    for (const method of ['freja', 'passkey', 'vipps-login']) await login(bus, { subject: 'ola', method });
    expect(await bus.drain()).toMatchObject({ delivered: 6 });
    expect(await eventsOf(bus, 'user.')).toMatchObject([
      { topic: 'user.signed_up', payload: kari, causationId: first },
      { topic: 'user.signed_in', payload: { subject: 'kari', method: 'national-id' } },
      { topic: 'user.signed_up', payload: { subject: 'ola', method: 'magic-link' } },
      { topic: 'user.signed_in', payload: { subject: 'ola', method: 'freja' } },
      { topic: 'user.signed_in', payload: { subject: 'ola', method: 'passkey' } },
      { topic: 'user.signed_in', payload: { subject: 'ola', method: 'vipps-login' } },
    ]);
  });

  test('takes the first callback for the sign-up again when it is replayed, and emits nothing twice', async ({
    bus,
  }) => {
    await login(bus, kari);
    await login(bus, kari);
    await bus.drain();
    const before = await eventsOf(bus, 'user.');
    expect(await bus.replay('webhook.identityprovider.received', { include: 'all' })).toMatchObject({
      replayed: 2,
    });
    expect(await bus.drain()).toMatchObject({ delivered: 2 });
    expect(await eventsOf(bus, 'user.')).toEqual(before);
    expect(before.map(({ topic }) => topic)).toEqual(['user.signed_up', 'user.signed_in']);
  });

  test.for(['not an address', '', 17, null])(
    'signs in without the invalid e-mail address %j',
    async (email, { bus }) => {
      await login(bus, { ...kari, email });
      expect(await bus.drain()).toMatchObject({ delivered: 1 });
      expect((await eventsOf(bus, 'user.'))[0]!.payload).toEqual({ subject: 'kari', method: 'bank-id' });
    },
  );

  test.for([
    {},
    { subject: '', method: 'bank-id' },
    { subject: 'k'.repeat(256), method: 'bank-id' },
    { subject: 'kari', method: '' },
    { subject: 17, method: 'bank-id' },
  ])('dead-letters a login that it cannot read at once: %j', async (data, { bus }) => {
    await login(bus, data);
    expect(await bus.drain()).toMatchObject({ delivered: 0, failed: 0, deadLettered: 1 });
    expect(await eventsOf(bus, 'user.')).toEqual([]);
  });

  test('ignores callbacks of other types', async ({ bus }) => {
    await webhook(bus, 'webhook.identityprovider.received', { type: 'login.failed', data: kari });
    await webhook(bus, 'webhook.identityprovider.received', {});
    expect(await bus.drain()).toMatchObject({ delivered: 2 });
    expect(await eventsOf(bus, 'user.')).toEqual([]);
  });
});

/** Emits the catalog's example of each topic. @returns the ids by topic. */
async function emitExamples(bus: TestBus, topics: readonly string[]): Promise<Map<string, string>> {
  const ids = new Map<string, string>();
  for (const topic of topics) ids.set(topic, (await bus.emit(topic as TopicName)).id);
  return ids;
}

describe('audit', () => {
  const test = testOn(audit);
  const trail = (bus: TestBus) =>
    rows<{ id: string; topic: string; payload: object; recorded: string }>(
      bus.db,
      `select event_id::text as id, topic, payload, recorded_at::text as recorded from audit_log order by topic`,
    );

  test('keeps one row for each event, without personal data, and a replay adds none', async ({ bus }) => {
    const topics = topicsOf('audit');
    const ids = await emitExamples(bus, topics);
    expect(await bus.drain()).toMatchObject({ delivered: topics.length, failed: 0 });
    const kept = await trail(bus);
    expect(kept.map(({ topic, id }) => [topic, id]).toSorted()).toEqual([...ids].toSorted());
    const text = JSON.stringify(kept);
    expect(text).not.toMatch(/[\w.]+@[\w.]+/);
    expect(kept.find(({ topic }) => topic === 'user.signed_up')!.payload).toEqual({ method: 'bank-id' });
    expect(await bus.replay('user.signed_up', { include: 'all', subscriber: 'audit' })).toEqual({
      matched: 1,
      replayed: 1,
    });
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    expect(await trail(bus)).toEqual(kept);
  });

  test('keeps the fields that the schema names and does not mark as personal, and no unknown fields', async ({
    bus,
  }) => {
    await emitExamples(bus, ['integration.archive.deposited']);
    const newer = { archivedFor: 'Kari Lunde', caseworkerId: 'kari', papers: [{ of: 'Kari' }] };
    await rows(bus.db, 'update events set payload = payload || $1::text::jsonb', [JSON.stringify(newer)]);
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    const [kept] = await trail(bus);
    expect(kept!.payload).toEqual(catalog['integration.archive.deposited'].example);
  });

  test('keeps nothing that a visitor typed into an inquiry', async ({ bus }) => {
    await emitExamples(bus, ['inquiry.submitted']);
    expect(await bus.drain()).toMatchObject({ delivered: 1 });
    const [kept] = await trail(bus);
    expect(kept!.payload).toEqual({ inquiryId: 'inq_5521' });
  });
});

describe('notifications', () => {
  const test = testOn(notificationsBy());

  test('records one row for each event, with the e-mail where the payload names one, and nothing more at a replay', async ({
    bus,
  }) => {
    const topics = topicsOf('notifications');
    const ids = await emitExamples(bus, topics);
    await bus.drain();
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
    expect(await bus.replay('user.signed_up', { include: 'all', subscriber: 'notifications' })).toMatchObject(
      { replayed: 1 },
    );
    expect(await bus.drain()).toMatchObject({ delivered: 1, deadLettered: 0 });
    expect(await recorded()).toEqual(first);
  });

  describe('where e-mail is configured', () => {
    let sendGrid: SendGridStandIn;
    beforeAll(async () => {
      sendGrid = await startSendGrid();
    });
    afterAll(() => sendGrid.close());
    const mailing = (open: () => Promise<Database>) =>
      notificationsBy({
        open,
        settings: {
          apiKey: 'SG.stand-in',
          baseUrl: sendGrid.url,
          residency: 'global',
          from: 'ikke-svar@example.no',
          admin: 'post@example.no',
          cc: 'kopi@example.no',
        },
      });
    const test = busTest.extend('bus', async ({ open }) => {
      const bus: TestBus = await open([mailing(() => Promise.resolve(bus.db))], { stuckAfterMs: 20_000 });
      return bus;
    });
    const notices = (bus: TestBus) =>
      rows<{ email: string | null; mailed: boolean | null }>(
        bus.db,
        `select email, case when mail_begun_at is null then false when mailed_at is not null then true end as mailed
         from notifications order by email`,
      );
    const everythingAgain = async (bus: TestBus) => {
      await bus.replay('booking.created', { include: 'all' });
      return await bus.drain();
    };
    const sentTo = () => sendGrid.mails.map(({ personalizations }) => personalizations);

    test('mail the person whom the payload names, nobody else, and not again at a replay', async ({
      bus,
    }) => {
      const before = sendGrid.mails.length;
      await bus.emit('booking.created', { email: 'kari@example.no' });
      await bus.emit('booking.created', { email: undefined });
      expect(await bus.drain()).toMatchObject({ delivered: 2 });
      expect(sentTo().slice(before)).toEqual([[{ to: [{ email: 'kari@example.no' }] }]]);
      expect(await everythingAgain(bus)).toMatchObject({ delivered: 2, deadLettered: 0 });
      expect(sendGrid.mails).toHaveLength(before + 1);
      expect(await notices(bus)).toEqual([
        { email: 'kari@example.no', mailed: true },
        { email: null, mailed: false },
      ]);
    });

    test('mail the reminder of a booking a day before it begins, and not that of one that was cancelled', async ({
      bus,
    }) => {
      const before = sendGrid.mails.length;
      const beginsAt = bus.clock.now().getTime() + 3 * DAY;
      const times = { startsAt: instantOf(beginsAt), endsAt: instantOf(beginsAt + HOUR) };
      await book(bus.db, { bookingId: 'bkg_1', email: 'kari@example.no', ...times });
      await book(bus.db, { bookingId: 'bkg_2', email: 'ola@example.no', ...times });
      await bus.drain();
      await cancelAlone(bus.db, 'booking.reminder.due', 'bkg_2');
      const mailed = sendGrid.mails.length;
      expect(mailed).toBe(before + 2);
      bus.clock.advance(2 * DAY - MINUTE);
      expect(await bus.drain()).toMatchObject({ delivered: 0 });
      bus.clock.advance(MINUTE);
      expect(await bus.drain()).toMatchObject({ delivered: 1, errors: [] });
      expect(sentTo().slice(mailed)).toEqual([[{ to: [{ email: 'kari@example.no' }] }]]);
      expect(bus.received('notifications').at(-1)!.event).toMatchObject({
        topic: 'booking.reminder.due',
        payload: { bookingId: 'bkg_1' },
      });
    });

    test.for<[how: string, behaviour: Behaviour]>([
      ['cuts the connection', 'reset'],
      ['accepts it and answers 500', 'lose'],
      ['answers what never ends', 'stall'],
    ])(
      'a mail whose outcome is unknown, because the provider %s, is sent once, and its dead letter says so',
      async ([, behaviour], { bus }) => {
        const before = sendGrid.calls();
        sendGrid.behave([behaviour]);
        endLimit(5 * SECOND, () => sendGrid.calls() > before);
        await bus.emit('booking.created', { email: 'kari@example.no' });
        expect(await bus.drain()).toMatchObject({ deadLettered: 1, delivered: 0 });
        expect(await notices(bus)).toEqual([{ email: 'kari@example.no', mailed: null }]);
        const [told] = await rows<{ message: string }>(bus.db, 'select message from error_groups');
        expect(told!.message).toContain('the mail may have been sent');
        await bus.replay('booking.created', {});
        expect(await bus.drain()).toMatchObject({ deadLettered: 0, delivered: 1 });
        expect(await everythingAgain(bus)).toMatchObject({ delivered: 1 });
        expect(sendGrid.calls()).toBe(before + 1);
      },
    );

    test('a mail whose process died behind it is not sent again, neither by the retry nor by a replay', async ({
      bus,
    }) => {
      const before = sendGrid.calls();
      const id = await bus.emit('booking.created', { email: 'kari@example.no' });
      // What is left of a process that is killed between the provider's answer and the record of it.
      await rows(
        bus.db,
        `insert into notifications (event_id, topic, email, subject, mail_begun_at)
         values ($1, 'booking.created', 'kari@example.no', 'x', now())`,
        [id.id],
      );
      expect(await bus.drain()).toMatchObject({ deadLettered: 1 });
      expect(await everythingAgain(bus)).toMatchObject({ delivered: 1 });
      expect(sendGrid.calls()).toBe(before);
    });

    test('a mail that the provider refused is sent by the replay, once', async ({ bus }) => {
      const before = sendGrid.mails.length;
      sendGrid.behave([400]);
      await bus.emit('booking.created', { email: 'kari@example.no' });
      expect(await bus.drain()).toMatchObject({ deadLettered: 1 });
      expect(await everythingAgain(bus)).toMatchObject({ delivered: 1 });
      expect(await everythingAgain(bus)).toMatchObject({ delivered: 1 });
      expect(sentTo().slice(before)).toEqual([[{ to: [{ email: 'kari@example.no' }] }]]);
    });

    test('tries again when the provider is down, and gives up on a mail that it refuses', async ({ bus }) => {
      sendGrid.behave([503, 503, 400]);
      await bus.emit('booking.created', { email: 'kari@example.no' });
      await bus.emit('booking.created', { email: 'per@example.no' });
      expect(await bus.drain()).toMatchObject({ failed: 1, delivered: 0 });
      expect(await notices(bus)).toEqual([]);
      bus.clock.advance('1m');
      expect(await bus.drain()).toMatchObject({ deadLettered: 1, delivered: 1 });
    });

    test('does not mail the stranger who sent an inquiry', async ({ bus }) => {
      const before = sendGrid.mails.length;
      await bus.emit('inquiry.submitted');
      expect(await bus.drain()).toMatchObject({ delivered: 1 });
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

  plainTest(
    'stands in for exactly the unattached subscribers: every subscription of the catalog is attached once',
    () => {
      expect(subscriptionsOf(subscribersOf({ remoteSubscribers: [], database: embedded }))).toEqual(
        inCatalog,
      );
      const remote = subscribersOf({
        remoteSubscribers: [ledger, { ...ledger, name: 'audit', topics: topicsOf('audit') }],
        database: embedded,
      });
      expect(subscriptionsOf(remote)).toEqual(inCatalog);
      expect(remote.filter(({ name }) => name === 'ledger' || name === 'audit')).toMatchObject([
        { name: 'audit', transactional: false },
        { name: 'ledger', transactional: false },
      ]);
    },
  );

  plainTest.each<Config['database']>([
    { kind: 'postgres', url: 'postgres://localhost/x' },
    { kind: 'neon', url: 'postgres://ep-1.neon.tech/x' },
    { kind: 'none' },
  ])('stands in for nobody elsewhere: $kind', (database) => {
    const names = (remoteSubscribers: (typeof ledger)[]) =>
      subscribersOf({ remoteSubscribers, database })
        .map(({ name }) => name)
        .toSorted();
    expect(names([])).toEqual(['audit', 'identity', 'inquiries', 'notifications', 'payments']);
    expect(names([ledger])).toEqual([
      'audit',
      'identity',
      'inquiries',
      'ledger',
      'notifications',
      'payments',
    ]);
  });

  busTest('records each delivery once', async ({ open }) => {
    const bus = await open(subscribersOf({ remoteSubscribers: [], database: embedded }));
    const { id } = await bus.emit('payment.captured');
    expect(await bus.drain()).toMatchObject({ delivered: 4 });
    await bus.replay('payment.captured', { include: 'all' });
    expect(await bus.drain()).toMatchObject({ delivered: 4, deadLettered: 0 });
    expect(
      await rows(
        bus.db,
        'select event_id::text as id, subscriber, topic from stand_in_events order by subscriber',
      ),
    ).toEqual(
      ['accounting', 'bookings', 'ledger'].map((subscriber) => ({
        id,
        subscriber,
        topic: 'payment.captured',
      })),
    );
  });
});

describe('the whole chain', () => {
  const test = testOn(payments, notificationsBy());

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
          'x-request-id': '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
          'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload: body, secret }),
        },
        body,
      }),
    );
    vi.restoreAllMocks();
    expect(await response.json()).toMatchObject({ received: true, duplicate: false });

    expect(await bus.drain()).toMatchObject({ errors: [] });
    const [arrived] = await bus.events('webhook.cardpayments.received');
    const [captured] = await bus.events('payment.captured');
    expect(arrived).toMatchObject({
      correlationId: '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
      causationId: null,
    });
    expect(captured).toMatchObject({
      correlationId: '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
      causationId: arrived!.id,
    });
    for (const name of ['accounting', 'bookings', 'ledger'] as const) {
      const event = {
        id: captured!.id,
        correlationId: '0b0e5d6c-3c1f-4a53-9a0e-6f4c1d2b3a4e',
        causationId: arrived!.id,
        payload: { intentId: 'pi_1', bookingId: 'bkg_1', providerEventId: 'evt_chain', currency: 'NOK' },
      };
      expect(bus.received(name, 'payment.captured')).toMatchObject([{ event }]);
    }
    expect(await rows(bus.db, 'select event_id::text as id from notifications')).toEqual([
      { id: captured!.id },
    ]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});
