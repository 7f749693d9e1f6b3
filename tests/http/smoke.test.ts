import pg from 'pg';
import { RECEIVED_TABLE, receiver } from 'postbud/receive';
import { describe, expect } from 'vitest';

import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import { endSmokeTests } from '../../lib/bus/deliveries/operations/end-smoke-tests.ts';
import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { subscribersOf } from '../../lib/components/registry.ts';
import { withSmokeTests } from '../../lib/components/smoke-test.ts';
import { readMetrics } from '../../lib/console/metrics/read.ts';
import type { EventView } from '../../lib/console/event/view.ts';
import type { SmokeTest } from '../../lib/console/smoke/actions.ts';
import { duties } from '../../lib/edge/cron/duties.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { contradictions, drainLive, rows } from '../support/bus.ts';
import { countDeliveries, awaitingPlace, dueTimesOf, leasedLanes } from '../support/records.ts';
import { holdLanes } from '../support/scenes.ts';
import { BROWSER, test as operatorTest } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';
import { freePort } from '../support/postgres.ts';
import { listen } from '../support/receive.ts';
import { answer, openReceiver } from '../support/receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

const test = operatorTest.extend('receiver', async ({}, { onCleanup }) => {
  const receiver = await openReceiver();
  onCleanup(() => receiver.close());
  return receiver;
});

/** Attaches what runs in this process, and components elsewhere at these addresses. */
function attach(
  operators: Operators,
  elsewhere: Readonly<Record<string, string>> = {},
  isBatch = false,
): void {
  const remoteSubscribers = Object.entries(elsewhere).map(([name, url]) => ({ name, url, secret, isBatch }));
  operators.attached = subscribersOf({ remoteSubscribers, database: { kind: 'none' } });
}

const start = async (operators: Operators) =>
  (await operators.ask('/smoke', { json: {} })).json as unknown as SmokeTest;

const read = async (operators: Operators, { smokeTestId }: SmokeTest) =>
  (await operators.ask(`/events/${smokeTestId}`)).json as unknown as EventView;

const of = ({ deliveries }: EventView, name: string) =>
  deliveries.find(({ subscriber }) => subscriber === name)!;

describe('the test event', () => {
  test('every attached subscriber gets it, and others do not', async ({ bus, operators, receiver }) => {
    attach(operators, { accounting: receiver.url });
    const begun = await start(operators);
    expect((await read(operators, begun)).event.state).toBe('pending');
    await drainLive(bus.db, withSmokeTests(operators.attached));
    const view = await read(operators, begun);
    expect(view.event.state).toBe('delivered');
    expect(view.deliveries.map(({ subscriber }) => subscriber)).toEqual(begun.subscribers);
    expect(begun.subscribers).toEqual(expect.arrayContaining(['accounting', 'audit']));
    expect(begun.subscribers).not.toContain('ledger');
    expect(of(view, 'accounting').attempts).toMatchObject([{ attempt: 1, outcome: 'delivered' }]);
    expect(receiver.got).toHaveLength(1);
    expect(JSON.parse(receiver.got[0]!.body)).toMatchObject({
      type: SMOKE_TEST.topic,
      source: '/postbud/system',
      data: { smokeTestId: begun.smokeTestId },
    });
    expect(await rows(bus.db, 'select from audit_log')).toEqual([]);
  });

  test('a component that takes batches gets it in one', async ({ bus, operators, receiver }) => {
    attach(operators, { accounting: receiver.url }, true);
    const begun = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    expect(of(await read(operators, begun), 'accounting').state).toBe('delivered');
    expect(receiver.got[0]!.headers['content-type']).toContain('cloudevents-batch');
    expect(JSON.parse(receiver.got[0]!.body)).toHaveLength(1);
  });

  test('a receiver of the package takes it without a handler of its own, once', async ({
    bus,
    operators,
  }) => {
    const pool = new pg.Pool({ connectionString: bus.url });
    await pool.query(RECEIVED_TABLE);
    const handlers = { 'payment.captured': () => expect.unreachable('it is no payment') };
    const ledger = await listen(
      receiver({ subscriber: 'ledger', secrets: secret, database: pool, handlers }),
    );
    attach(operators, { ledger: ledger.url });
    const begun = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    expect(of(await read(operators, begun), 'ledger').state).toBe('delivered');
    const { rows: remembered } = await pool.query('select event_id from postbud_received');
    expect(remembered).toEqual([{ event_id: begun.smokeTestId }]);
    await ledger.close();
    await pool.end();
  });

  test('a component that runs here in part is sent it elsewhere', async ({ bus, operators, receiver }) => {
    const topics = ['booking.approved'];
    const payments = { name: 'payments', url: receiver.url, secret, topics };
    operators.attached = subscribersOf({ remoteSubscribers: [payments], database: { kind: 'none' } });
    const begun = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    expect(of(await read(operators, begun), 'payments').state).toBe('delivered');
    expect(receiver.got).toHaveLength(1);
  });

  test.for([
    ['refuses it', answer(401), 'failing', /answered 401.*said/],
    ['is gone', answer(410), 'failing', /answered 410.*said/],
    ['asks to wait for long', answer(503, { 'retry-after': '600' }), 'pending', /asked to wait until/],
  ] as const)(
    'a component elsewhere that %s is told of, and leaves nothing behind',
    async ([, behave, state, problem], { bus, operators, receiver }) => {
      receiver.behave = behave;
      attach(operators, { accounting: receiver.url });
      const begun = await start(operators);
      await drainLive(bus.db, withSmokeTests(operators.attached));
      const view = await read(operators, begun);
      expect(of(view, 'accounting')).toMatchObject({
        state,
        why: { code: 'backoff', text: expect.stringMatching(problem) },
      });
      expect(of(view, 'audit').state).toBe('delivered');
      await expectNothingBehind(operators, bus.db);
    },
  );

  test('a component elsewhere that is down opens no outage, and an outage keeps no test from it', async ({
    bus,
    operators,
    receiver,
  }) => {
    const down = `http://127.0.0.1:${await freePort()}/`;
    attach(operators, { accounting: down });
    for (let again = 0; again < 4; again += 1) {
      const begun = await start(operators);
      await drainLive(bus.db, withSmokeTests(operators.attached));
      const view = await read(operators, begun);
      expect(of(view, 'accounting')).toMatchObject({
        state: 'failing',
        failures: 1,
        why: { code: 'backoff' },
      });
      expect(of(view, 'accounting').lastError?.message).toContain('cannot be reached');
    }
    expect(await rows(bus.db, 'select from outages')).toEqual([]);
    await rows(
      bus.db,
      `insert into outages (subscriber, kind, message, opened_at, next_probe_at)
       values ('accounting', 'unreachable', '', now(), now() + interval '1 hour')`,
    );
    attach(operators, { accounting: receiver.url });
    const begun = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    expect(of(await read(operators, begun), 'accounting').state).toBe('delivered');
    expect(await rows(bus.db, 'select from outages')).toHaveLength(1);
  });

  test('a paused subscriber gets none', async ({ bus, operators }) => {
    attach(operators);
    await operators.ask('/subscribers/audit/pause', { json: { reason: 'a look at it' } });
    const begun = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    const view = await read(operators, begun);
    expect(begun.subscribers).not.toContain('audit');
    expect(begun.paused).toEqual(['audit']);
    expect(view.event.state).toBe('delivered');
  });

  test('without a relay the event says why it waits, and none of its subscribers is to be retired', async ({
    operators,
  }) => {
    attach(operators);
    const begun = await start(operators);
    expect(of(await read(operators, begun), 'audit').why).toMatchObject({ code: 'relay_stopped' });
    const page = await operators.ask(`/events/${begun.smokeTestId}`, { accept: BROWSER });
    expect(page.text).not.toContain('catalog does not list');
    expect(page.text).not.toMatch(/Retire|Replay…|does not match this release/);
  });

  test('a deployment that does not relay emits none, and says so', async ({ bus, operators }) => {
    attach(operators);
    operators.relays = false;
    expect((await start(operators)).subscribers).toEqual([]);
    const begun = await operators.ask('/smoke', { form: {}, accept: BROWSER });
    const shown = await operators.ask(begun.headers.get('location')!.replace('/platform/event-bus', ''), {
      accept: BROWSER,
    });
    expect(shown.text).toContain('RELAY=on');
    expect(await rows(bus.db, 'select from events')).toEqual([]);
  });
});

describe('what a test leaves behind', () => {
  test('no figure, list or page of the operators shows it, whatever became of it', async ({
    bus,
    operators,
    receiver,
  }) => {
    attach(operators, { accounting: receiver.url });
    await operators.died(2);
    await operators.held(2);
    attach(operators, { accounting: receiver.url, bookings: `http://127.0.0.1:${await freePort()}/` });
    // A relay has run.
    await drainLive(bus.db, only(operators));
    const before = await figures(operators, bus.db);
    receiver.behave = answer(410);
    await start(operators);
    expect(await figures(operators, bus.db)).toEqual(before);
    await drainLive(bus.db, only(operators));
    expect(await figures(operators, bus.db)).toEqual(before);
    await endSmokeTests(bus.db, new Date(Date.now() + 11 * MINUTE));
    expect(await figures(operators, bus.db)).toEqual(before);
  });

  test('who looks for it finds its event, by its id or its topic', async ({ bus, operators }) => {
    attach(operators);
    const { smokeTestId: id } = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    expect((await operators.ask(`/events/${id}`)).json).toMatchObject({
      event: { state: 'delivered', payload: { smokeTestId: id } },
    });
    expect((await operators.ask(`/events/${id}`, { accept: BROWSER })).text).not.toContain('Replay…');
    for (const query of [`q=${id}`, `topic=${SMOKE_TEST.topic}`])
      expect((await operators.ask(`/events?${query}`)).json).toMatchObject({ items: [{ eventId: id }] });
  });

  test('two tests at once do not wait for each other, and the cron ends both', async ({
    bus,
    operators,
    receiver,
  }) => {
    receiver.behave = answer(500);
    attach(operators, { accounting: receiver.url });
    const tests = await Promise.all([start(operators), start(operators)]);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    for (const begun of tests)
      expect(of(await read(operators, begun), 'accounting')).toMatchObject({ state: 'failing', failures: 1 });
    receiver.behave = answer(204);
    const third = await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    expect((await read(operators, third)).event.state).toBe('delivered');
    await expectNothingBehind(operators, bus.db);
  });

  test('what is not attached any more is ended too, and a test is forgotten after a month', async ({
    bus,
    operators,
    receiver,
  }) => {
    attach(operators, { accounting: receiver.url });
    await start(operators);
    attach(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    await expectNothingBehind(operators, bus.db);
    await endSmokeTests(bus.db, new Date(Date.now() + 31 * 24 * 60 * MINUTE));
    expect(await rows(bus.db, 'select from smoke_tests')).toEqual([]);
  });

  test('a lane that a relay holds is left to the next minute', async ({ bus, operators, receiver }) => {
    receiver.behave = answer(500);
    attach(operators, { accounting: receiver.url });
    await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    await holdLanes(bus.db, { until: new Date(Date.now() + 12 * MINUTE) });
    await endSmokeTests(bus.db, new Date(Date.now() + 11 * MINUTE));
    expect(await rows(bus.db, 'select from smoke_tests where ended_at is null')).toHaveLength(1);
    expect(await countDeliveries(bus.db, "state = 'failing'")).toBe(1);
    await endSmokeTests(bus.db, new Date(Date.now() + 13 * MINUTE));
    await expectNothingBehind(operators, bus.db);
  });

  test('a test that began while the database’s clock was ahead is ended, and forgotten after a month', async ({
    bus,
    operators,
    receiver,
  }) => {
    receiver.behave = answer(500);
    attach(operators, { accounting: receiver.url });
    await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    await rows(bus.db, "update smoke_tests set started_at = clock_timestamp() + interval '1 year'");
    await expectNothingBehind(operators, bus.db);
    await endSmokeTests(bus.db, new Date(Date.now() + 31 * 24 * 60 * MINUTE));
    expect(await rows(bus.db, 'select from smoke_tests')).toEqual([]);
  });

  test('a test that is still awaited is left alone', async ({ bus, operators, receiver }) => {
    receiver.behave = answer(500);
    attach(operators, { accounting: receiver.url });
    await start(operators);
    await drainLive(bus.db, withSmokeTests(operators.attached));
    await endSmokeTests(bus.db, new Date(Date.now() + 9 * MINUTE));
    expect(await countDeliveries(bus.db, "state = 'failing'")).toBe(1);
  });

  test('the cron does it', () => {
    expect(duties.map(({ name }) => name)).toContain('smoke tests');
  });
});

test('the overview has a button that starts a test and leads to its event, which a viewer does not have', async ({
  operators,
}) => {
  attach(operators);
  await operators.died(1);
  expect((await operators.ask('', { accept: BROWSER })).text).toContain('action="/platform/event-bus/smoke"');
  const viewer = await operators.ask('', { accept: BROWSER, scope: 'event-bus:read' });
  expect(viewer.text).not.toContain('/smoke"');
  const started = await operators.ask('/smoke', { accept: BROWSER, form: { next: '/platform/event-bus' } });
  expect(started.status).toBe(303);
  const path = started.headers.get('location')!;
  expect(path).toMatch(/^\/platform\/event-bus\/events\/[\w-]+$/);
  expect(decodeURIComponent(started.headers.get('set-cookie')!)).toMatch(/sent to \d subscribers\./);
});

/** Only the tests: the other lanes have trouble of their own. */
const only = ({ attached }: Operators) => attached.filter(({ handlers }) => handlers.has(SMOKE_TEST.topic));

type Db = Parameters<typeof drainLive>[0];

/** Everything that operators see of the bus, but for the times at which they look. */
async function figures(operators: Operators, db: Db): Promise<unknown> {
  await HealthRecorder.of(db).write();
  for (const name of ['incidents', 'health of subscribers', 'alerts'])
    await duties.find((duty) => duty.name === name)?.run(db);
  const answers = await Promise.all(PATHS.map(async (path) => [path, (await operators.ask(path)).json]));
  const tables = await Promise.all(
    TABLES.map(async (name) => [name, (await rows(db, `select * from ${name}`)).length]),
  );
  const metrics = (await readMetrics(db, operators.attached)).split('\n');
  const still = metrics.filter((line) => !/_(age|lag)_seconds/.test(line));
  return JSON.parse(
    JSON.stringify([answers, tables, still], (name, value: unknown) =>
      MOVING.has(name) ? typeof value : value,
    ),
  );
}

const PATHS = [
  '',
  '/events',
  '/events?state=pending',
  '/events?state=failing',
  '/events?subscriber=accounting',
  '/dead-letters',
  '/incidents',
  '/replays',
  '/webhooks',
  '/doctor',
  '/subscribers/accounting',
  '/subscribers/bookings',
  '/replays?only=backfills',
  '/topics/payment.captured',
];
const TABLES = [
  'subscription_counts',
  'throughput_minutes',
  'subscriber_health',
  'error_groups',
  'incidents',
  'alerts',
  'audit_log',
];
/** Times, and how many events the doctor checked: tests are held to its promises too. */
const MOVING = new Set([
  'generatedAt',
  'lastPassAt',
  'lagSeconds',
  'oldestDueAgeSeconds',
  'backlogAgeSeconds',
  'waitsForSeconds',
  'events',
]);

/** After the cron has ended what is over: nothing waits, nothing died, nobody is told. */
async function expectNothingBehind(operators: Operators, db: Db): Promise<void> {
  await endSmokeTests(db, new Date(Date.now() + 11 * MINUTE));
  await duties.find(({ name }) => name === 'incidents')!.run(db);
  for (const table of ['incidents', 'alerts', 'error_groups', 'subscription_counts'])
    expect([table, await rows(db, `select from ${table}`)]).toEqual([table, []]);
  expect(await awaitingPlace(db)).toEqual([]);
  expect(await countDeliveries(db, "state in ('pending', 'failing') or dead_lettered_at is not null")).toBe(
    0,
  );
  expect(await dueTimesOf(db)).toEqual([]);
  expect(await leasedLanes(db)).toEqual([]);
  expect(await rows(db, 'select from smoke_tests where ended_at is null')).toEqual([]);
  const { json } = await operators.ask('/doctor');
  expect(json['findings']).toEqual([]);
  expect(await contradictions(db)).toEqual([]);
}
