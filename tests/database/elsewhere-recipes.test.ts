import pg from 'pg';
import { RECEIVED_TABLE, receiver } from 'postbud/receive';
import { describe, expect, inject } from 'vitest';

import { backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test as busTest } from '../support/bus-test.ts';
import { drain, drainLive, emitPayments, numbers, START } from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';
import { createEmptyDatabase } from '../support/postgres.ts';
import { listen, SECRET } from '../support/receive.ts';

const NEXT = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const NOWHERE = 'http://127.0.0.1:9/events';

const attached = (url: string, secret = SECRET) => [
  remoteSubscriber({ name: 'ledger', url, secret, topics: ['payment.captured'] }),
];

const test = busTest
  .extend('pool', { scope: 'file' }, async ({}, { onCleanup }) => {
    const pool = new pg.Pool({ connectionString: await createEmptyDatabase(inject('postgresUrl')) });
    onCleanup(() => pool.end());
    await pool.query(`${RECEIVED_TABLE} create table effects (amount int, endpoint text, place bigserial)`);
    return pool;
  })
  .extend('effects', async ({ pool }) => {
    await pool.query('truncate postbud_received, effects');
    return async () => {
      const { rows } = await pool.query<{ amount: number }>('select amount from effects order by place');
      return rows.map(({ amount }) => amount);
    };
  })
  /** Starts the component at two addresses, both with its one database. */
  .extend('endpoints', async ({ pool }, { onCleanup }) => {
    const servers = await Promise.all(
      ['here', 'there'].map(async (name) => {
        const endpoint = receiver({
          subscriber: 'ledger',
          secrets: [SECRET, NEXT],
          database: pool,
          handlers: {
            'payment.captured': async ({ payload }, tx) => {
              await tx.query('insert into effects values ($1, $2)', [payload.amountMinor, name]);
            },
          },
        });
        return await listen(endpoint);
      }),
    );
    onCleanup(async () => void (await Promise.all(servers.map(async (server) => await server.close()))));
    return servers.map(({ url }) => url) as [string, string];
  });

describe('the recipes of docs/wire.md', () => {
  test('a change of the secret refuses nothing, while releases with the old and the new one relay', async ({
    bus,
    endpoints: [url],
    effects,
  }) => {
    for (const first of [1, 11, 21]) {
      await emitPayments(bus.db, first, first + 9);
      await Promise.all([SECRET, NEXT].map(async (secret) => await drainLive(bus.db, attached(url, secret))));
    }
    expect(await effects()).toEqual(numbers(1, 30));
    const attempts = (await deliveriesOf(bus.db, 'ledger')).map((delivery) => delivery.attempts);
    expect(attempts).toEqual(numbers(1, 30).map(() => 1));
  });

  test('an endpoint that moves gets each event once, in order, while releases with both addresses relay', async ({
    bus,
    endpoints,
    effects,
    pool,
  }) => {
    for (const first of [1, 11, 21, 31]) {
      await emitPayments(bus.db, first, first + 9);
      const by = first === 31 ? endpoints.slice(1) : endpoints;
      await Promise.all(by.map(async (url) => await drainLive(bus.db, attached(url))));
    }
    expect(await effects()).toEqual(numbers(1, 40));
    const { rows } = await pool.query<{ endpoint: string }>('select endpoint from effects where amount > 30');
    expect(new Set(rows.map(({ endpoint }) => endpoint))).toEqual(new Set(['there']));
  });

  test('a component that was down for a day gets everything in order, and one attempt of an event is used up at most', async ({
    bus,
    endpoints: [url],
    effects,
  }) => {
    await emitPayments(bus.db, 1, 20);
    const backAt = START + DAY;
    for (let now = START; now < backAt; now += 30 * MINUTE) {
      await drain(bus.db, attached(NOWHERE), { now });
    }
    await emitPayments(bus.db, 21, 25);
    expect(new Set(await statesOf(bus.db))).not.toContain('dead_lettered');
    // The probe, and those that waited for it.
    await drain(bus.db, attached(url), { now: backAt });
    await drain(bus.db, attached(url), { now: backAt + MINUTE });
    expect(await effects()).toEqual(numbers(1, 25));
    const attempts = (await deliveriesOf(bus.db, 'ledger')).map((delivery) => delivery.attempts);
    // The first is charged for the attempt before anybody knew, and delivered by its second.
    expect(attempts).toEqual([2, ...numbers(2, 25).map(() => 1)]);
  });

  test('a component that joins late gets the older events by a backfill, before the newer ones', async ({
    bus,
    endpoints: [url],
    effects,
  }) => {
    await storedWithoutLedger(bus.db, 1, 10);
    await backfill(bus.db, {
      topic: 'payment.captured',
      subscriber: 'ledger',
      since: new Date(Date.now() - 30 * DAY),
      by: 'kari',
    });
    await emitPayments(bus.db, 11, 15);
    await drainLive(bus.db, attached(url));
    expect(await effects()).toEqual(numbers(1, 15));
  });
});
