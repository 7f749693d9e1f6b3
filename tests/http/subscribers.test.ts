import { describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { journalFor } from '../../lib/components/journal.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import { deliveryIdsOf } from '../support/records.ts';
import { delayRetries, renameLanes } from '../support/scenes.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

type Item = Readonly<Record<string, unknown>>;

const listOf = async (operators: Operators) =>
  (await operators.ask('/subscribers')).json['items'] as readonly Item[];

const ledgerOf = async (operators: Operators) =>
  ((await operators.ask('/subscribers/ledger')).json['items'] as readonly Item[])[0]!;

describe('the list of subscribers', () => {
  test('has the fields of the contract for each subscriber of the catalog, also where nothing ever happened', async ({
    operators,
  }) => {
    const items = await listOf(operators);
    expect(items.length).toBeGreaterThan(15);
    expect(items.find(({ subscriber }) => subscriber === 'reviews')).toMatchObject({
      subscriber: 'reviews',
      place: 'unattached',
      host: null,
      state: 'unattached',
      pausedBy: null,
      pending: 0,
      failing: 0,
      deadLettered: 0,
      lastDeliveredAt: null,
      lastFailedAt: null,
      lastAnswer: null,
    });
    expect(items[0]).toMatchObject({ subscriber: 'ledger', place: 'here', state: 'delivering' });
  });

  test('says “delivering” only of those who have been delivered something, and calls a stand-in one', async ({
    bus,
    operators,
  }) => {
    operators.attached = [
      ledger(),
      ...journalFor([ledger()], new Set()).filter(({ name }) => name === 'ledger' || name === 'reviews'),
    ];
    const rowOf = async (name: string) => {
      const { text } = await operators.ask('/subscribers', { accept: BROWSER });
      const row = text.split('<tr').find((one) => one.includes(`/subscribers/${name}"`)) ?? '';
      return row
        .replaceAll(/<svg[^]*?<\/svg>/g, '')
        .replaceAll(/<[^>]*>/g, ' ')
        .replaceAll(/\s+/g, ' ');
    };
    expect(await rowOf('ledger')).toMatch(/ ledger here, 1 of \d+ topics, a stand-in has \d+ ready /);
    expect(await rowOf('reviews')).toMatch(/ reviews a stand-in ready /);
    expect(await rowOf('audit')).toMatch(/ audit not attached unattached /);
    const items = await listOf(operators);
    expect(items.find(({ subscriber }) => subscriber === 'reviews')).toMatchObject({
      place: 'here',
      state: 'delivering',
      topics: { standIns: expect.any(Number) },
    });
    await emitPayments(bus.db, 1, 1);
    const refusing = ledger(() => {
      throw new PermanentError('the period is closed');
    });
    await drainLive(bus.db, [refusing]);
    expect(await rowOf('ledger')).toContain(' failing ');
    await emitPayments(bus.db, 2, 2);
    await drainLive(bus.db, [ledger()]);
    expect(await rowOf('ledger')).toContain(' delivering ');
    const { text } = await operators.ask('/subscribers', { accept: BROWSER });
    expect(text).toMatch(/: 1 delivering, 1 ready, \d+ unattached\./);
  });

  test('says “failing” of one that refused the newest of every topic, in JSON as on the page, until it delivers', async ({
    bus,
    operators,
  }) => {
    const refusing = ledger(() => {
      throw new PermanentError('the period is closed');
    });
    /** The state as JSON, and the word for it on the page. */
    const said = async () => {
      const page = await operators.ask('/subscribers/ledger', { accept: BROWSER });
      return [
        (await ledgerOf(operators))['state'],
        (await listOf(operators)).find(({ subscriber }) => subscriber === 'ledger')?.['state'],
        /class="state[^"]*">(?:<svg[^]*?<\/svg>)?(\w+)</.exec(page.text)?.[1],
      ];
    };
    const all = (word: string) => [word, word, word];
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [refusing]);
    expect(await said()).toEqual(all('failing'));
    await emitPayments(bus.db, 3, 3);
    await drainLive(bus.db, [ledger()]);
    expect(await said()).toEqual(all('delivering'));
    await emitPayments(bus.db, 4, 4);
    await drainLive(bus.db, [refusing]);
    expect(await said()).toEqual(all('failing'));
    await operators.ask('/dismiss', {
      json: { subscriber: 'ledger', since: '24h', reason: 'the period is closed' },
    });
    expect(await said()).toEqual(all('delivering'));
  });

  test('and the page of one say the same of it', async ({ operators }) => {
    await operators.held(2);
    const listed = (await listOf(operators)).find(({ subscriber }) => subscriber === 'ledger');
    expect(listed).toMatchObject({
      state: 'failing',
      pending: 1,
      failing: 1,
      deadLettered: 0,
      lastFailedAt: expect.any(String),
      lastAnswer: 'TypeError: the ledger is down',
    });
    expect(await ledgerOf(operators)).toEqual(listed);
  });

  test('names the host of an endpoint, and no other part of its address', async ({ operators }) => {
    operators.attached = [
      remoteSubscriber({
        name: 'ledger',
        url: 'https://user:secret@ledger.example.com:8443/events?key=1',
        secret: `whsec_${Buffer.alloc(24, 7).toString('base64')}`,
        isBatch: false,
        outage: 'wait',
      }),
    ];
    expect(await ledgerOf(operators)).toMatchObject({ place: 'elsewhere', host: 'ledger.example.com:8443' });
    expect((await operators.ask('/subscribers', { accept: BROWSER })).text).not.toContain('secret');
  });

  test('masks personal data in what a subscriber said last', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, [
      ledger(() => {
        throw new Error('no account for kari.lunde@example.no');
      }),
    ]);
    const said = String((await ledgerOf(operators))['lastAnswer']);
    expect(said).toContain('no account for');
    expect(said).not.toContain('kari.lunde@example.no');
  });

  test('has one that the catalog does not list while something of it is left', async ({ bus, operators }) => {
    await operators.died(1);
    await renameLanes(bus.db, 'ledger', 'books');
    const of = async () => (await listOf(operators)).find(({ subscriber }) => subscriber === 'books');
    expect(await of()).toMatchObject({ inCatalog: false, state: 'unattached', deadLettered: 1 });
    const json = { deliveryIds: await deliveryIdsOf(bus.db, 'books'), reason: 'history' };
    await operators.ask('/dismiss', { json });
    expect(await of()).toBeUndefined();
    expect((await operators.ask('/subscribers/books')).status).toBe(200);
    expect((await operators.ask('/subscribers/postcards')).status).toBe(404);
  });

  test('counts events that wait for their places as pending', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 3);
    expect(await ledgerOf(operators)).toMatchObject({ pending: 3, state: 'delivering' });
  });
});

describe('the state of a subscriber', () => {
  test('is paused for all its topics before anything else, and says by whom and why', async ({
    bus,
    operators,
  }) => {
    await operators.held(1);
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving');
    expect(await ledgerOf(operators)).toMatchObject({
      state: 'paused',
      pausedBy: 'kari',
      pauses: [{ topic: null, pausedBy: 'kari', reason: 'moving' }],
    });
  });

  test('is paused for some topics only where nothing else is wrong', async ({ bus, operators }) => {
    operators.attached = [
      attach('ledger', { 'payment.captured': () => undefined, 'payment.refunded': () => undefined }),
    ];
    await pause(bus.db, { subscriber: 'ledger', topic: 'payment.refunded' }, 'kari', 'moving');
    expect(await ledgerOf(operators)).toMatchObject({ state: 'paused', pausedBy: 'kari' });
    await operators.held(1);
    expect(await ledgerOf(operators)).toMatchObject({ state: 'failing', pausedBy: 'kari' });
  });

  test('is an outage while it does not answer', async ({ bus, operators }) => {
    for (const number of numbers(1, 3))
      await emitPayments(bus.db, number, number, { orderingKey: `booking ${number}` });
    const unreachable = () => {
      throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
    };
    await drainLive(bus.db, [ledger(unreachable, { outage: 'wait' })]);
    await delayRetries(bus.db, '-1 hour');
    await drainLive(bus.db, [ledger(unreachable, { outage: 'wait' })]);
    expect(await ledgerOf(operators)).toMatchObject({
      state: 'outage',
      outage: { kind: 'unreachable' },
      lastAnswer: 'unreachable: the subscriber cannot be reached',
    });
  });

  test('is failing while a dead letter halts a lane', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 2);
    const halting = ledger(
      () => {
        throw Object.assign(new Error('refused'), { code: 'x' });
      },
      { afterDeadLetter: 'halt', maxAttempts: 1 },
    );
    operators.attached = [halting];
    await drainLive(bus.db, [halting]);
    expect(await ledgerOf(operators)).toMatchObject({ state: 'failing', failing: 0, deadLettered: 1 });
  });
});

describe('the limit of a subscriber', () => {
  const limitedIn = async (operators: Operators) => {
    const { json } = await operators.ask('/subscribers');
    const items = json['items'] as readonly Item[];
    return [items.find(({ subscriber }) => subscriber === 'ledger')!['limited'], json['generatedAt']];
  };

  test('is told while deliveries wait for its rate, with when all of them are through at that rate', async ({
    bus,
    operators,
  }) => {
    expect(await ledgerOf(operators)).toMatchObject({ limited: null });
    await emitPayments(bus.db, 1, 30);
    await drainLive(bus.db, [ledger(() => undefined, { rate: '6/m' })]);
    const [limited, now] = await limitedIn(operators);
    // 29 deliveries wait, ten seconds each.
    const until = new Date(Date.parse(String(now)) + 290_000).toISOString();
    expect(limited).toEqual({ limit: '6/m', until });
    expect(await ledgerOf(operators)).toMatchObject({ limited: { limit: '6/m' } });
    for (const path of ['/subscribers', '/subscribers/ledger']) {
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect(text.replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ')).toMatch(
        /rate_limited until \d\d:\d\d:\d\d UTC : at 6\/m all that waits is through in 4 min/,
      );
    }
  });

  test('is not told where nothing waits for it', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, [ledger(() => undefined, { rate: '6/m' })]);
    expect(await limitedIn(operators)).toEqual([null, expect.any(String)]);
  });

  test('is told without a time where so many as it allows at once are being delivered', async ({
    bus,
    operators,
  }) => {
    for (const orderingKey of ['a', 'b']) await emitPayments(bus.db, 1, 1, { orderingKey });
    const told: unknown[] = [];
    const one = ledger(async () => void told.push((await limitedIn(operators))[0]), { concurrency: 1 });
    await drainLive(bus.db, [one]);
    expect(told[0]).toEqual({ limit: '1 at once', until: null });
    expect(await limitedIn(operators)).toEqual([null, expect.any(String)]);
  });
});

describe('a test event to one subscriber', () => {
  test('goes to nobody else, and no webhook is sent', async ({ bus, operators }) => {
    operators.attached = [ledger(), attach('reviews', { 'booking.completed': () => undefined })];
    operators.ownUrl = 'https://postbud.example';
    const { status, json } = await operators.ask('/smoke', { json: { subscriber: 'reviews' } });
    expect(status).toBe(200);
    expect(json).toMatchObject({ subscribers: ['reviews'], webhooks: [] });
    expect(await rows(bus.db, 'select subscribers from smoke_tests')).toEqual([{ subscribers: ['reviews'] }]);
    expect(await rows(bus.db, 'select webhooks from smoke_tests')).toEqual([{ webhooks: [] }]);
  });

  test.for(['reviews', 'ledger'])(
    'is refused where it would wait: %s',
    async (subscriber, { bus, operators }) => {
      await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving');
      const { status, json } = await operators.ask('/smoke', { json: { subscriber } });
      expect([status, json['code']]).toEqual([409, 'unattached']);
      expect(await rows(bus.db, 'select from smoke_tests')).toEqual([]);
    },
  );
});

describe('a pause', () => {
  test('is on each page that concerns what it stops, with its end', async ({ bus, operators }) => {
    const [dead] = await operators.died(1);
    const [event] = await rows<{ id: string }>(bus.db, 'select id::text from events');
    await operators.ask('/incidents');
    const [incident] = await rows<{ id: string }>(bus.db, 'select id::text from incidents');
    await pause(bus.db, { subscriber: 'ledger', topic: 'payment.captured' }, 'kari', 'the ledger moves');
    for (const path of [
      '/subscribers',
      '/subscribers/ledger',
      '/subscribers/ledger?topic=payment.captured',
      '/topics/payment.captured',
      `/incidents/${incident!.id}`,
      `/dead-letters/${dead!}`,
      `/events/${event!.id}`,
    ]) {
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect([path, text]).toEqual([path, expect.stringContaining('the ledger moves')]);
      expect([path, text]).toEqual([path, expect.stringContaining('subscribers/ledger/resume')]);
    }
    await operators.ask('/subscribers/ledger/resume', { json: { topic: 'payment.captured' } });
    const { text } = await operators.ask(`/dead-letters/${dead!}`, { accept: BROWSER });
    expect(text).not.toContain('the ledger moves');
  });
});
