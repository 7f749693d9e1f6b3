import pg from 'pg';
import { expect, onTestFinished } from 'vitest';

import { FAN_OUT_LOCK } from '../../lib/bus/deliveries/locks.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { WAITING, drainLive, emitPayments, openTransaction, payloadOf, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';

/** What a process remembers that has looked at this moment, and whether it has moved its bound just now. */
const memory = (hasMoved: boolean) => {
  const now = Date.now() / 1000;
  return { server: '', from: 0, reserved: 1_000_000, pins: null, wholeAt: now, movedAt: hasMoved ? now : 0 };
};

async function opened(bus: Bus): Promise<pg.Client> {
  const client = new pg.Client(bus.url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Fans out as a turn of a process does. @returns what that process then remembers. */
async function fanOut(client: pg.Client, known: object): Promise<object> {
  const { rows: found } = await client.query<{ memory: object | null }>(
    'select memory from postbud_fan_out_3($1::jsonb, true, 1000, false, null)',
    [JSON.stringify(known)],
  );
  return found[0]!.memory ?? known;
}

/** The events of a topic in the order of their deliveries. */
const inOrder = (bus: Bus) =>
  rows<{ id: string }>(
    bus.db,
    `select event_id as id from deliveries join lanes on lanes.id = lane_id
     where topic = 'payment.failed' and subscriber = 'bookings' order by position`,
  );

/** Emits a later event, and fans out all. @returns the events of the topic in the order in which they were recorded. */
async function emitNext(bus: Bus, client: pg.Client, known: object): Promise<{ id: string }[]> {
  const next = await openTransaction(bus.url);
  await next.emit('payment.failed', payloadOf('payment.failed'));
  await next.commit();
  await fanOut(client, known);
  await fanOut(client, memory(false));
  return await rows(bus.db, `select id from events where topic = 'payment.failed' order by created_at, seq`);
}

test('a producer that is open for longer than a second keeps back what is committed while a turn looks', async ({
  bus,
}) => {
  const client = await opened(bus);
  const open = await openTransaction(bus.url);
  await open.emit('payment.failed', payloadOf('payment.failed'));
  const commitAnother = async () => {
    const another = await openTransaction(bus.url);
    await another.emit('payment.failed', payloadOf('payment.failed'));
    await another.commit();
  };
  await commitAnother();
  const known = (await fanOut(client, memory(false))) as { pins: Record<string, { at: string }> };
  for (const pin of Object.values(known.pins))
    pin.at = new Date(Date.parse(pin.at) - 2 * SECOND).toISOString();
  await commitAnother();
  await commitAnother();
  // As if the last had drawn its number, and was committed, after the turn had read how far numbers were drawn.
  const setNumber = (less: number) =>
    client.query(
      "select setval('awaiting_fan_out_number_seq', (select max(number) - $1::int from awaiting_fan_out))",
      [less],
    );
  await setNumber(1);
  await fanOut(client, known);
  await setNumber(0);
  await open.commit();
  expect(await emitNext(bus, client, memory(false))).toEqual(await inOrder(bus));
});

test('a relay that waited while another one fanned out passes over no event of an open producer', async ({
  bus,
}) => {
  const [holder, relay] = [await opened(bus), await opened(bus)];
  const open = await openTransaction(bus.url);
  await open.emit('payment.failed', payloadOf('payment.failed'));
  await emitPayments(bus.db, 1, 1);
  await holder.query('begin');
  await fanOut(holder, memory(true));
  const looking = fanOut(relay, memory(true));
  await expect.poll(() => rows(bus.db, WAITING)).toHaveLength(1);
  await holder.query('commit');
  const known = await looking;
  await open.commit();
  expect(await emitNext(bus, relay, known)).toEqual(await inOrder(bus));
});

test('a relay passes over no event of a producer that began after it had read the locks', async ({ bus }) => {
  const [holder, relay] = [await opened(bus), await opened(bus)];
  // The relay stops where it has read the locks, before it deletes the first marker.
  await emitPayments(bus.db, 1, 1);
  await holder.query('begin');
  await holder.query('select from awaiting_fan_out for update');
  const looking = fanOut(relay, memory(false));
  await expect
    .poll(() => rows(bus.db, `select from pg_locks where classid = ${FAN_OUT_LOCK} and granted`))
    .toHaveLength(1);
  await expect.poll(() => rows(bus.db, WAITING)).toHaveLength(1);
  const open = await openTransaction(bus.url);
  await open.emit('payment.failed', payloadOf('payment.failed'));
  await emitPayments(bus.db, 2, 2);
  await holder.query('commit');
  const known = await looking;
  await open.commit();
  expect(await emitNext(bus, relay, known)).toEqual(await inOrder(bus));
});

test('a marker that was written by hand, without the lock, is found within a minute', async ({ bus }) => {
  const relay = await opened(bus);
  await emitPayments(bus.db, 1, 1);
  const known = { ...memory(true), from: 1_000_000 };
  await fanOut(relay, known);
  expect(await rows(bus.db, 'select from awaiting_fan_out')).toHaveLength(1);
  await fanOut(relay, { ...known, wholeAt: Date.now() / 1000 - 61 });
  expect(await rows(bus.db, 'select from awaiting_fan_out')).toEqual([]);
});

test('a position that was drawn before a crash is never drawn again, whatever the crash took back', async ({
  bus,
}) => {
  await emitPayments(bus.db, 1, 1);
  await drainLive(bus.db, []);
  const [reserved] = await rows<{ until: number }>(
    bus.db,
    'select until::float8 as until from reserved_positions',
  );
  // As after a crash: another life of the server, and a sequence that has forgotten.
  await rows(bus.db, `update reserved_positions set server = 'the life before'`);
  await rows(bus.db, `select setval('delivery_positions', 1)`);
  await emitPayments(bus.db, 2, 2);
  const { db, close } = await connect(bus.url);
  onTestFinished(close);
  await drainLive(db, []);
  const [newest] = await rows<{ position: number }>(
    bus.db,
    'select max(position)::float8 as position from deliveries',
  );
  expect(newest!.position).toBeGreaterThan(reserved!.until);
});

test('a turn that lengthens one lane and goes on with another gives each its own tail', async ({
  bus,
  ledger,
  handed,
}) => {
  const [first, second] = ['key 13', 'key 1'];
  await emitPayments(bus.db, 1, 1, { orderingKey: first });
  const attached = ledger(async (number) => {
    if (number !== 1) return;
    // Another relay fans out the next one of the same lane, and none fans out that of the other lane.
    await emitPayments(bus.db, 2, 2, { orderingKey: first });
    await drainLive(bus.db, []);
    await emitPayments(bus.db, 3, 3, { orderingKey: second });
  });
  await drainLive(bus.db, [attached]);
  expect(handed.toSorted()).toEqual([1, 2, 3]);
  expect(
    await rows(
      bus.db,
      `select from lanes where home_id is null
       and tail <> (select max(position) from deliveries where lane_id = lanes.id)`,
    ),
  ).toEqual([]);
});
