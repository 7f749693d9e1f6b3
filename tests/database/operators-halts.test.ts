import { describe, expect } from 'vitest';

import { sampleBacklog } from '../../lib/components/subscriber-health/sample-backlog.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
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
      lanes: [
        {
          deliveryId: ids[1],
          behind: 3,
          orderingKey: '',
          lastError: { kind: 'permanent' },
          nextAttemptAt: null,
          deadLetteredAt: expect.any(String),
        },
      ],
    });
    const page = await shown(operators, `/incidents/${incidentId}`);
    expect(page).toContain('1 dead letter. 1 lane is halted until it is replayed or dismissed.');
    expect(page).toMatch(/dead letter [-0-9a-f]{13}…/);

    operators.kicks = 0;
    const dismissed = await operators.ask('/dismiss', { json: { deliveryIds: [ids[1]], reason: 'Booked.' } });
    expect(dismissed.json).toMatchObject({ matched: 1, dismissed: 1, left: 0 });
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
    // Payment 7 halted nothing until it is replayed; payment 8 halts its key already.
    const [id] = await emitPayments(bus.db, 7, 7, { orderingKey: 'venue 3' });
    await drainLive(bus.db, [ledger(refuse)]);
    await emitPayments(bus.db, 8, 8, { orderingKey: 'venue 3' });
    await drainLive(bus.db, [ledger(refuse, HALT)]);
    await operators.ask('/replay', { json: { deliveryIds: [`${id}.ledger`] } });
    await drainLive(bus.db, [ledger(refuse, HALT)]);
    expect(await haltsOf(bus.db)).toHaveLength(4);
    const overview = await readOverview(bus.db, operators.attached);
    const captured = overview.topics.find(({ topic }) => topic === 'payment.captured');
    expect(captured!.subscribers).toContainEqual(
      expect.objectContaining({ subscriber: 'ledger', haltedLanes: 3 }),
    );
    expect(await incidents(operators)).toMatchObject([{ haltedLanes: 3 }]);
  });

  test('is on the page of its topic, which leads to its incident, and on that of its subscriber', async ({
    bus,
    operators,
  }) => {
    const [, dead] = await halted(bus);
    const heldLanes = [{ deliveryId: dead, behind: 3, nextAttemptAt: null }];
    for (const path of [TOPIC, '/subscribers/ledger']) {
      expect((await operators.ask(path)).json).toMatchObject({ heldLanes });
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect(text).toContain(`href="/platform/event-bus/dismiss?deliveryIds=${dead}"`);
    }
    const { text } = await operators.ask(TOPIC, { accept: BROWSER });
    expect(text).toContain('1 lane halted by a dead letter');
    expect(text).toContain('href="/platform/event-bus/incidents?topic=payment.captured"');
  });

  test('is not listed while an earlier delivery of it holds it, which is', async ({ bus, operators }) => {
    const [first, dead] = await halted(bus);
    const again = { topic: 'payment.captured', since: '1h', deliveryIds: [first], include: 'all' };
    await operators.ask('/replay', { json: again });
    await drainLive(bus.db, [ledger((number) => number === 1 && fail(), HALT)]);
    const { heldLanes } = (await operators.ask(TOPIC)).json as { heldLanes: unknown[] };
    expect(heldLanes).toMatchObject([{ deliveryId: first, nextAttemptAt: expect.any(String) }]);
    await operators.ask(`/deliveries/${first}/retry`, { json: {} });
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect((await operators.ask(TOPIC)).json).toMatchObject({ heldLanes: [{ deliveryId: dead }] });
  });

  test('is said on the page of the dead letter and marked in the list', async ({ bus, operators }) => {
    const ids = await halted(bus);
    expect((await operators.ask(`/dead-letters/${ids[1]}`)).json).toMatchObject({
      isHalting: true,
    });
    expect(await shown(operators, `/dead-letters/${ids[1]}`)).toContain(
      'this halts its lane until it is replayed or dismissed.',
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
    const preview = await shown(operators, `/dismiss?deliveryIds=${ids[1]}`);
    expect(preview).toContain('1 halted lane goes on.');
    const form = { deliveryIds: ids[1]!, expectedCount: '1', reason: 'Booked by hand.' };
    const sent = await operators.ask('/dismiss', { form, accept: BROWSER });
    expect(sent.status).toBe(303);
    const to = sent.headers.get('location')!.replace('/platform/event-bus', '');
    expect(to).toBe(`/dead-letters/${ids[1]}`);
    expect(decodeURIComponent(sent.headers.get('set-cookie')!)).toContain(
      'Dismissed 1 dead letter, which can still be replayed.',
    );
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect((await statesOf(bus.db)).slice(2)).toEqual(['delivered', 'delivered', 'delivered']);
    expect((await operators.ask('/replays')).json['items']).toMatchObject([
      { action: 'dismiss', deliveryId: ids[1], reason: 'Booked by hand.', topic: 'payment.captured' },
    ]);
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ totalInAll: 0 });
  });

  test('is dismissed once: a second request changes nothing, and neither does one for a live delivery', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    const dismiss = async (id: string) =>
      (await operators.ask('/dismiss', { json: { deliveryIds: [id], reason: 'Booked.' } })).json;
    expect(await dismiss(ids[1]!)).toMatchObject({ matched: 1, dismissed: 1 });
    for (const id of ids.slice(0, 3)) expect(await dismiss(id)).toMatchObject({ matched: 0, dismissed: 0 });
    expect(await rows(bus.db, `select from operator_actions where action = 'dismiss'`)).toHaveLength(1);
    expect(await shown(operators, `/dismiss?deliveryIds=${ids[0]}`)).toContain('Nothing to dismiss');
    expect((await examine(bus.db)).findings).toEqual([]);
  });

  test('that another operator replays at the same time is either dismissed or replayed', async ({
    bus,
    operators,
  }) => {
    const ids = await halted(bus);
    const [dismissed, replayed] = await Promise.all([
      operators.ask('/dismiss', { json: { deliveryIds: [ids[1]], reason: 'Booked.' } }),
      operators.ask('/replay', { json: { deliveryIds: [ids[1]] } }),
    ]);
    // A dismissed one can still be replayed by its id.
    expect([dismissed.status, replayed.status]).toEqual([expect.toBeOneOf([200, 409]), 200]);
    await drainLive(bus.db, [ledger(undefined, HALT)]);
    expect((await statesOf(bus.db)).slice(2)).toEqual(['delivered', 'delivered', 'delivered']);
    expect((await examine(bus.db)).findings).toEqual([]);
  });
});
