import { describe, expect, test } from 'vitest';

import { journeyTable } from '../../dev/journeys.ts';
import type { Journey } from '../../dev/journeys.ts';

const journeyOf = (more: Partial<Journey>): Journey => ({
  eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
  topic: 'webhook.identityprovider.received',
  createdAtMs: 0,
  causationId: null,
  subscriber: 'notifications',
  state: 'delivered',
  attempts: 1,
  deliveredAfterMs: 1204,
  nextAttemptAtMs: null,
  lastError: null,
  isHeldBack: false,
  isUnattached: false,
  ...more,
});

const JOURNEYS = [
  journeyOf({}),
  journeyOf({
    subscriber: 'accounting',
    state: 'failing',
    deliveredAfterMs: null,
    lastError: 'the subscriber answered 500',
    nextAttemptAtMs: 59_000,
  }),
  journeyOf({ subscriber: null, state: 'pending', attempts: 0, deliveredAfterMs: null }),
];

const drawn = (columns: number | null) =>
  journeyTable(JOURNEYS, { write: () => undefined, paint: (_, text) => text, columns }, 0);

describe('the table of the demo’s traffic', () => {
  test('fits a terminal of 80 columns, with the longest topic whole and no word of an error lost', () => {
    const lines = drawn(80).split('\n');
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    expect(lines[1]).toContain('webhook.identityprovider.received  notifications');
    const words = lines.join(' ').replaceAll(/ +/g, ' ');
    expect(words).toContain('! failing why: the subscriber answered 500; next retry in 59 s');
    expect(words).toContain('pending why: awaits its place');
  });

  test('has one line for each delivery, and its attempts, where there is room', () => {
    const lines = drawn(null).split('\n');
    expect(lines).toHaveLength(1 + JOURNEYS.length);
    expect(lines[2]).toMatch(/accounting +1 {2}! failing +the subscriber answered 500; next retry in 59 s$/);
  });
});
