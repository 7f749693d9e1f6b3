import { describe, expect } from 'vitest';

import { pause, resume } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { addHealth } from '../../lib/components/subscriber-health/add-health.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { addDelivered, emptyTally } from '../../lib/components/subscriber-health/tally.ts';
import { rollUpHealth } from '../../lib/components/subscriber-health/roll-up.ts';
import { readSubscriberHealth } from '../../lib/console/subscribers/read.ts';
import { DAY, HOUR, MINUTE, instantOf } from '../../lib/platform/time.ts';
import { START, drainLive, rows } from '../support/bus.ts';
import { leaveSubscription, renameLanes } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

/** Records deliveries that took this long, in the hour of an instant. */
async function delivered(
  bus: Bus,
  atMs: number,
  number = 1,
  ms = 100,
  topic = 'payment.captured',
): Promise<void> {
  const tally = emptyTally('ledger', topic, Math.floor(atMs / HOUR) * HOUR);
  for (let index = 0; index < number; index += 1)
    addDelivered(tally, { atMs, durationMs: ms / 2, recordedAtMs: atMs - ms / 2, replays: 0 });
  await addHealth(bus.db, [tally]);
}

describe('the health of a subscriber', () => {
  test('lists 48 hours, the present one last, and leaves out older ones', async ({ bus }) => {
    await delivered(bus, START, 3);
    await delivered(bus, START - 47 * HOUR, 2);
    await delivered(bus, START - 48 * HOUR, 50);
    const health = await readSubscriberHealth(
      bus.db,
      { subscriber: 'ledger', span: 'hours', attachments: { subscribers: () => [], refusals: () => [] } },
      new Date(START + 20 * MINUTE),
    );
    expect(health!.intervals).toHaveLength(48);
    expect(health!.intervals[0]).toMatchObject({ startsAt: instantOf(START - 47 * HOUR), delivered: 2 });
    expect(health!.intervals[47]).toMatchObject({ startsAt: instantOf(START), delivered: 3 });
    expect(health!.whole).toMatchObject({ delivered: 5, deadLettered: 0 });
    const { p50, p95 } = health!.whole.deliveredInMs!;
    expect(p50).toBeGreaterThan(64);
    expect(p95).toBeLessThanOrEqual(128);
    expect(p50).toBeLessThanOrEqual(p95);
  });

  test('lists 30 days, of which the last ones are still stored as hours, and counts none of them twice', async ({
    bus,
  }) => {
    for (let hoursAgo = 0; hoursAgo < 30 * 24; hoursAgo += 1) await delivered(bus, START - hoursAgo * HOUR);
    for (let time = 0; time < 4; time += 1) await rollUpHealth(bus.db, new Date(START));
    const health = await readSubscriberHealth(
      bus.db,
      { subscriber: 'ledger', span: 'days', attachments: { subscribers: () => [], refusals: () => [] } },
      new Date(START),
    );
    const counts = health!.intervals.map((day) => day.delivered);
    expect(counts).toHaveLength(30);
    // START is at 10:00 UTC.
    expect(counts).toEqual([...Array<number>(29).fill(24), 11]);
    expect(health!.intervals[29]!.startsAt).toBe(instantOf(Math.floor(START / DAY) * DAY));
  });

  test('is that of one topic, or of all', async ({ bus, operators }) => {
    await delivered(bus, Date.now(), 3);
    await delivered(bus, Date.now(), 4, 100, 'payment.refunded');
    const wholeOf = async (query: string) =>
      ((await operators.ask(`/subscribers/ledger${query}`)).json['whole'] as { delivered: number }).delivered;
    expect(await wholeOf('')).toBe(7);
    expect(await wholeOf('?topic=payment.refunded')).toBe(4);
  });

  test('lists what is left of it where the catalog does not list it, to be retired', async ({
    bus,
    operators,
  }) => {
    await operators.died(3);
    expect((await operators.ask('/subscribers/ledger')).json['unlisted']).toEqual([]);
    await renameLanes(bus.db, 'ledger', 'books');
    const { json } = await operators.ask('/subscribers/books');
    expect(json['unlisted']).toEqual([{ topic: 'payment.captured', waiting: 0, deadLettered: 3 }]);
    const { text } = await operators.ask('/subscribers/books', { accept: BROWSER });
    expect(text).toContain('href="/platform/event-bus/subscribers/books/retire?topic=payment.captured"');
  });

  test('follows what a relay did, with failures and dead letters', async ({ bus, operators }) => {
    await operators.died(3);
    await drainLive(bus.db, [ledger()]);
    await HealthRecorder.of(bus.db).write();
    const { json } = await operators.ask('/subscribers/ledger');
    expect(json['whole']).toMatchObject({
      delivered: 0,
      failedAttempts: 3,
      deadLettered: 3,
      deliveredInMs: null,
    });
    expect(json['whole']).toMatchObject({ handlerMs: { p50: expect.any(Number) } });
  });

  test('marks replays, pauses, resumes and dismissals of the subscriber, and nothing else', async ({
    bus,
    operators,
  }) => {
    const [first] = await operators.died(2);
    const since = { topic: 'payment.captured', since: '1h' };
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'maintenance');
    await resume(bus.db, { subscriber: 'ledger', topic: null }, 'ola', null);
    await pause(bus.db, { subscriber: 'bookings', topic: null }, 'kari', 'another subscriber');
    await replay(bus.db, { ...since, subscriber: 'bookings' }, 'kari');
    await replay(bus.db, { deliveryIds: [first!] }, 'kari');
    await replay(bus.db, { ...since, subscriber: 'ledger', reason: 'fixed' }, 'kari');
    await rows(
      bus.db,
      `insert into operator_actions (id, at, operator, action, topic, subscriber)
       values (gen_random_uuid(), now(), 'kari', 'reveal', 'payment.captured', 'ledger'),
         (gen_random_uuid(), now(), 'ola', 'dismiss', 'payment.captured', 'ledger')`,
    );
    const actionsOf = async (query = '') =>
      (await operators.ask(`/subscribers/ledger${query}`)).json['actions'] as {
        action: string;
        operator: string;
        reason: string | null;
      }[];
    expect((await actionsOf()).map(({ action, operator, reason }) => [action, operator, reason])).toEqual([
      ['dismiss', 'ola', null],
      ['replay', 'kari', 'fixed'],
      ['replay', 'kari', null],
      ['resume', 'ola', null],
      ['pause', 'kari', 'maintenance'],
    ]);
    expect((await actionsOf('?topic=payment.refunded')).map(({ action }) => action)).toEqual([
      'resume',
      'pause',
    ]);
  });

  test.for([
    ['?span=weeks', 'span: expected hours (the last 48) or days (the last 30)'],
    [
      '?topic=booking.created',
      'topic: ledger does not subscribe to it; expected for example booking.cancelled',
    ],
    ['?topic=PAYMENT', 'topic: expected a topic of the catalog, such as payment.captured'],
  ] as const)('refuses %s and says what would be right', async ([query, detail], { operators }) => {
    const { status, json } = await operators.ask(`/subscribers/ledger${query}`);
    expect([status, json['detail']]).toEqual([400, detail]);
  });

  test('is unknown of a subscriber that neither the catalog nor any delivery names', async ({
    bus,
    operators,
  }) => {
    expect(await operators.ask('/subscribers/postcards')).toMatchObject({
      status: 404,
      json: { detail: expect.stringContaining('Unknown subscriber') },
    });
    await leaveSubscription(bus.db, 'postcard.sent', 'postcards', 1);
    expect(await operators.ask('/subscribers/postcards')).toMatchObject({
      status: 200,
      json: { items: [{ inCatalog: false }], topics: ['postcard.sent'] },
    });
  });
});

describe('the page of a subscriber', () => {
  const pageOf = async (operators: Operators, query = '') =>
    (await operators.ask(`/subscribers/ledger${query}`, { accept: BROWSER })).text;

  test('has two charts with axes, and their values as a table', async ({ bus, operators }) => {
    await delivered(bus, Date.now(), 1204, 2000);
    await rows(bus.db, 'update subscriber_health set failed = 3, dead_lettered = 2, backlog_age_ms = 90000');
    const page = await pageOf(operators);
    for (const title of ['Delivered and failed', 'Longest wait']) expect(page).toContain(`<h3>${title}</h3>`);
    expect(page.match(/<svg[^>]*role="img"/g)).toHaveLength(2);
    expect(page).toMatch(/<text[^>]*>2,000<\/text\s*>/);
    expect(page).toMatch(/<text[^>]*>10 s<\/text\s*>/);
    expect(page).toContain('1,204 delivered, 3 failed attempts');
    expect(page).toMatch(/<td class="num"[^>]*>1,204<\/td>/);
    expect(page).toContain('1 min 30 s');
    expect(page).toContain('(99.8 %)');
  });

  test('says where there is nothing, and draws no chart', async ({ operators }) => {
    const page = await pageOf(operators);
    expect(page).toContain('Nothing was delivered, and nothing failed.');
    expect(page).toContain('Nothing waited at any sample.');
    expect(page).toContain('No replays, pauses, resumes, retries, skips or dismissals in this time.');
    expect(page).not.toMatch(/<svg[^>]*role="img"/);
  });

  test('lists what operators did, with their reasons as text', async ({ bus, operators }) => {
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'maintenance <b>');
    const page = await pageOf(operators);
    expect(page).toContain('maintenance &lt;b&gt;');
    expect(page).not.toContain('maintenance <b>');
  });

  test('says that days are those of UTC, and leaves hours to the script to be written anew', async ({
    bus,
    operators,
  }) => {
    await delivered(bus, Date.now(), 1);
    expect(await pageOf(operators, '?span=days')).toContain('A day begins at midnight UTC');
    const hours = await pageOf(operators);
    expect(hours).not.toContain('midnight');
    expect(hours).toMatch(/<title data-at="[^"]+" data-to="weekday">/);
  });
});
