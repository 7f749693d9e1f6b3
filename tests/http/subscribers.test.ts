import { describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { journalFor } from '../../lib/components/journal.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import { deliveryIdsOf } from '../support/records.ts';
import { delayRetries, leaveSubscription, renameLanes } from '../support/scenes.ts';
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
    expect(await rowOf('ledger')).toMatch(/ ledger here ready /);
    expect(await rowOf('reviews')).toMatch(/ reviews a stand-in ready /);
    expect(await rowOf('audit')).toMatch(/ audit not attached unattached /);
    const items = await listOf(operators);
    expect(items.find(({ subscriber }) => subscriber === 'reviews')).toMatchObject({
      place: 'here',
      state: 'delivering',
      standIn: true,
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

  test('says an answer with no time but its own', async ({ bus, operators }) => {
    const refusing = (message: string) => ledger(() => Promise.reject(new PermanentError(message)));
    const said = async () => (await ledgerOf(operators))['lastAnswer'];
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, [refusing('is gone')]);
    expect(await said()).toContain('is gone');
    await rows(bus.db, `update exceptions set dead_lettered_at = dead_lettered_at - interval '1 minute'`);
    await emitPayments(bus.db, 2, 2);
    await drainLive(bus.db, [refusing('down for maintenance')]);
    expect(await said()).toContain('down for maintenance');
    const [newest] = await rows<{ id: string }>(
      bus.db,
      `select event_id || '.ledger' as id from exceptions order by dead_lettered_at desc limit 1`,
    );
    await operators.ask('/dismiss', { json: { deliveryIds: [newest!.id], reason: 'done by hand' } });
    expect(await ledgerOf(operators)).toMatchObject({
      lastFailedAt: expect.any(String),
      lastAnswer: expect.stringContaining('down for maintenance'),
    });
    expect((await operators.ask('/replays')).json).toMatchObject({ items: [{ deliveryId: newest!.id }] });
  });

  test('says none where two errors lasted at the same time, and nothing is left of either', async ({
    bus,
    operators,
  }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [
      ledger((payment) => Promise.reject(new PermanentError(payment === 1 ? 'is gone' : 'is closed'))),
    ]);
    expect((await ledgerOf(operators))['lastAnswer']).toMatch(/is (gone|closed)/);
    const request = { topic: 'payment.captured', since: '1h', reason: 'done by hand' };
    expect((await operators.ask('/dismiss', { json: request })).status).toBe(200);
    expect(await ledgerOf(operators)).toMatchObject({ lastFailedAt: expect.any(String), lastAnswer: null });
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

  test('is that of its other topics where one is paused', async ({ bus, operators }) => {
    operators.attached = [
      attach('ledger', { 'payment.captured': () => undefined, 'payment.refunded': () => undefined }),
    ];
    await pause(bus.db, { subscriber: 'ledger', topic: 'payment.refunded' }, 'kari', 'moving');
    expect(await ledgerOf(operators)).toMatchObject({ state: 'delivering', pausedBy: 'kari' });
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
  test('goes to nobody else', async ({ bus, operators }) => {
    operators.attached = [ledger(), attach('reviews', { 'booking.completed': () => undefined })];
    const { status, json } = await operators.ask('/smoke', { json: { subscriber: 'reviews' } });
    expect(status).toBe(200);
    expect(json).toMatchObject({ subscribers: ['reviews'] });
    expect(await rows(bus.db, 'select subscribers from smoke_tests')).toEqual([{ subscribers: ['reviews'] }]);
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
    await operators.died(1);
    await operators.ask('/incidents');
    const [incident] = await rows<{ id: string }>(bus.db, 'select id::text from incidents');
    await pause(bus.db, { subscriber: 'ledger', topic: 'payment.captured' }, 'kari', 'the ledger moves');
    for (const path of [
      '/subscribers',
      '/subscribers/ledger',
      '/topics/payment.captured',
      `/incidents/${incident!.id}`,
    ]) {
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect([path, text]).toEqual([path, expect.stringContaining('the ledger moves')]);
      expect([path, text]).toEqual([path, expect.stringContaining('subscribers/ledger/resume')]);
    }
    await operators.ask('/subscribers/ledger/resume', { json: { topic: 'payment.captured' } });
    const { text } = await operators.ask(`/incidents/${incident!.id}`, { accept: BROWSER });
    expect(text).not.toContain('the ledger moves');
  });
});

describe('one subscriber', () => {
  test('lists what is left of it where the catalog does not list it, to be retired', async ({
    bus,
    operators,
  }) => {
    await operators.died(3);
    await renameLanes(bus.db, 'ledger', 'books');
    const { json } = await operators.ask('/subscribers/books');
    expect(json['subscriptions']).toMatchObject([
      { topic: 'payment.captured', inCatalog: false, waiting: 0, deadLettered: 3 },
    ]);
    const { text } = await operators.ask('/subscribers/books', { accept: BROWSER });
    expect(text).toContain('href="/platform/event-bus/subscribers/books/retire?topic=payment.captured"');
  });

  test('is unknown where neither the catalog nor any delivery names it', async ({ bus, operators }) => {
    expect(await operators.ask('/subscribers/postcards')).toMatchObject({
      status: 404,
      json: { detail: expect.stringContaining('Unknown subscriber') },
    });
    expect((await operators.ask('/subscribers/legder')).json['detail']).toMatch(/ Did you mean ledger\?$/);
    await leaveSubscription(bus.db, 'postcard.sent', 'postcards', 1);
    expect(await operators.ask('/subscribers/postcards')).toMatchObject({
      status: 200,
      json: { items: [{ inCatalog: false }], subscriptions: [{ topic: 'postcard.sent' }] },
    });
  });

  test('has a page that leads to what operators did', async ({ operators }) => {
    const { text } = await operators.ask('/subscribers/ledger', { accept: BROWSER });
    expect(text).toContain('href="/platform/event-bus/replays?subscriber=ledger"');
  });
});
