import { describe, expect } from 'vitest';

import { sampleBacklog } from '../../lib/components/subscriber-health/sample-backlog.ts';
import { examine } from '../../lib/console/doctor/read.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { HOUR } from '../../lib/platform/time.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { deliveryIdsOf, statesOf, RECORDS, haltsOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { test as operatorTest, BROWSER } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const HALT = { afterDeadLetter: 'halt' } as const;
const TOPIC = '/topics/payment.captured';

const test = operatorTest;

/** Payment 2 is refused, and halts its lane: 3, 4 and 5 wait. @returns the ids of the deliveries, in order. */
async function halted(bus: Bus, orderingKey?: string): Promise<string[]> {
  await emitPayments(bus.db, 1, 5, orderingKey === undefined ? {} : { orderingKey });
  await drainLive(bus.db, [ledger((number) => number === 2 && refuse(), HALT)]);
  return await deliveryIdsOf(bus.db);
}

const shown = async (operators: Operators, path: string) =>
  (await operators.ask(path, { accept: BROWSER })).text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

const incidents = async (operators: Operators) =>
  (await operators.ask('/incidents')).json['items'] as Readonly<Record<string, unknown>>[];

describe('an ordering key that hides or controls', () => {
  test.for([
    ['\u202Evenue\u0007\n1', '⟨U+202E⟩venue␇␊1'],
    ['   ', '␣␣␣'],
  ] as const)(
    'the key %j is %s on each page that names its lane',
    async ([key, sign], { bus, operators }) => {
      const [, second] = await halted(bus, key);
      await emitPayments(bus.db, 6, 6, { orderingKey: key + key });
      await drainLive(bus.db, [ledger((number) => number === 6 && fail(), HALT)]);
      const [{ eventId }] = (await rows<{ eventId: string }>(
        bus.db,
        `select event_id::text as "eventId" from ${RECORDS} order by position limit 1`,
      )) as [{ eventId: string }];
      const happening = (await incidents(operators)).map(
        ({ incidentId }) => `/incidents/${String(incidentId)}`,
      );
      expect(happening).toHaveLength(2);
      const paths = [TOPIC, `/dead-letters/${second}`, `/events/${eventId}`, ...happening, '/events'];
      for (const path of paths) {
        const page = await shown(operators, path);
        expect(page).not.toMatch(/\p{Cc}|\u202E/u);
        if (path !== '/events') expect([path, page]).toEqual([path, expect.stringContaining(sign)]);
      }
    },
  );
});

describe('a lane that a dead letter halts', () => {
  test('is an incident that happens now, in its own words, until the dead letter is dismissed', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    expect(await incidents(operators)).toMatchObject([
      {
        state: 'happening',
        blockedLanes: 1,
        haltedLanes: 1,
        waiting: 3,
        owed: 1,
        sentence:
          'ledger refused deliveries on payment.captured: 1 lane is halted by its dead letter, 3 deliveries wait.',
      },
    ]);
    const [{ incidentId }] = (await incidents(operators)) as [{ incidentId: string }];
    const { json } = await operators.ask(`/incidents/${incidentId}`);
    expect(json).toMatchObject({
      lanes: [],
      halts: [{ deliveryId: ids[1], waiting: 3, orderingKey: '', lastError: { kind: 'permanent' } }],
      topics: [],
    });
    const page = await shown(operators, `/incidents/${incidentId}`);
    expect(page).toContain('1 dead letter. 1 lane is halted until it is replayed or dismissed.');
    expect(page).toMatch(/dead letter [-0-9a-f]{13}…\.ledger/);

    operators.kicks = 0;
    const dismissed = await operators.ask(`/dead-letters/${ids[1]}/dismiss`, { json: { reason: 'Booked.' } });
    expect(dismissed.json).toMatchObject({ deliveryId: ids[1], released: true, subscriber: 'ledger' });
    expect(operators.kicks).toBe(1);
    expect(await incidents(operators)).toMatchObject([{ state: 'closed', haltedLanes: 0, blockedLanes: 0 }]);
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect(await statesOf(bus.db)).toEqual([
      'delivered',
      'dead_lettered',
      'delivered',
      'delivered',
      'delivered',
    ]);
  });

  test('of one key is counted by itself, and once however many of its dead letters halt it', async ({
    bus,
    operators,
  }) => {
    await halted(bus, 'venue 1');
    await emitPayments(bus.db, 6, 6, { orderingKey: 'venue 2' });
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect(await incidents(operators)).toMatchObject([
      { haltedLanes: 1, blockedLanes: 1, waiting: 3, owed: 1 },
    ]);
    await operators.ask('/replay', {
      json: { topic: 'payment.captured', since: '1h', subscriber: 'ledger', include: 'all' },
    });
    await drainLive(bus.db, [ledger((number) => number > 1 && refuse(), HALT)]);
    const overview = await readOverview(bus.db, operators.attached);
    const captured = overview.topics.find(({ topic }) => topic === 'payment.captured');
    expect(captured!.subscribers).toContainEqual(
      expect.objectContaining({ subscriber: 'ledger', haltedLanes: 2 }),
    );
    expect(await incidents(operators)).toMatchObject([{ haltedLanes: 2 }]);
  });

  test('is on the page of its topic with both ways out, and not among those that wait for a retry', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    const { json } = await operators.ask(TOPIC);
    expect(json).toMatchObject({
      heldLanes: [],
      haltedLanes: [
        {
          subscriber: 'ledger',
          deliveryId: ids[1],
          waiting: 3,
          isMore: false,
          lastError: { kind: 'permanent', message: 'refused' },
        },
      ],
    });
    const page = await shown(operators, TOPIC);
    expect(page).toMatch(/Halted lanes .* dead letter [-0-9a-f]{13}…\.ledger .* Replay… .* Dismiss…/);
    expect(page).toContain('1 lane halted');
    const reading = await operators.ask(TOPIC, { scope: 'event-bus:read', accept: BROWSER });
    expect(reading.text).not.toContain('/dismiss"');
  });

  test('is said on the page of the dead letter and marked in the list', async ({ bus, operators }) => {
    const ids = await halted(bus);
    expect((await operators.ask(`/dead-letters/${ids[1]}`)).json).toMatchObject({
      halts: { waiting: 3, isMore: false },
    });
    expect(await shown(operators, `/dead-letters/${ids[1]}`)).toContain(
      'This dead letter halts its lane: 3 deliveries wait until it is replayed or dismissed.',
    );
    expect((await operators.ask('/dead-letters')).json['items']).toMatchObject([{ isHalting: true }]);
    expect(await shown(operators, '/dead-letters')).toContain('halts its lane');
  });

  test.for([0, 1])(
    'fails its subscriber also after another one was replayed: dead letter %i is delivered',
    async (index, { bus, operators }) => {
      for (const number of [1, 2]) await emitPayments(bus.db, number, number, { orderingKey: `${number}` });
      await drainLive(bus.db, [ledger(() => refuse(), HALT)]);
      await operators.ask('/replay', { json: { deliveryIds: [(await deliveryIdsOf(bus.db))[index]] } });
      await drainLive(bus.db, [ledger(undefined, HALT)]);
      expect(await haltsOf(bus.db)).toHaveLength(1);
      const { json } = await operators.ask('/subscribers');
      expect(json['items']).toContainEqual(
        expect.objectContaining({ subscriber: 'ledger', state: 'failing' }),
      );
    },
  );

  test('is on the page of its topic after any number of others were replayed', async ({ bus, operators }) => {
    for (let number = 1; number <= 51; number += 1)
      await emitPayments(bus.db, number, number, { orderingKey: `${number}` });
    await drainLive(bus.db, [ledger(() => refuse(), HALT)]);
    const [first] = await haltsOf(bus.db);
    const others = (await deliveryIdsOf(bus.db)).filter((id) => id !== first);
    await operators.ask('/replay', { json: { deliveryIds: others } });
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect(await haltsOf(bus.db)).toHaveLength(1);
    expect((await operators.ask(TOPIC)).json).toMatchObject({ haltedLanes: [{ deliveryId: first }] });
  });

  test('is metered apart from lanes that wait for a retry, and ages the backlog', async ({
    bus,
    operators,
  }) => {
    await halted(bus);
    const metrics = await readMetrics(bus.db, operators.attached);
    const of = '{topic="payment.captured",subscriber="ledger"}';
    expect(metrics).toContain(`postbud_lanes_halted${of} 1\n`);
    expect(metrics).toContain(`postbud_lanes_blocked${of} 0\n`);
    expect(metrics).toContain(`postbud_oldest_due_age_seconds${of} 0\n`);
    await sampleBacklog(bus.db, new Date(Date.now() + HOUR));
    const [sample] = await rows<{ ms: number }>(
      bus.db,
      `select max(backlog_age_ms) as ms from subscriber_health where subscriber = 'ledger' and topic = ''`,
    );
    expect(sample!.ms).toBeGreaterThanOrEqual(HOUR);
  });

  test('shows no time that does not exist on any page', async ({ bus, operators }) => {
    const ids = await halted(bus, 'venue 1');
    const [{ incidentId }] = (await incidents(operators)) as [{ incidentId: string }];
    const [{ id: eventId }] = (await rows<{ id: string }>(
      bus.db,
      'select id::text from events order by seq desc limit 1',
    )) as [{ id: string }];
    const paths = [
      '',
      TOPIC,
      '/incidents',
      `/incidents/${incidentId}`,
      `/events/${eventId}`,
      '/events',
      '/dead-letters',
      `/dead-letters/${ids[1]}`,
      '/dead-letters?topic=payment.refunded',
      '/subscribers/ledger',
      '/replay?topic=payment.captured&since=24h',
      '/replays',
    ];
    for (const path of paths) {
      const json = await operators.ask(path);
      expect([json.status, json.text.match(/NaN|[Ii]nfinity|Invalid/)]).toEqual([200, null]);
      const page = await operators.ask(path, { accept: BROWSER });
      expect([page.status, page.text.match(/NaN|[Ii]nfinity|Invalid/)]).toEqual([200, null]);
    }
  });

  test('refuses to retry or skip what waits behind its dead letter, and names that', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    for (const action of ['retry', 'skip']) {
      const refused = await operators.ask(`/deliveries/${ids[2]}/${action}`, { json: { reason: 'now' } });
      expect([refused.status, refused.json['code'], refused.json['detail']]).toEqual([
        409,
        'halted',
        `Dead letter ${ids[1]} halts this lane. Replay or dismiss that one.`,
      ]);
    }
  });
});

describe('one dead letter', () => {
  test('is dismissed with a reason, which the operators’ log keeps, and its lane goes on', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    const path = `/dead-letters/${ids[1]}/dismiss`;
    const sent = await operators.ask(path, { form: { reason: 'Booked by hand.' }, accept: BROWSER });
    expect(sent.status).toBe(303);
    const to = sent.headers.get('location')!.replace('/platform/event-bus', '');
    expect(to).toBe(`/dead-letters/${ids[1]}?done=dismiss&done.deliveryId=${ids[1]}&done.lane=released`);
    expect(await shown(operators, to)).toContain(
      'it is in no count any more. What waited behind it follows.',
    );
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect((await statesOf(bus.db)).slice(2)).toEqual(['delivered', 'delivered', 'delivered']);
    expect((await operators.ask('/replays')).json['actions']).toMatchObject([
      { action: 'dismiss', deliveryId: ids[1], reason: 'Booked by hand.', topic: 'payment.captured' },
    ]);
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ totalInAll: 0 });
  });

  test('is dismissed once: a second request changes nothing, and one for a live delivery is refused', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    const dismiss = (id: string) =>
      operators.ask(`/dead-letters/${id}/dismiss`, { json: { reason: 'Booked.' } });
    const first = await dismiss(ids[1]!);
    const second = await dismiss(ids[1]!);
    expect(second.json).toEqual({ ...first.json, released: false });
    expect(await rows(bus.db, `select from operator_actions where action = 'dismiss'`)).toHaveLength(1);
    for (const id of [ids[0]!, ids[2]!]) {
      expect((await dismiss(id)).json).toMatchObject({ status: 409, code: 'not_dead' });
    }
    expect((await examine(bus.db)).findings).toEqual([]);
  });

  test('that another operator replays at the same time is either dismissed or replayed', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    const [dismissed, replayed] = await Promise.all([
      operators.ask(`/dead-letters/${ids[1]}/dismiss`, { json: { reason: 'Booked.' } }),
      operators.ask('/replay', { json: { deliveryIds: [ids[1]] } }),
    ]);
    const isDismissed = dismissed.status === 200;
    // A dismissed one can still be replayed by its id.
    expect(isDismissed || dismissed.json['code'] === 'not_dead').toBe(true);
    expect(replayed.status).toBe(200);
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect((await statesOf(bus.db)).slice(2)).toEqual(['delivered', 'delivered', 'delivered']);
    expect((await examine(bus.db)).findings).toEqual([]);
  });
});
