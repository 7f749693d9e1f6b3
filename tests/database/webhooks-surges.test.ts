import type pg from 'pg';
import { describe, expect, inject } from 'vitest';

import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { duties } from '../../lib/edge/cron/duties.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { emitSurges } from '../../lib/edge/webhooks/surges.ts';
import { providers } from '../../lib/platform/config.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { DAY, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { onConnectionsOf, rows, rowsRead } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { createDatabase } from '../support/postgres.ts';

const TODAY = '2026-11-21';
const NOON = new Date(`${TODAY}T12:00:00Z`);

describe('webhook.rejections.surged', () => {
  test('is emitted when the refusals of a day reach 20, not at 19, and says how many, why and since when', async ({
    bus,
    output,
  }) => {
    await refuse(bus, 19);
    expect(await look(bus)).toEqual([]);
    await refuse(bus, 1);
    expect(await look(bus)).toEqual([`cardpayments signature_mismatch ${TODAY} 20`]);
    expect(await surges(bus)).toEqual([
      {
        provider: 'cardpayments',
        reason: 'signature_mismatch',
        rejected: 20,
        fromAt: `${TODAY}T00:00:00.000Z`,
        untilAt: `${TODAY}T11:00:00.000Z`,
      },
    ]);
    expect(output.text()).toContain('"message":"refusals of webhooks have surged"');
  });

  test('is emitted again at ten times as many, each step once, and not in between', async ({ bus }) => {
    const steps: string[] = [];
    for (const more of [20, 1, 178, 1, 1799, 0, 1, 0]) {
      await refuse(bus, more);
      steps.push((await look(bus)).map((key) => key.split(' ').at(-1)).join());
    }
    expect(steps).toEqual(['20', '', '', '200', '', '', '2000', '']);
    expect((await surges(bus)).map(({ rejected }) => rejected)).toEqual([20, 200, 2000]);
  });

  test('goes straight to the highest step that was passed since the last look', async ({ bus }) => {
    await refuse(bus, 2500);
    expect(await look(bus)).toEqual([`cardpayments signature_mismatch ${TODAY} 2000`]);
    await refuse(bus, 1);
    expect(await look(bus)).toEqual([]);
  });

  test.for([
    ['as on every day of the week before', [40, 40, 40, 40, 40, 40, 40], 40, 0],
    ['a little under three times the mean', [40, 40, 40, 40, 40, 40, 40], 119, 0],
    ['three times the mean', [40, 40, 40, 40, 40, 40, 40], 120, 1],
    ['after one bad day in an otherwise quiet week', [0, 0, 30, 0, 0, 0, 0], 30, 1],
    ['after a day that was worse, more than a week ago', [0, 0, 0, 0, 0, 0, 0, 9000], 20, 1],
  ] as const)('measures a day against the week before: %s', async ([, before, today, emitted], { bus }) => {
    // Yesterday's own surge is not what is asked about.
    await rows(
      bus.db,
      `insert into events (id, topic, payload, version, producer, ordering_key, dedupe_key, created_at,
        correlation_id, subscribers)
      select gen_random_uuid(), 'webhook.rejections.surged', '{}', 1, 'http', '',
        concat_ws(' ', 'cardpayments', 'signature_mismatch', '${dayBefore(1)}', 20), now(), '', '{}'`,
    );
    for (const [index, count] of before.entries()) await refuse(bus, count, { day: dayBefore(index + 1) });
    await refuse(bus, today);
    expect(await look(bus)).toHaveLength(emitted);
  });

  test('counts and names each endpoint and reason apart', async ({ bus }) => {
    await refuse(bus, 19, { reason: 'missing_header' });
    await refuse(bus, 19, { provider: 'walletpayments' });
    expect(await look(bus)).toEqual([]);
    await refuse(bus, 1, { reason: 'missing_header' });
    await refuse(bus, 1, { provider: 'walletpayments' });
    await refuse(bus, 19, { provider: 'cardpayments_2' });
    await refuse(bus, 1, { provider: 'cardpayments_2' });
    expect(await look(bus)).toEqual([
      `cardpayments missing_header ${TODAY} 20`,
      `cardpayments_2 signature_mismatch ${TODAY} 20`,
      `walletpayments signature_mismatch ${TODAY} 20`,
    ]);
  });

  test.for(['unknown', 'a-provider-of-yesteryear'])('is not emitted for %s', async (provider, { bus }) => {
    await refuse(bus, 1_000_000, { provider });
    expect(await look(bus)).toEqual([]);
  });

  test('is emitted the next day for refusals after the last look, and not later', async ({ bus }) => {
    await refuse(bus, 20);
    const later = (days: number) => emitSurges(bus.db, new Date(NOON.getTime() + days * DAY));
    expect(await later(2)).toEqual([]);
    expect(await later(1)).toEqual([`cardpayments signature_mismatch ${TODAY} 20`]);
    expect(await later(1)).toEqual([]);
  });

  test('is emitted once by twenty callers over two connections at the same moment', async ({ bus }) => {
    const other = await connect(bus.url);
    for (const provider of providers) await refuse(bus, 20, { provider });
    const callers = Array.from({ length: 20 }, (_, index) => (index % 2 ? other.db : bus.db));
    await Promise.all(callers.map((db) => emitSurges(db, NOON)));
    await other.close();
    expect((await surges(bus)).map(({ provider }) => provider).sort()).toEqual([...providers].sort());
  });

  test('is emitted for several providers in one transaction: for all of them or for none', async ({
    bus,
  }) => {
    for (const provider of providers) await refuse(bus, 20, { provider });
    await rows(
      bus.db,
      `alter table events add constraint none_of_wallets check (dedupe_key not like 'wallet%')`,
    );
    await expect(look(bus)).rejects.toMatchObject({ code: '23514' });
    expect(await surges(bus)).toEqual([]);
    await rows(bus.db, 'alter table events drop constraint none_of_wallets');
    expect(await look(bus)).toHaveLength(providers.length);
  });

  test('stays a trickle in a flood: seven events for a hundred million refusals', async ({ bus }) => {
    for (let count = 1; count <= 100_000_000; count *= 10) {
      await rows(bus.db, 'delete from webhook_rejections');
      await refuse(bus, count);
      for (let times = 0; times < 3; times += 1) await look(bus);
    }
    expect(await surges(bus)).toHaveLength(7);
  });

  test('is emitted and delivered by the cron, once even if runs overlap', async ({ bus }) => {
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at)
       values ('walletpayments', 'signature_mismatch', (now() at time zone 'utc')::date, 20, now())`,
    );
    const handed: string[] = [];
    const audit = subscriber('audit', {
      'webhook.rejections.surged': ({ payload }) => void handed.push(payload.provider),
    });
    const cron = () => runCron({ db: bus.db, subscribers: [audit], duties, budgetMs: 2.9 * SECOND });
    await Promise.all([cron(), cron(), cron()]);
    // One that was just being emitted is left to the next.
    await cron();
    expect(handed).toEqual(['walletpayments']);
    expect(await surges(bus)).toHaveLength(1);
  });

  test("follows from the endpoint's counts, by the database’s own clock", async ({ bus }) => {
    const rejections = new Rejections(async () => bus.db);
    for (let times = 0; times < 20; times += 1) rejections.count('identityprovider', 'missing_header');
    await rejections.flush();
    await emitSurges(bus.db);
    expect(await surges(bus)).toMatchObject([
      { provider: 'identityprovider', reason: 'missing_header', rejected: 20 },
    ]);
  });

  test('reads each count once, and writes nothing while nothing has surged, beside ten years of counts', async ({
    output,
  }) => {
    const own = await createDatabase(inject('postgresUrl'));
    const read = () => rowsRead(own, 'webhook_rejections');
    const days = 3653;
    await onConnectionsOf(own, async ({ $client }) => {
      await run($client as pg.Pool, {
        text: `insert into webhook_rejections (provider, reason, day, count, last_at)
          select provider, 'reason_' || reason, day::date, 19, day
          from unnest(array['cardpayments', 'walletpayments', 'identityprovider']) provider, generate_series(1, 10) reason,
            generate_series($1::timestamptz - $2::int * interval '1 day', $1, '1 day') day`,
        values: [NOON, days - 1],
      });
    });
    const before = await read();
    await onConnectionsOf(own, async (db) => {
      expect(await emitSurges(db, NOON)).toEqual([]);
    });
    expect((await read()) - before).toBeLessThanOrEqual(30 * days);
    expect(output.text()).toBe('');
  });
});

async function look(bus: Bus): Promise<string[]> {
  return await emitSurges(bus.db, NOON);
}

interface Refused {
  readonly provider?: string;
  readonly reason?: string;
  readonly day?: string;
}

/** Counts so many more. */
async function refuse(
  bus: Bus,
  count: number,
  { provider = 'cardpayments', reason = 'signature_mismatch', day = TODAY }: Refused = {},
): Promise<void> {
  await rows(
    bus.db,
    `insert into webhook_rejections as known (provider, reason, day, count, last_at) values ($1, $2, $3, $4, $5)
     on conflict (provider, reason, day) do update set count = known.count + excluded.count`,
    [provider, reason, day, count, `${day}T11:00:00Z`],
  );
}

interface Surged {
  readonly provider: string;
  readonly rejected: number;
}

async function surges(bus: Bus): Promise<Surged[]> {
  const found = await rows<{ payload: Surged }>(
    bus.db,
    `select payload from events where topic = 'webhook.rejections.surged' order by created_at, seq`,
  );
  return found.map(({ payload }) => payload);
}

function dayBefore(days: number): string {
  return new Date(NOON.getTime() - days * DAY).toISOString().slice(0, 10);
}
