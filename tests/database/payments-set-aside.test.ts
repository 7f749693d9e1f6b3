import { describe, expect, vi } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import type { RelayReport } from '../../lib/bus/relay/relay.ts';
import type { BusEvent, TransactionalContext } from '../../lib/bus/subscribers/subscriber.ts';
import { createPaymentIntent, handleWebhook, payments } from '../../lib/components/payments.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { acceptWebhook } from '../../lib/components/payments/accept.ts';
import { unexpectedIn } from '../../lib/components/payments/sender.ts';
import { settleSetAside } from '../../lib/components/payments/set-aside.ts';
import { subscribersOf } from '../../lib/components/registry.ts';
import { webhookQuery } from '../../lib/console/webhooks/fields.ts';
import { readWebhooks } from '../../lib/console/webhooks/read.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { Database, Transaction } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, gate, rows } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import {
  card,
  cardFailed,
  cardOf,
  cardRefunded,
  cardSucceeded,
  told,
  wallet,
  walletPart,
  webhookOf,
} from '../support/payments.ts';

type Body = Record<string, unknown>;

/** Delivers what is due, in one pass. */
async function deliver(bus: Bus, now?: number): Promise<RelayReport> {
  const until = Date.now() + 15 * SECOND;
  return await relay({ db: bus.db, subscribers: [payments], until, ...(now !== undefined && { now }) });
}

/** What is listed, oldest first: `pi_1`, or `pi_1 unclaimed`. */
const listed = async (bus: Bus) =>
  (
    await rows<{ line: string }>(
      bus.db,
      `select concat_ws(' ', intent_id, case when unclaimed_at is not null then 'unclaimed' end) as line
       from webhooks_set_aside order by created_at, seq`,
    )
  ).map(({ line }) => line);

/** Records an intent as another component would, which knows of this table only. */
const recordElsewhere = (bus: Bus, id: string, bookingId = 'bkg_1') =>
  rows(
    bus.db,
    `insert into payment_intents (id, booking_id, provider, amount_minor, currency)
     values ($1, $2, 'cardpayments', 125000, 'NOK')`,
    [id, bookingId],
  );

describe('webhooks of intents that nobody has recorded', () => {
  test('webhooks of unknown intents are set aside and delay no known payment, however many there are', async ({
    bus,
  }) => {
    for (let number = 1; number <= 20; number += 1) {
      await createPaymentIntent(bus.db, { ...card, id: `pi_known_${number}` });
      await webhookOf(bus.db, 'cardpayments', cardSucceeded(`pi_stranger_${number}`));
      await webhookOf(bus.db, 'cardpayments', cardSucceeded(`pi_known_${number}`));
    }
    expect(await deliver(bus)).toMatchObject({ delivered: 40, waited: 0, failed: 0, deadLettered: 0 });
    expect(await told(bus.db)).toEqual(
      Array.from({ length: 20 }, (_, index) => `pi_known_${index + 1} captured 125000`),
    );
    const open = (await deliveriesOf(bus.db, 'payments')).filter(
      ({ state, nextAttemptAt }) => state !== 'delivered' || nextAttemptAt !== null,
    );
    expect(open).toEqual([]);
    expect(await listed(bus)).toHaveLength(20);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('a webhook that was set aside is handled, in order, by the transaction that records its intent', async ({
    bus,
  }) => {
    await webhookOf(bus.db, 'cardpayments', cardFailed());
    const captured = await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_1', 50_000));
    await webhookOf(bus.db, 'cardpayments', cardRefunded('pi_1', 10_000));
    await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_1', 125_000));
    await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_2'));
    await deliver(bus);
    expect(await told(bus.db)).toEqual([]);
    await createPaymentIntent(bus.db, card);
    expect(await told(bus.db)).toEqual([
      'pi_1 failed',
      'pi_1 captured 50000',
      'pi_1 refunded 10000',
      'pi_1 captured 75000',
    ]);
    expect(await listed(bus)).toEqual(['pi_2']);
    expect(
      await rows(
        bus.db,
        `select causation_id, payload ->> 'bookingId' as booking, correlation_id = causation_id as is_correlated
         from events where topic = 'payment.captured' order by created_at limit 1`,
      ),
    ).toEqual([{ causation_id: captured, booking: 'bkg_1', is_correlated: true }]);
    expect(await rows(bus.db, 'select state from payment_intents')).toEqual([{ state: 'refunded' }]);
  });

  test('a webhook waits for an intent of its own provider, not for one of the same name', async ({ bus }) => {
    await webhookOf(bus.db, 'cardpayments', cardSucceeded(wallet.id));
    await webhookOf(bus.db, 'walletpayments', walletPart('CAPTURED', 'psp-1', 30_000));
    await deliver(bus);
    await createPaymentIntent(bus.db, wallet);
    expect(await told(bus.db)).toEqual(['wallet-1 captured 30000']);
    await settleSetAside(bus.db);
    expect(await listed(bus)).toEqual([wallet.id]);
  });

  test('the cron handles webhooks that were set aside for intents that another component recorded', async ({
    bus,
  }) => {
    for (const id of ['pi_1', 'pi_2', 'pi_stranger']) {
      await webhookOf(bus.db, 'cardpayments', cardRefunded(id));
      await webhookOf(bus.db, 'cardpayments', cardSucceeded(id));
    }
    await deliver(bus);
    await recordElsewhere(bus, 'pi_1');
    await recordElsewhere(bus, 'pi_2');
    expect(await settleSetAside(bus.db)).toEqual({ takenUp: 2, unclaimed: 0 });
    expect((await told(bus.db)).toSorted()).toEqual([
      'pi_1 captured 125000',
      'pi_1 refunded 25000',
      'pi_2 captured 125000',
      'pi_2 refunded 25000',
    ]);
    expect(await listed(bus)).toEqual(['pi_stranger', 'pi_stranger']);
  });

  test('a webhook that was set aside is handled before the next one of its intent', async ({ bus }) => {
    await webhookOf(bus.db, 'cardpayments', cardSucceeded('pi_1'));
    await deliver(bus);
    await recordElsewhere(bus, 'pi_1');
    await webhookOf(bus.db, 'cardpayments', cardRefunded('pi_1'));
    await deliver(bus);
    expect(await told(bus.db)).toEqual(['pi_1 captured 125000', 'pi_1 refunded 25000']);
    expect(await listed(bus)).toEqual([]);
  });

  test('an intent that was recorded wrongly does not block the others', async ({ bus }) => {
    const lines = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    for (const id of ['pi_1', 'pi_2', 'pi_3']) await webhookOf(bus.db, 'cardpayments', cardSucceeded(id));
    await deliver(bus);
    await recordElsewhere(bus, 'pi_1');
    await recordElsewhere(bus, 'pi_2', '');
    await recordElsewhere(bus, 'pi_3');
    expect(await settleSetAside(bus.db)).toEqual({ takenUp: 2, unclaimed: 0 });
    expect((await told(bus.db)).toSorted()).toEqual(['pi_1 captured 125000', 'pi_3 captured 125000']);
    expect(await listed(bus)).toEqual(['pi_2']);
    expect(String(lines.mock.calls)).toContain('webhooks of an intent could not be taken up');
    vi.restoreAllMocks();
  });
});

describe('after 72 hours', () => {
  const NOON = Date.parse('2031-05-04T12:00:00.000Z');
  const late = new Date(NOON + 72 * HOUR);

  test.beforeEach(async ({ bus }) => {
    await webhookOf(bus.db, 'cardpayments', cardSucceeded());
    await webhookOf(bus.db, 'walletpayments', walletPart('REFUNDED', 'psp-1', 30_000));
    await deliver(bus, NOON);
  });

  test('a webhook that found no intent becomes one event that says so, and stays listed', async ({ bus }) => {
    expect(await settleSetAside(bus.db, new Date(late.getTime() - 1))).toEqual({ takenUp: 0, unclaimed: 0 });
    const told72 = await Promise.all(Array.from({ length: 4 }, () => settleSetAside(bus.db, late)));
    expect(told72.reduce((sum, { unclaimed }) => sum + unclaimed, 0)).toBe(2);
    expect(await settleSetAside(bus.db, new Date(late.getTime() + HOUR))).toMatchObject({ unclaimed: 0 });
    expect((await told(bus.db)).toSorted()).toEqual([
      'pi_1 webhook.unclaimed 125000',
      'wallet-1 webhook.unclaimed 30000',
    ]);
    expect(await listed(bus)).toEqual(['pi_1 unclaimed', 'wallet-1 unclaimed']);
    const [event] = await rows<{ payload: object }>(
      bus.db,
      `select payload from events where topic = 'payment.webhook.unclaimed' and payload ->> 'intentId' = 'pi_1'`,
    );
    expect(event!.payload).toMatchObject({
      provider: 'cardpayments',
      outcome: 'captured',
      currency: 'NOK',
      setAsideAt: '2031-05-04T12:00:00.000Z',
    });
  });

  test('an unclaimed webhook is neither listed nor reported again when it is replayed', async ({ bus }) => {
    await settleSetAside(bus.db, late);
    const all = { topic: 'webhook.cardpayments.received', since: '1h', include: 'all' } as const;
    expect(await replay(bus.db, all, 'kari', new Date(NOON + MINUTE))).toMatchObject({ replayed: 1 });
    expect(await deliver(bus, late.getTime())).toMatchObject({ delivered: 1 });
    await settleSetAside(bus.db, new Date(late.getTime() + 72 * HOUR));
    expect(await told(bus.db)).toHaveLength(2);
    expect(await listed(bus)).toHaveLength(2);
  });

  test('an unclaimed webhook is still taken up when its intent is recorded after all', async ({ bus }) => {
    await settleSetAside(bus.db, late);
    await createPaymentIntent(bus.db, card);
    expect((await told(bus.db)).at(-1)).toBe('pi_1 captured 125000');
    expect(await listed(bus)).toEqual(['wallet-1 unclaimed']);
  });
});

describe('a webhook and the transaction that records its intent', () => {
  test('the webhook sees an intent that is recorded and not yet committed', async ({ bus }) => {
    const { db: holding, committing } = commitLater(bus.db);
    const recording = createPaymentIntent(holding, card);
    await committing.reached;
    const handling = handleAlone(bus, cardSucceeded());
    await somebodyWaits(bus);
    committing.goOn();
    await Promise.all([recording, handling]);
    expect(await told(bus.db)).toEqual(['pi_1 captured 125000']);
    expect(await listed(bus)).toEqual([]);
  });

  test('the intent sees a webhook that is set aside and not yet committed', async ({ bus }) => {
    const { db: holding, committing } = commitLater(bus.db);
    const handling = handleAlone(bus, cardSucceeded(), holding);
    await committing.reached;
    const recording = createPaymentIntent(bus.db, card);
    await somebodyWaits(bus);
    committing.goOn();
    await Promise.all([recording, handling]);
    expect(await told(bus.db)).toEqual(['pi_1 captured 125000']);
    expect(await listed(bus)).toEqual([]);
  });

  test('webhook and intent never miss each other, and each part is emitted once, while the cron and replays run too', async ({
    bus,
  }) => {
    for (let round = 0; round < 150; round += 1) {
      const id = `pi_round_${round}`;
      const racers = [
        () => createPaymentIntent(bus.db, { ...card, id }),
        () => handleAlone(bus, cardSucceeded(id)),
        () => handleAlone(bus, cardRefunded(id, 10_000)),
        () => handleAlone(bus, cardRefunded(id, 25_000)),
        () => settleSetAside(bus.db),
        () => handleAlone(bus, cardRefunded(id, 10_000)),
        () => handleAlone(bus, cardSucceeded(id)),
      ];
      // Another one is the first in each round.
      const order = racers.map((_, index) => racers[(index + round) % racers.length]!);
      await Promise.all(order.map((race) => race()));
      expect(await listed(bus), id).toEqual([]);
      const words = (await told(bus.db))
        .filter((line) => line.startsWith(`${id} `))
        .map((line) => line.split(' '));
      const sum = (state: string) =>
        words.reduce((total, [, topic, amount]) => total + (topic === state ? Number(amount) : 0), 0);
      expect([sum('captured'), sum('refunded')], id).toEqual([125_000, 25_000]);
    }
  });

  test('a part is emitted once when twins of its webhook are handled at the same time', async ({ bus }) => {
    for (let round = 0; round < 20; round += 1) {
      const id = `pi_round_${round}`;
      await createPaymentIntent(bus.db, { ...card, id });
      const bodies = [
        cardRefunded(id, 25_000),
        cardRefunded(id, 25_000),
        cardRefunded(id, 60_000),
        cardSucceeded(id),
      ];
      await Promise.all(bodies.flatMap((body) => [handleAlone(bus, body), handleAlone(bus, body)]));
      const words = (await told(bus.db))
        .filter((line) => line.startsWith(`${id} `))
        .map((line) => line.split(' '));
      const sum = (state: string) =>
        words.reduce((total, [, topic, amount]) => total + (topic === state ? Number(amount) : 0), 0);
      expect([sum('captured'), sum('refunded')]).toEqual([125_000, 60_000]);
    }
  });
});

/** A database whose transactions have done everything but commit until they are told to go on. */
function commitLater(db: Database) {
  const reached = gate();
  const goesOn = gate();
  const holding = Object.create(db) as Database;
  holding.transaction = (body) =>
    db.transaction(async (tx) => {
      const result = await body(tx);
      reached.open();
      await goesOn.opened;
      return result;
    });
  return { db: holding, committing: { reached: reached.opened, goOn: goesOn.open } };
}

/** Until a transaction waits for a lock of another. */
async function somebodyWaits(bus: Bus): Promise<void> {
  await vi.waitFor(
    async () => {
      const waiting = await rows(
        bus.db,
        `select from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`,
      );
      expect(waiting).not.toHaveLength(0);
    },
    { timeout: 5 * SECOND, interval: 10 },
  );
}

/** Handles a webhook in a transaction of its own, as any relay would. */
async function handleAlone(bus: Bus, body: Body, db = bus.db): Promise<void> {
  const id = await webhookOf(bus.db, 'cardpayments', body);
  const event = {
    id,
    topic: 'webhook.cardpayments.received',
    payload: { eventId: id, eventType: null, body },
    createdAt: new Date(),
    seq: 1,
    correlationId: id,
  };
  const context = (tx: Transaction) => ({ tx, attemptedAt: new Date() });
  await db.transaction((tx) =>
    handleWebhook(
      event as unknown as BusEvent<'webhook.cardpayments.received'>,
      context(tx) as unknown as TransactionalContext,
    ),
  );
}

describe('a webhook that is not plausible', () => {
  /** What the webhooks with a topic became, newest first. */
  const became = async (bus: Bus) => {
    const page = await readWebhooks(bus.db, ENDPOINTS, webhookQuery.parse({}));
    return page.items.map(({ became: word, why, emitted }) => [
      word,
      why,
      ...emitted.map(({ topic }) => topic),
    ]);
  };
  const incidents = async (bus: Bus) => {
    await watchIncidents(bus.db);
    return await rows<{ kind: string; message: string }>(
      bus.db,
      'select kind, message from incidents where closed_at is null',
    );
  };
  const REFUND = walletPart('REFUNDED', 'psp-2', 10_000);
  const EURO = cardOf('payment_intent.succeeded', { id: 'pi_1', amount_received: 100, currency: 'eur' });

  test('is set aside and an incident until what makes it plausible comes, and is then money', async ({
    bus,
  }) => {
    await createPaymentIntent(bus.db, wallet);
    await webhookOf(bus.db, 'walletpayments', REFUND);
    await deliver(bus);
    expect(await became(bus)).toEqual([
      ['set_aside', expect.stringContaining('the refunds would add up to 10000')],
    ]);
    expect(await incidents(bus)).toMatchObject([{ kind: 'payment_not_plausible' }]);
    await webhookOf(bus.db, 'walletpayments', walletPart('CAPTURED', 'psp-1', 10_000));
    await webhookOf(bus.db, 'walletpayments', walletPart('CREATED', 'psp-0', 10_000));
    await webhookOf(bus.db, 'walletpayments', walletPart('CAPTURED', 'psp-1', 10_000));
    await deliver(bus);
    expect(await told(bus.db)).toEqual(['wallet-1 captured 10000', 'wallet-1 refunded 10000']);
    expect(await became(bus)).toEqual([
      ['nothing_new', null],
      ['ignored', null],
      ['acted_on', null, 'payment.captured'],
      ['acted_on', null, 'payment.refunded'],
    ]);
    expect(await incidents(bus)).toEqual([]);
  });

  test.for([
    ['a dead letter', card, EURO, 'dead_lettered', 'pi_1 captured 100'],
    ['a webhook set aside', wallet, REFUND, 'set_aside', 'wallet-1 refunded 10000'],
  ] as const)(
    'is money once an operator has accepted it, and not by a replay: %s',
    async ([, intent, body, before, after], { bus }) => {
      await createPaymentIntent(bus.db, intent);
      const id = await webhookOf(bus.db, intent.provider, body);
      await deliver(bus);
      expect((await became(bus)).map(([word]) => word)).toEqual([before]);
      expect(await incidents(bus)).toHaveLength(1);
      const topic = `webhook.${intent.provider}.received`;
      await replay(bus.db, { topic, since: '1h', include: 'all' }, 'kari');
      await deliver(bus);
      expect(await told(bus.db)).toEqual([]);
      await acceptWebhook(bus.db, { id, by: 'kari', reason: 'case 4411' });
      await deliver(bus);
      expect(await told(bus.db)).toEqual([after]);
      expect((await became(bus)).map(([word]) => word)).toEqual(['acted_on']);
      expect(await incidents(bus)).toEqual([]);
      expect(await rows(bus.db, 'select operator, action, reason, event_id from operator_actions')).toEqual([
        { operator: 'kari', action: 'accept_webhook', reason: 'case 4411', event_id: id },
      ]);
      await expect(acceptWebhook(bus.db, { id, by: 'kari', reason: 'again' })).rejects.toMatchObject({
        code: 'not_broken',
      });
    },
  );

  test.for<[variables: Record<string, string>, body: Body, message: string | null]>([
    [{ WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: 'rk_live_12345678' }, { livemode: false }, 'is of test mode'],
    [{ WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: 'sk_test_12345678' }, { livemode: true }, 'is of live mode'],
    [{ WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: 'sk_test_12345678' }, { livemode: false }, null],
    [{ VERCEL_ENV: 'production' }, { livemode: false }, 'is of test mode'],
    [{ VERCEL_ENV: 'production' }, { livemode: true }, null],
    [{}, { livemode: false, account: 'acct_2' }, null],
    [
      { WEBHOOK_CARDPAYMENTS_ACCOUNT: 'acct_1' },
      { account: 'acct_2' },
      'is of another account than the configured acct_1',
    ],
    [{ WEBHOOK_CARDPAYMENTS_ACCOUNT: 'acct_1 acct_2' }, { account: 'acct_2' }, null],
    [{ WEBHOOK_WALLETPAYMENTS_ACCOUNT: '654321' }, { msn: '123456' }, 'is of another sales unit'],
    [{ WEBHOOK_WALLETPAYMENTS_RECONCILE_KEY: 'a:b:c:654321' }, { msn: '123456' }, 'is of another sales unit'],
    [{ WEBHOOK_WALLETPAYMENTS_RECONCILE_KEY: 'a:b:c:123456' }, { msn: '123456' }, null],
  ])('of another mode or account than configured is refused: %j %j', ([variables, fields, message]) => {
    const provider = 'msn' in fields ? 'walletpayments' : 'cardpayments';
    const { [provider]: sender } = readConfig({ VERCEL_ENV: '', ...variables }).paymentSenders;
    const wrong = unexpectedIn(provider, fields, sender);
    if (message === null) expect(wrong).toBeNull();
    else expect(wrong).toContain(message);
  });

  test('of test mode beside a live key is a dead letter and no money', async ({ bus }) => {
    await createPaymentIntent(bus.db, card);
    await webhookOf(bus.db, 'cardpayments', { ...cardSucceeded(), livemode: false });
    const { paymentSenders } = readConfig({ WEBHOOK_CARDPAYMENTS_RECONCILE_KEY: 'rk_live_12345678' });
    const attached = subscribersOf({ remoteSubscribers: [], database: { kind: 'none' }, paymentSenders });
    const until = Date.now() + 15 * SECOND;
    expect(await relay({ db: bus.db, subscribers: attached, until })).toMatchObject({ deadLettered: 1 });
    expect(await told(bus.db)).toEqual([]);
  });
});

const ENDPOINTS = endpointsOf(readConfig());
