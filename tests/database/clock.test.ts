import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';

import { strikeDailyClock } from '../../lib/cron/daily-clock.ts';
import { connect } from '../../lib/db/connect.ts';
import type { Connection } from '../../lib/db/connect.ts';
import { driverOf, run } from '../../lib/db/statement.ts';
import { createDatabase } from '../support/postgres.ts';

let connection: Connection;
beforeAll(async () => {
  connection = await connect(await createDatabase(inject('postgresUrl')));
});
afterAll(() => connection.close());
beforeEach(() => rows('truncate events, awaiting_fan_out'));

const rows = <Row>(text: string) => run<Row>(driverOf(connection.db), { text, values: [] });
const strike = (at: string) => strikeDailyClock(connection.db, new Date(at));
const struck = async () =>
  (await rows<{ day: string }>(`select payload ->> 'day' as day from events order by created_at, seq`)).map(
    ({ day }) => day,
  );

describe('rule 8: cron.daily.06_00 is emitted once a day at 06:00 UTC', () => {
  it('is not emitted before 06:00 on a new database', async () => {
    expect(await strike('2026-11-21T05:59:59.999Z')).toEqual([]);
    expect(await struck()).toEqual([]);
  });

  it('is emitted at 06:00, and not again that day', async () => {
    expect(await strike('2026-11-21T06:00:00Z')).toEqual(['2026-11-21']);
    expect(await strike('2026-11-21T06:01:00Z')).toEqual([]);
    expect(await strike('2026-11-21T23:59:00Z')).toEqual([]);
    expect(await strike('2026-11-22T05:59:00Z')).toEqual([]);
    expect(await struck()).toEqual(['2026-11-21']);
  });

  it('is emitted once by twenty callers at the same moment', async () => {
    await Promise.all(Array.from({ length: 20 }, () => strike('2026-11-21T06:00:00Z')));
    expect(await struck()).toEqual(['2026-11-21']);
  });

  it('is caught up, each missed day with its own event, oldest first', async () => {
    await strike('2026-11-21T06:00:00Z');
    expect(await strike('2026-11-24T09:30:00Z')).toEqual(['2026-11-22', '2026-11-23', '2026-11-24']);
    expect(await struck()).toEqual(['2026-11-21', '2026-11-22', '2026-11-23', '2026-11-24']);
  });

  it('catches up a month at most', async () => {
    await strike('2026-01-01T06:00:00Z');
    const days = await strike('2026-11-21T06:00:00Z');
    expect(days).toHaveLength(31);
    expect(days.at(-1)).toBe('2026-11-21');
  });
});
