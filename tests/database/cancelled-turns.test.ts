import { expect, inject } from 'vitest';

import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { contradictions, numbers, rows, storeBacklog } from '../support/bus.ts';
import { test } from '../support/output-test.ts';
import { createDatabase } from '../support/postgres.ts';

/** Where a turn writes a row for each event, or for each delivery with a story. */
const TABLES = ['log', 'exceptions'];

/** A real limit, and a disk that needs a fifth of a millisecond for each row that is written or changed. */
const BY_TIME = `
  create function wait_for_disk() returns trigger language plpgsql as
    $$ begin perform pg_sleep(0.0002); return new; end $$;
  ${TABLES.map(
    (table) => `create trigger slow_disk before insert or update on ${table}
      for each row execute function wait_for_disk();`,
  ).join('')}
  do $$ begin execute format('alter database %I set statement_timeout = ''200ms''', current_database()); end $$`;

/** What the limit of a slow database does, without the time that it takes. */
const BY_SIZE = `
  create function cancel() returns trigger language plpgsql as $$
  begin
    if (select count(*) from written) > 300 then raise query_canceled; end if;
    return null;
  end $$;
  ${TABLES.map(
    (table) => `create trigger limit_inserts after insert on ${table} referencing new table as written
      for each statement execute function cancel();
    create trigger limit_updates after update on ${table} referencing new table as written
      for each statement execute function cancel();`,
  ).join('')}`;

test.for([
  { count: 800, limit: 'take 200 ms', by: BY_TIME, lanes: 'one lane', keys: 0, limits: {} },
  { count: 20_000, limit: 'write 300 rows', by: BY_SIZE, lanes: 'one lane', keys: 0, limits: {} },
  { count: 20_000, limit: 'write 300 rows', by: BY_SIZE, lanes: 'eight keys', keys: 8, limits: {} },
  {
    count: 8000,
    limit: 'write 300 rows',
    by: BY_SIZE,
    lanes: 'a limited subscriber',
    keys: 8,
    limits: { concurrency: 8 },
  },
])(
  'a database that cancels statements which $limit is given less in a turn: $count waiting events of $lanes arrive in order',
  async ({ count, by, keys, limits }, { output }) => {
    const url = await createDatabase(inject('postgresUrl'));
    const before = await connect(url);
    await storeBacklog(before.db, 'clock.invoice_run.due', count, keys);
    await rows(before.db, by);
    const { db, close } = await connect(url);
    const handed = new Map<string, number[]>();
    const handle = ({ orderingKey, payload }: BusEvent) => {
      const { amountMinor: number } = payload as unknown as { amountMinor: number };
      const own = handed.get(orderingKey);
      if (own) own.push(number);
      else handed.set(orderingKey, [number]);
      if (number % 400 === 0) throw new PermanentError('never');
    };
    const invoicing = subscriber('invoicing', { 'clock.invoice_run.due': handle }, limits);
    const report = await relay({ db, subscribers: [invoicing], until: Date.now() + 80 * SECOND });
    expect(report).toMatchObject({
      placed: count,
      delivered: count - count / 400,
      deadLettered: count / 400,
      leasesLost: 0,
    });
    for (const [, own] of handed) expect(own).toEqual(own.toSorted((one, other) => one - other));
    expect([...handed.values()].flat().toSorted((one, other) => one - other)).toEqual(numbers(1, count));
    expect(output.linesOf('a turn of the relay took too long; the next ones do less').length).toBeGreaterThan(
      1,
    );
    await close();
    expect(await contradictions(before.db)).toEqual([]);
    await before.close();
  },
);
