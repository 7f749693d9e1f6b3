import { describe, expect } from 'vitest';

import { strikeDailyClock } from '../../lib/edge/cron/daily-clock.ts';
import { test } from '../support/bus-test.ts';
import { rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';

const strike = (bus: Bus, at: string) => strikeDailyClock(bus.db, new Date(at));

/** The days that were struck, oldest first. */
const struck = async (bus: Bus) =>
  (
    await rows<{ day: string }>(
      bus.db,
      "select payload ->> 'day' as day from events order by created_at, seq",
    )
  ).map(({ day }) => day);

describe('the daily event of 06:00 UTC (rule 8)', () => {
  test('is not emitted before 06:00 on a new database', async ({ bus }) => {
    expect(await strike(bus, '2026-11-21T05:59:59.999Z')).toEqual([]);
    expect(await struck(bus)).toEqual([]);
  });

  test('is emitted at 06:00, and not again that day', async ({ bus }) => {
    expect(await strike(bus, '2026-11-21T06:00:00Z')).toEqual(['2026-11-21']);
    for (const later of ['2026-11-21T06:01:00Z', '2026-11-21T23:59:00Z', '2026-11-22T05:59:00Z'])
      expect(await strike(bus, later)).toEqual([]);
    expect(await struck(bus)).toEqual(['2026-11-21']);
  });

  test('is emitted once when twenty callers come at the same moment', async ({ bus }) => {
    await Promise.all(Array.from({ length: 20 }, () => strike(bus, '2026-11-21T06:00:00Z')));
    expect(await struck(bus)).toEqual(['2026-11-21']);
  });

  test('is emitted for each missed day, oldest first', async ({ bus }) => {
    await strike(bus, '2026-11-21T06:00:00Z');
    expect(await strike(bus, '2026-11-24T09:30:00Z')).toEqual(['2026-11-22', '2026-11-23', '2026-11-24']);
    expect(await struck(bus)).toEqual(['2026-11-21', '2026-11-22', '2026-11-23', '2026-11-24']);
  });

  test('is emitted for at most 31 missed days', async ({ bus }) => {
    await strike(bus, '2026-01-01T06:00:00Z');
    const days = await strike(bus, '2026-11-21T06:00:00Z');
    expect(days).toHaveLength(31);
    expect(days.at(-1)).toBe('2026-11-21');
  });

  test('is emitted on its day although a clock that was a year ahead has emitted later days', async ({
    bus,
  }) => {
    await strike(bus, '2026-11-21T06:00:00Z');
    const early = await strike(bus, '2027-11-21T06:00:00Z');
    expect(await strike(bus, '2026-11-22T06:00:00Z')).toEqual(['2026-11-22']);
    expect(await strike(bus, '2026-11-22T06:01:00Z')).toEqual([]);
    await strike(bus, early[0]! + 'T06:00:00Z');
    expect((await struck(bus)).filter((day) => day === '2026-11-22' || day === early[0])).toHaveLength(2);
  });
});
