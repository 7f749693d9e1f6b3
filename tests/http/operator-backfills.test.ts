import { describe, expect } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { advanceBackfills } from '../../lib/bus/deliveries/operations/backfill.ts';
import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { prune } from '../../lib/bus/deliveries/prune.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { contradictions, drainLive, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { countDeliveries, deliveryIdsOf } from '../support/records.ts';
import { ledger as makeLedger, refuse } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const SUBSCRIPTION = { topic: 'payment.captured', subscriber: 'ledger' };
const good = { ...SUBSCRIPTION, since: '30d' };
const QUERY = `?${new URLSearchParams(good).toString()}`;

/** Lets the time until the next part of a paced backfill be over, and writes it. */
async function advance({ db }: Bus): Promise<void> {
  await rows(db, 'update backfills set next_at = clock_timestamp() where ended_at is null');
  await advanceBackfills(db, Date.now() + MINUTE);
}

/** The page at a path, without its markup and with single spaces. */
async function wordsAt(operators: Operators, path: string, scope?: string): Promise<string> {
  const { text } = await operators.ask(path, { accept: BROWSER, ...(scope !== undefined && { scope }) });
  const [, main = ''] = /<main[^>]*>([^]*)<\/main>/.exec(text) ?? [];
  return main
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ (?=[.,:])/g, '');
}

describe('a backfill', () => {
  test('hands a new subscriber the older events in order, before newer ones, and is kept with who asked and why', async ({
    bus,
    operators,
    handed,
    ledger,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    await emitPayments(bus.db, 4, 5);
    const asked = await operators.ask('/backfill', { json: { ...good, reason: 'The ledger is new.' } });
    const id = String(asked.json['backfillId']);
    expect([asked.status, asked.json]).toMatchObject([
      200,
      {
        backfillId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        ...SUBSCRIPTION,
        since: expect.any(String),
        matched: 3,
        written: 3,
        perMinute: null,
        endedAt: expect.any(String),
      },
    ]);
    await drainLive(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2, 3, 4, 5]);
    expect((await operators.ask(`/backfills/${id}`)).json).toMatchObject({
      ...SUBSCRIPTION,
      requestedBy: 'kari@solvik.example.no',
      reason: 'The ledger is new.',
      matched: 3,
      written: 3,
      endedAt: expect.any(String),
      stopped: null,
      progress: { pending: 0, failing: 0, deadLettered: 0, delivered: 3, isMore: false },
    });
    expect((await operators.ask('/replays?only=backfills')).json).toMatchObject({
      items: [{ backfillId: id, ...SUBSCRIPTION, isUnderWay: false }],
      nextCursor: null,
    });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('that is asked for twice is answered twice with the same, and written once', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    const json = { ...good, backfillId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21' };
    const first = await operators.ask('/backfill', { json });
    await storedWithoutLedger(bus.db, 3, 4);
    const second = await operators.ask('/backfill', { json });
    expect([first.status, first.json['matched']]).toEqual([200, 2]);
    expect({ ...second.json, generatedAt: null }).toMatchObject({
      ...first.json,
      generatedAt: null,
      progress: expect.any(Object),
    });
    expect(await countDeliveries(bus.db, 'backfilled')).toBe(2);
  });

  test('of nothing is an answer with 0, and kept', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, []);
    const { status, json } = await operators.ask('/backfill', { json: good });
    expect([status, json]).toMatchObject([200, { matched: 0, written: 0 }]);
    expect(await wordsAt(operators, `/backfills/${String(json['backfillId'])}`)).toContain(
      'Backfilled: 0 of 0 written.',
    );
  });
});

describe('a backfill that can’t be', () => {
  const refusals: readonly [why: string, fields: object, status: number, code: string, detail: RegExp][] = [
    ['an unknown subscriber', { subscriber: 'leger' }, 400, 'validation_failed', /did you mean ledger\?/],
    [
      'a subscriber of other topics',
      { subscriber: 'calendar' },
      409,
      'no_such_subscription',
      /does not list calendar for payment\.captured/,
    ],
    [
      'an unknown topic',
      { topic: 'payment.capture' },
      400,
      'validation_failed',
      /did you mean payment\.captured\?/,
    ],
    [
      'a beginning in the future',
      { since: '2999-01-01T00:00:00Z' },
      400,
      'validation_failed',
      /^since: expected a time span such as 30d/,
    ],
    [
      'no time at all',
      { since: 'yesterday' },
      400,
      'validation_failed',
      /^since: expected a time span such as 30d/,
    ],
    ['no beginning', { since: undefined }, 400, 'validation_failed', /^since: expected/],
    ['no pace', { perMinute: 0 }, 400, 'validation_failed', /^perMinute: expected/],
    ['another field', { limit: 5 }, 400, 'validation_failed', /unknown fields: limit/],
    ['another number', { expectedCount: 7 }, 409, 'count_changed', /2 deliveries match, not 7/],
  ];

  test.for(refusals)('is refused: %s', async ([, fields, status, code, detail], { bus, operators }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    const refused = await operators.ask('/backfill', { json: { ...good, ...fields } });
    expect(refused).toMatchObject({ status, json: { code, detail: expect.stringMatching(detail) } });
    expect(await countDeliveries(bus.db, 'backfilled')).toBe(0);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
  });

  test('is refused while one of the same subscription is under way, and named', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    const { json } = await operators.ask('/backfill', { json: { ...good, perMinute: 1 } });
    const id = String(json['backfillId']);
    const second = await operators.ask('/backfill', { json: good });
    expect(second).toMatchObject({
      status: 409,
      json: { code: 'backfill_under_way', detail: expect.stringContaining(id) },
    });
    const { status, text } = await operators.ask(`/backfill${QUERY}`, { accept: BROWSER });
    expect([status, text]).toEqual([
      409,
      expect.stringContaining(`href="/platform/event-bus/backfills/${id}"`),
    ]);
  });
});

describe('the preview of a backfill', () => {
  test('says how many, from when to when, at what pace, to whom, and what to write', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    const { json } = await operators.ask(`/backfill${QUERY}&perMinute=2`);
    const { request, oldestAt, newestAt } = json as Record<string, unknown> & {
      request: { readonly since: string };
    };
    const { since } = request;
    expect(json).toMatchObject({
      matched: 3,
      newerDelivered: 0,
      attached: true,
      paused: false,
      pruned: { events: 0, firstDay: null },
    });
    expect(request).toEqual({
      ...SUBSCRIPTION,
      since,
      perMinute: 2,
      expectedCount: 3,
      backfillId: expect.any(String),
    });
    expect([since < String(oldestAt), String(oldestAt) <= String(newestAt)]).toEqual([true, true]);
    const words = await wordsAt(operators, `/backfill${QUERY}&perMinute=2`);
    expect(words).toContain('Backfill 3 deliveries? Nothing has been backfilled yet.');
    expect(words).toContain('2 a minute, about 1 min 30 s');
    expect(words).toContain('ledger only');
    expect(words).toContain('Newer events wait for ledger until the backfill has come to them.');
  });

  test('says which newer events the subscriber was handed, and how to keep the order', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    await emitPayments(bus.db, 3, 5);
    await drainLive(bus.db, [makeLedger()]);
    expect((await operators.ask(`/backfill${QUERY}`)).json).toMatchObject({ matched: 2, newerDelivered: 3 });
    expect(await wordsAt(operators, `/backfill${QUERY}`)).toMatch(
      /ledger was already handed 3 newer events of payment\.captured\. .* pause it before the release that lists it \(npx postbud pause ledger --topic payment\.captured --ahead\), backfill, then resume it\./,
    );
  });

  test('says what was pruned', async ({ bus, operators }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    const others = catalog['payment.captured'].subscribers.filter((name) => name !== 'ledger');
    const take = { 'payment.captured': () => undefined };
    await drainLive(
      bus.db,
      others.map((name) => attach(name, take)),
    );
    await rows(bus.db, `update events set created_at = clock_timestamp() - interval '40 days'`);
    const day = new Date(Date.now() - 40 * DAY).toISOString().slice(0, 10);
    await prune({ db: bus.db, until: Date.now() + MINUTE, now: new Date(Date.now() + 40 * DAY) });
    await storedWithoutLedger(bus.db, 3, 3);
    const path = `/backfill?${new URLSearchParams({ ...good, since: '60d' }).toString()}`;
    expect((await operators.ask(path)).json).toMatchObject({
      matched: 1,
      pruned: { events: 2, firstDay: day },
    });
    const words = await wordsAt(operators, path);
    expect(words).toContain(`2 events of payment.captured since ${day} (UTC) were pruned`);
    expect((await operators.ask(`/backfill${QUERY}`)).json).toMatchObject({
      pruned: { events: 0 },
    });
  });

  test('says when the subscriber is not attached, or paused', async ({ bus, operators }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    operators.attached = [];
    await pause(bus.db, SUBSCRIPTION, 'kari', 'not yet');
    const words = await wordsAt(operators, `/backfill${QUERY}`);
    expect(words).toContain('ledger is not attached.');
    expect(words).toContain('ledger is paused.');
    const { json } = await operators.ask('/backfill', { json: good });
    const page = await wordsAt(operators, `/backfills/${String(json['backfillId'])}`);
    expect(page).toMatch(/2 waiting\. .*ledger is paused for payment\.captured by kari .*not yet.* Resume/);
  });

  test('of nothing has no button', async ({ operators }) => {
    const words = await wordsAt(operators, `/backfill${QUERY}`);
    expect(words).toContain('Nothing to backfill');
    expect(words).not.toContain('Reason');
  });

  test('of more than a hundred asks for the number to be typed', async ({ bus, operators }) => {
    await storedWithoutLedger(bus.db, 1, 101);
    expect(await wordsAt(operators, `/backfill${QUERY}`)).toContain('Type 101 to confirm');
    const form = { ...good, expectedCount: '101', reason: 'x' };
    const unconfirmed = await operators.ask('/backfill', { form });
    expect(unconfirmed).toMatchObject({ status: 400, json: { code: 'not_confirmed' } });
    const confirmed = await operators.ask('/backfill', { form: { ...form, confirm: '101' } });
    expect(confirmed).toMatchObject({ status: 200, json: { written: 101 } });
  });
});

describe('the progress of a backfill', () => {
  test('says what is written, delivered and dead, and what waits for its pace', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 5);
    const { json } = await operators.ask('/backfill', { json: { ...good, perMinute: 40 } });
    const path = `/backfills/${String(json['backfillId'])}`;
    const isThird = (number: number) => number === 3 && refuse();
    expect(await wordsAt(operators, path)).toMatch(/Under way: 2 of 5 written\. 0 delivered, 2 waiting\./);
    await drainLive(bus.db, [makeLedger(isThird)]);
    await advance(bus);
    await drainLive(bus.db, [makeLedger(isThird)]);
    expect((await operators.ask(path)).json).toMatchObject({
      matched: 5,
      written: 4,
      endedAt: null,
      progress: { pending: 0, failing: 0, deadLettered: 1, delivered: 3 },
    });
    await advance(bus);
    await drainLive(bus.db, [makeLedger(isThird)]);
    const words = await wordsAt(operators, path);
    expect(words).toMatch(/Backfilled: 5 of 5 written\. 4 delivered, 1 dead-lettered\./);
    expect(words).toContain('Review dead letters');
    expect(words).not.toContain('Stop…');
  });

  test('can be stopped with a reason, which leaves the rest unwritten and is recorded', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 5);
    const { json } = await operators.ask('/backfill', { json: { ...good, perMinute: 40, reason: 'new' } });
    const path = `/backfills/${String(json['backfillId'])}`;
    const without = await operators.ask(`${path}/stop`, { json: {} });
    expect(without).toMatchObject({ status: 400, json: { code: 'validation_failed' } });
    const stop = () => operators.ask(`${path}/stop`, { json: { reason: 'too fast' } });
    const stopped = { by: 'kari@solvik.example.no', reason: 'too fast' };
    const first = await stop();
    expect(first.json).toMatchObject({ written: 2, matched: 5, stopped, endedAt: expect.any(String) });
    expect((await stop()).json).toMatchObject({ stopped, endedAt: first.json['endedAt'] });
    await advance(bus);
    expect(await countDeliveries(bus.db, 'backfilled')).toBe(2);
    expect(await wordsAt(operators, path)).toContain('Stopped: 2 of 5 written.');
    const log = await operators.ask('/replays');
    expect(log.json['items']).toMatchObject([
      { action: 'stop_backfill', ...SUBSCRIPTION, reason: 'too fast' },
      { action: 'backfill', ...SUBSCRIPTION, reason: 'new' },
    ]);
  });

  test('of an unknown backfill is a 404 that says where its id is', async ({ operators }) => {
    const path = '/backfills/019a0000-0000-7000-8000-000000000009';
    for (const answer of [
      await operators.ask(path),
      await operators.ask(`${path}/stop`, { json: { reason: 'x' } }),
    ])
      expect(answer).toMatchObject({
        status: 404,
        json: { detail: expect.stringContaining('Copy its id from /platform/event-bus/replays') },
      });
  });
});

describe('what leads to a backfill', () => {
  test('the page of the subscriber offers one for each of its topics, and those of both lead to the log of earlier ones', async ({
    operators,
  }) => {
    for (const path of ['/topics/payment.captured', '/subscribers/ledger']) {
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect(text).toMatch(
        /href="\/platform\/event-bus\/replays\?(topic=payment.captured|subscriber=ledger)"/,
      );
    }
    expect((await operators.ask('/subscribers/ledger', { accept: BROWSER })).text).toContain(
      'href="/platform/event-bus/backfill?topic=payment.captured&amp;subscriber=ledger&amp;since=30d"',
    );
  });

  test('the page of the event and of the delivery say who backfilled it, and why', async ({
    bus,
    operators,
  }) => {
    const [id] = await storedWithoutLedger(bus.db, 1, 1);
    await operators.ask('/backfill', { json: { ...good, reason: 'The ledger is new.' } });
    const words = await wordsAt(operators, `/events/${id}`);
    expect(words).toMatch(/ledger .*Backfilled by kari@solvik\.example\.no The ledger is new\./);
    const [delivery] = await deliveryIdsOf(bus.db);
    expect(await wordsAt(operators, `/dead-letters/${delivery}`)).toContain(
      'Backfilled by kari@solvik.example.no',
    );
  });

  test('the operators’ log links to the backfill that an action began or stopped', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 5);
    const { json } = await operators.ask('/backfill', { json: { ...good, perMinute: 40 } });
    const backfillId = String(json['backfillId']);
    await operators.ask(`/backfills/${backfillId}/stop`, { json: { reason: 'too fast' } });
    expect((await operators.ask('/replays')).json['items']).toMatchObject([
      { action: 'stop_backfill', backfillId },
      { action: 'backfill', backfillId },
    ]);
    const { text } = await operators.ask('/replays', { accept: BROWSER });
    expect(text.split(`href="/platform/event-bus/backfills/${backfillId}"`)).toHaveLength(3);
  });
});

describe('the doctor', () => {
  test('finds nothing wrong with a backfilled database, delivered or not, in the right order or too late', async ({
    bus,
    operators,
  }) => {
    await storedWithoutLedger(bus.db, 1, 3);
    await emitPayments(bus.db, 4, 6);
    await drainLive(bus.db, [makeLedger()]);
    await operators.ask('/backfill', { json: good });
    expect((await examine(bus.db)).findings).toEqual([]);
    await drainLive(bus.db, [makeLedger()]);
    expect((await examine(bus.db)).findings).toEqual([]);
  });

  test('finds the event that a backfill lost', async ({ bus, operators }) => {
    const [first, second, third] = await storedWithoutLedger(bus.db, 1, 3);
    await operators.ask('/backfill', { json: good });
    await rows(bus.db, 'delete from exceptions where backfilled and event_id = any ($1::uuid[])', [
      `{${first},${second}}`,
    ]);
    await rows(bus.db, 'update exceptions set due_at = clock_timestamp()');
    const found = (await examine(bus.db)).findings.map(({ promise, examples }) => [
      promise,
      examples.toSorted(),
    ]);
    expect(found).toContainEqual([
      'every event that a backfill reached has its delivery',
      [first, second].toSorted(),
    ]);
    expect(JSON.stringify(found)).not.toContain(third);
  });

  test('finds an event that overtook a backfill that was under way', async ({ bus, operators }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    await emitPayments(bus.db, 3, 3);
    await operators.ask('/backfill', { json: good });
    await drainLive(bus.db, [makeLedger()]);
    expect((await examine(bus.db)).findings).toEqual([]);
    // As if the newer one had been made before.
    await rows(bus.db, `update backfills set begun_at = begun_at - interval '1 hour'`);
    await rows(
      bus.db,
      `update journal set at = (select begun_at + interval '1 minute' from backfills)
       where took_ms is not null and lane in (select id from lanes where subscriber = 'ledger')`,
    );
    expect((await examine(bus.db)).findings).toMatchObject([
      { promise: 'no attempt began before the deliveries ahead in its lane ended', count: 1 },
    ]);
  });
});
