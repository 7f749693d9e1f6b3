import stringWidth from 'string-width';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { lineOf, OutcomesSeen } from '../../cli/follow-events.ts';
import type { Happening } from '../../cli/follow-events.ts';
import { showTimesIn } from '../../lib/console/kit/instants.ts';
import type { Tail, TailItem } from '../../lib/console/tail/read.ts';

beforeAll(() => showTimesIn('UTC'));
afterAll(() => showTimesIn(null));

describe('events --follow', () => {
  const NOW = '2026-11-21T14:30:00.000Z';
  const later = (ms: number) => new Date(Date.parse(NOW) + ms).toISOString();
  const outcome = (position: number, ms: number, topic = 'payment.captured'): TailItem => ({
    at: later(ms),
    outcome: 'failing',
    topic,
    subscriber: 'ledger',
    deliveryId: `3-${position}`,
    eventId: 'e',
    subject: null,
    lastError: { kind: 'http_503', message: 'Service Unavailable' },
    attempts: 2,
    maxAttempts: 5,
    durationMs: 12,
  });
  const tail = (...items: TailItem[]): Tail => ({
    generatedAt: NOW,
    filters: { topic: null, subscriber: 'ledger', outcome: null, limit: 3 },
    relay: 'running',
    items,
  });
  const told = (happened: readonly Happening[]) =>
    happened.map((one) => (one.type === 'outcome' ? one.deliveryId : one.type));
  const pane = (columns: number | null) => ({ columns, paint: (_: string, text: string) => text });
  const [first] = new OutcomesSeen().update(tail(outcome(3, 0)), 1);

  test('writes the newest outcomes, then each new one once, also of a delivery that is tried again', () => {
    const seen = new OutcomesSeen();
    expect(told(seen.update(tail(outcome(3, 30), outcome(2, 20), outcome(1, 10)), 2))).toEqual([
      '3-2',
      '3-3',
    ]);
    expect(seen.update(tail(outcome(3, 30), outcome(2, 20), outcome(1, 10)), 2)).toEqual([]);
    // The one that is tried again leaves its place to an older one, which is not new.
    expect(told(seen.update(tail(outcome(2, 40), outcome(3, 30), outcome(1, 5)), 2))).toEqual(['3-2']);
    expect(told(seen.update(tail(outcome(9, 90), outcome(8, 80), outcome(7, 70)), 2))).toEqual([
      'more_outcomes',
      '3-7',
      '3-8',
      '3-9',
    ]);
  });

  test('writes an outcome once, also of a lane that is not listed while a replay goes before it', () => {
    const seen = new OutcomesSeen();
    expect(told(seen.update(tail(outcome(2, 20), outcome(1, 10)), 2))).toEqual(['3-1', '3-2']);
    expect(seen.update(tail(outcome(2, 20)), 2)).toEqual([]);
    expect(seen.update(tail(outcome(2, 20), outcome(1, 10)), 2)).toEqual([]);
  });

  test('says once that the relay has stopped, and once that it runs again', () => {
    const seen = new OutcomesSeen();
    const stopped = { ...tail(), relay: 'stalled' as const };
    const [happening] = seen.update(stopped, 2);
    expect(lineOf(happening!, pane(null))).toMatch(
      /✗ relay +has stopped: events are saved, but not delivered/,
    );
    expect(seen.update(stopped, 2)).toEqual([]);
    expect(seen.update(tail(), 2)).toMatchObject([{ type: 'relay', state: 'running' }]);
  });

  test('writes each outcome on one line of the terminal', () => {
    expect(lineOf(first!, pane(null))).toBe(
      '14:30:00  ! failing        3-3  payment.captured → ledger  attempt 2 of 5: 503 Service Unavailable',
    );
    const narrow = lineOf(first!, pane(60));
    expect(narrow).toMatch(/^14:30:00 .* 3-3 {2}payment\.captured → ledger.*…$/);
    expect(stringWidth(narrow)).toBeLessThanOrEqual(60);
    const [long] = new OutcomesSeen().update(
      tail(outcome(3, 0, 'notification.preference.of.a.municipality.updated')),
      1,
    );
    expect(lineOf(long!, pane(60))).toMatch(/ 3-3 {2}notifica…updated → /);
  });
});
