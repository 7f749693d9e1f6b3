import { afterAll, describe, expect } from 'vitest';

import { dismiss } from '../../lib/bus/deliveries/operations/dismiss.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { acknowledge } from '../../lib/components/incidents/acknowledge.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection, Database } from '../../lib/platform/db/connect.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, drain, emitPayments, numbers, payloadOf, rows } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { changeDeliveries } from '../support/scenes.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';

/** Seven other processes, as far as the database can tell. */
let others: Connection[];
test.beforeAll(async ({ database: bus }) => {
  others = await Promise.all(numbers(1, 7).map(() => connect(bus.url)));
});
afterAll(async () => {
  await Promise.all(others.map(({ close }) => close()));
});

const after = (ms: number) => new Date(START + ms);

/** Fails as an HTTP subscriber does. */
const answer = (status: number, message: string) => () => {
  throw Object.assign(new Error(message), { code: `http_${status}` });
};

interface Row {
  readonly id: string;
  readonly kind: string;
  readonly message: string;
  readonly state: string;
  readonly revision: number;
  readonly change: string;
  readonly lanes: number;
  readonly waiting: number;
  readonly owed: number;
  readonly opened: number;
}

/** Watches, and reads what stands then, the oldest first. */
async function watched(db: Database, at: Date = after(MINUTE)): Promise<Row[]> {
  await watchIncidents(db, at);
  return await rows<Row>(
    db,
    `select id::text, kind, message, state, revision, change, blocked_lanes as lanes, waiting::float8, owed::float8,
       (extract(epoch from opened_at) * 1000)::float8 as opened
     from incidents order by id`,
  );
}

describe('an incident', () => {
  test('opens with the first failure, and says how many lanes are blocked and what waits in them', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await emitPayments(bus.db, 5, 7, { orderingKey: 'venue 1' });
    await emitPayments(bus.db, 8, 9, { orderingKey: 'venue 2' });
    const accounting = subscriber('accounting', { 'payment.captured': () => undefined });
    await drain(bus.db, [ledger(answer(500, 'licence expired')), accounting]);
    expect(await watched(bus.db)).toMatchObject([
      { kind: 'http_500', message: 'licence expired', state: 'happening', lanes: 3, owed: 0, revision: 1 },
    ]);
    const [{ opened }] = (await watched(bus.db)) as [Row];
    expect(opened).toBe(START);
  });

  test('is the same however often and from wherever it is watched: eight watchers make one', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3);
    await drain(bus.db, [ledger(fail)]);
    await Promise.all([bus, ...others].map(({ db }) => watchIncidents(db, after(MINUTE))));
    const [first] = await watched(bus.db);
    await Promise.all([bus, ...others].map(({ db }) => watchIncidents(db, after(2 * MINUTE))));
    expect(await watched(bus.db)).toEqual([first]);
    expect(first).toMatchObject({ state: 'happening', revision: 1, change: 'opened' });
  });

  test('is one for a thousand dead letters of one error, whatever numbers are in its message', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1000);
    await drain(bus.db, [
      ledger((number) => {
        throw new PermanentError(`refused because of booking ${1000 + number}`);
      }),
    ]);
    expect(await watched(bus.db)).toMatchObject([
      { kind: 'permanent', state: 'owed', owed: 1000, revision: 1 },
    ]);
  });

  test('is another one for each kind of error and for each subscription', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'venue 1' });
    await emitPayments(bus.db, 2, 2, { orderingKey: 'venue 2' });
    const accounting = subscriber('accounting', { 'payment.captured': answer(503, 'busy') });
    const odd = ledger((number) => answer(number === 1 ? 500 : 503, 'no')());
    await drain(bus.db, [odd, accounting]);
    expect((await watched(bus.db)).map(({ kind, lanes }) => [kind, lanes]).toSorted()).toEqual([
      ['http_500', 1],
      ['http_503', 1],
      ['http_503', 2],
    ]);
  });

  test('is owed when its lanes go on and dead letters are left, and happening again when they stop', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(fail)]);
    expect(await watched(bus.db)).toMatchObject([{ state: 'happening', change: 'opened', revision: 1 }]);
    await drain(bus.db, [ledger(fail, { maxAttempts: 2 })], { now: START + 2 * MINUTE });
    await drain(bus.db, [ledger()], { now: START + HOUR });
    const [owed] = await watched(bus.db, after(HOUR));
    expect(owed).toMatchObject({
      state: 'owed',
      change: 'changed',
      revision: 2,
      lanes: 0,
      waiting: 0,
      owed: 1,
    });
    await acknowledge(bus.db, owed!.id, 'kari', 'tomorrow');
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [ledger(fail)], { now: START + 2 * HOUR });
    expect(await watched(bus.db, after(2 * HOUR))).toMatchObject([
      { id: owed!.id, state: 'happening', change: 'changed', revision: 4, lanes: 1, owed: 1 },
    ]);
    // Nobody has acknowledged that.
    expect(await rows(bus.db, 'select acknowledged_by as by from incidents')).toEqual([{ by: null }]);
  });

  test('closes when nothing is left, opens again within a quarter of an hour, and is a new one later', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(fail)]);
    const [first] = await watched(bus.db);
    await acknowledge(bus.db, first!.id, 'kari', 'the supplier is told');
    await drain(bus.db, [ledger()], { now: START + 10 * MINUTE });
    expect(await watched(bus.db, after(10 * MINUTE))).toMatchObject([
      { state: 'closed', change: 'closed', revision: 3 },
    ]);
    await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger(fail)], { now: START + 20 * MINUTE });
    expect(await watched(bus.db, after(20 * MINUTE))).toMatchObject([
      { id: first!.id, state: 'happening', change: 'opened', revision: 4, opened: START },
    ]);
    // Nobody has acknowledged that it came back.
    expect(await rows(bus.db, 'select acknowledged_by as by from incidents')).toEqual([{ by: null }]);
    await drain(bus.db, [ledger()], { now: START + 30 * MINUTE });
    await watched(bus.db, after(30 * MINUTE));
    await emitPayments(bus.db, 3, 3);
    await drain(bus.db, [ledger(fail)], { now: START + 50 * MINUTE });
    expect(await watched(bus.db, after(50 * MINUTE))).toMatchObject([
      { id: first!.id, state: 'closed' },
      { state: 'happening', change: 'opened', revision: 1, opened: START + 50 * MINUTE },
    ]);
  });

  test.for([
    { ended: 'an outage', topic: '' },
    { ended: 'one like it', topic: 'payment.captured' },
  ])('begins although $ended was closed by a clock that was ahead', async ({ topic }, { bus }) => {
    await rows(
      bus.db,
      `insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, closed_at,
         blocked_lanes, waiting, owed)
       values ('00000000-0000-7000-8000-000000000001', $1, 'ledger', 'timeout', '', 'closed', 'closed', $2, $3, $3, 0, 0, 0)`,
      [topic, after(-HOUR).toISOString(), after(48 * HOUR).toISOString()],
    );
    await emitPayments(bus.db, 1, 1);
    const silent = () => {
      throw Object.assign(new Error('no answer'), { code: 'timeout' });
    };
    await drain(bus.db, [ledger(silent)]);
    expect(await watched(bus.db)).toMatchObject([
      { state: 'closed' },
      { kind: 'timeout', state: 'happening', lanes: 1, revision: 1, change: 'opened' },
    ]);
  });

  test('stays open while its dead letters are delivered again, and closes when all are', async ({ bus }) => {
    await emitPayments(bus.db, 1, 7);
    await drain(bus.db, [ledger(refuse)]);
    await watched(bus.db);
    await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', after(2 * MINUTE));
    expect(await watched(bus.db, after(3 * MINUTE))).toMatchObject([{ state: 'owed', owed: 0, revision: 1 }]);
    await drain(bus.db, [ledger()], { now: START + 4 * MINUTE });
    expect(await watched(bus.db, after(4 * MINUTE))).toMatchObject([{ state: 'closed', revision: 2 }]);
  });

  test('closes when its dead letters are dismissed', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [ledger(refuse)]);
    const [{ id: incidentId }] = (await watched(bus.db)) as [Row];
    const which = { topic: 'payment.captured', subscriber: 'ledger', kind: 'permanent' };
    const how = {
      action: 'dismiss',
      by: 'kari',
      reason: 'test data',
      incidentId,
      until: Date.now() + MINUTE,
    } as const;
    await dismiss(bus.db, which, { ...how, now: after(MINUTE) });
    expect(await watched(bus.db, after(2 * MINUTE))).toMatchObject([{ state: 'closed', owed: 0 }]);
    expect(await rows(bus.db, 'select incident_id::text as id from operator_actions')).toEqual([
      { id: incidentId },
    ]);
  });

  test('keeps its last error after an operator asked for a retry, and is over after a skip, which is no incident', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(answer(500, 'licence expired'))]);
    const [delivery] = await deliveriesOf(bus.db, 'ledger');
    const early = `attempt_log = attempt_log || '[{"attempt": 0, "outcome": "retried_early", "by": "kari"}]'`;
    await changeDeliveries(bus.db, early, `error_group is null and state = 'failing'`);
    expect(await watched(bus.db)).toMatchObject([{ kind: 'http_500', message: 'licence expired' }]);
    await skip(bus.db, { deliveryId: delivery!.id, by: 'kari', reason: 'by phone', now: after(MINUTE) });
    expect(await watched(bus.db, after(2 * MINUTE))).toMatchObject([{ kind: 'http_500', state: 'closed' }]);
  });

  test('counts how often it has happened when deliveries came between', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(fail)]);
    await watched(bus.db);
    await drain(bus.db, [ledger()], { now: START + 2 * MINUTE });
    await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger(fail)], { now: START + 3 * MINUTE });
    await watched(bus.db, after(4 * MINUTE));
    const times = () =>
      rows<{ times: number; last: number }>(
        bus.db,
        'select times, (extract(epoch from last_opened_at) * 1000)::float8 as last from incidents',
      );
    expect(await times()).toEqual([{ times: 2, last: START + 3 * MINUTE }]);
    await watched(bus.db, after(5 * MINUTE));
    expect(await times()).toEqual([{ times: 2, last: START + 3 * MINUTE }]);
  });

  test('hides the personal data of the event in its message', async ({ bus }) => {
    const payload = payloadOf('inquiry.submitted', { name: 'Solveig Haugland', email: 'solveig@example.no' });
    await bus.db.transaction(async (tx) => {
      await emit(tx, 'inquiry.submitted', payload);
    });
    const handler = answer(422, 'cannot answer Solveig Haugland at solveig@example.no');
    await drain(bus.db, [subscriber('intelligence', { 'inquiry.submitted': handler })]);
    const [{ message }] = (await watched(bus.db)) as [Row];
    expect(message).toMatch(/^cannot answer/);
    expect(message).not.toMatch(/Solveig|Haugland|solveig@/);
  });
});
