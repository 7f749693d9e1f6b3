import stringWidth from 'string-width';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { lineOf } from '../../cli/commands/tail.ts';
import {
  DeadLettersSeen,
  HeldLanesSeen,
  OutcomesSeen,
  changesBetween,
  grown,
  haveFailuresChanged,
} from '../../cli/happenings.ts';
import type { Happening } from '../../cli/happenings.ts';
import type { DeadLetterItem } from '../../lib/console/dead-letters/fields.ts';
import { showTimesIn } from '../../lib/console/kit/instants.ts';
import type { HeldLane } from '../../lib/console/held-lanes/held-lane.ts';
import type { Overview } from '../../lib/console/overview/read.ts';
import type { Tail, TailItem } from '../../lib/console/tail/read.ts';
import { HOUR } from '../../lib/platform/time.ts';

beforeAll(() => showTimesIn('UTC'));
afterAll(() => showTimesIn(null));

describe('what tail tells', () => {
  const NOW = '2026-11-21T14:30:00.000Z';
  const ledger = {
    subscriber: 'ledger',
    inCatalog: true,
    neededVersion: null,
    pending: 0,
    failing: 0,
    deadLettered: 0,
    attached: true,
    paused: false,
    pause: null,
    outage: null,
    haltedLanes: 0,
    oldestDueAgeSeconds: null,
    nextRetryAt: null,
    lastDeliveredAt: null,
    lastFailedAt: null,
  };
  const topic = {
    topic: 'payment.captured',
    producer: 'payments',
    inCatalog: true,
    pending: 0,
    failing: 0,
    deadLettered: 0,
    oldestDueAgeSeconds: null,
    nextRetryAt: null,
    awaitingPlace: 0,
    heldBackSince: null,
    heldBackBy: null,
    hours: { delivered: [], deadLettered: [] },
  };
  const hoursOf = (...newest: number[]) => [
    ...Array.from({ length: 24 - newest.length }, () => 1),
    ...newest,
  ];
  const view = (
    changes: Partial<Overview> = {},
    subscriber: object = {},
    ofTopic: object = {},
  ): Overview => ({
    generatedAt: NOW,
    relay: { state: 'running', lastPassAt: NOW, runsHere: true, lagSeconds: 0 },
    totals: {
      pending: 0,
      failing: 0,
      deadLettered: 0,
      deliveries: { pending: 0, failing: 0, deadLettered: 0 },
      deliveredLast24h: 0,
      replaysLast24h: { delivered: 0, deadLettered: 0 },
      deliveredShareLast24h: null,
    },
    hours: { delivered: hoursOf(5, 7), deadLettered: hoursOf() },
    incidents: [],
    incidentCounts: { happening: 0, owed: 0 },
    oldestSnapshot: null,
    topics: [{ ...topic, ...ofTopic, subscribers: [{ ...ledger, ...subscriber }] }],
    ...changes,
  });
  const later = (ms: number) => new Date(Date.parse(NOW) + ms).toISOString();
  const delivered = (...newest: number[]) => ({ delivered: hoursOf(...newest), deadLettered: hoursOf() });

  test('tail writes nothing where nothing has moved', () => {
    expect(changesBetween(view(), view({ generatedAt: later(2000) }))).toEqual([]);
  });

  test('tail writes deliveries a second, also across a full hour', () => {
    const sameHour = view({ generatedAt: later(2000), hours: delivered(5, 13) });
    expect(changesBetween(view(), sameHour)).toMatchObject([{ type: 'counts', deliveriesPerSecond: 3 }]);
    // The hour that was the newest, with 7, ended with 9, and 4 have come since.
    const nextHour = view({ generatedAt: later(HOUR), hours: delivered(5, 9, 4) });
    expect(grown(view(), nextHour, 'delivered')).toBe(6);
    const twoDaysOn = view({ generatedAt: later(48 * HOUR), hours: delivered(2, 3) });
    expect(grown(view(), twoDaysOn, 'delivered')).toBe(22 + 5);
  });

  test('tail writes a stopped relay, a pause, and a held-back topic', () => {
    const relay = { state: 'stalled', lastPassAt: NOW, runsHere: true, lagSeconds: 0 } as const;
    const troubled = view({ relay }, { paused: true }, { heldBackSince: NOW });
    expect(changesBetween(view(), troubled).map(({ type }) => type)).toEqual([
      'relay',
      'held_back',
      'paused',
    ]);
    expect(changesBetween(troubled, view()).map(({ type }) => type)).toEqual([
      'relay',
      'no_longer_held_back',
      'resumed',
    ]);
  });

  const item = (deliveryId: string, deadLetteredAt: string) =>
    ({ deliveryId, deadLetteredAt }) as DeadLetterItem;

  test('tail writes a dead letter once, and again when it died again', () => {
    const seen = new DeadLettersSeen([item('1-9', later(9)), item('1-5', later(5))], false);
    expect(seen.isNew(item('1-9', later(9)))).toBe(false);
    expect(seen.isNew(item('1-2', later(2)))).toBe(false);
    // Its transaction ended later than that of one which died after it.
    expect(seen.isNew(item('1-7', later(7)))).toBe(true);
    expect(seen.isNew(item('1-9', later(90)))).toBe(true);
    seen.add(item('1-9', later(90)));
    expect(seen.isNew(item('1-9', later(90)))).toBe(false);
    expect(new DeadLettersSeen([], true).isNew(item('1-1', later(1)))).toBe(true);
  });

  const outcome = (position: number, at: number): TailItem => ({
    at: later(at),
    outcome: 'failing',
    topic: 'payment.captured',
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
    items,
  });
  const told = (happened: readonly Happening[]) =>
    happened.map((one) => (one.type === 'outcome' ? one.deliveryId : one.type));

  test('tail with a filter writes the newest outcomes, then each new one once, also of a delivery that is tried again', () => {
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
    const pane = { columns: null, paint: (_: string, text: string) => text };
    const [first] = new OutcomesSeen().update(tail(outcome(3, 0)), 1);
    expect(lineOf(first!, pane)).toBe(
      '14:30:00  ! failing        3-3  payment.captured → ledger  attempt 2 of 5: 503 Service Unavailable',
    );
  });

  test('tail with a filter writes an outcome once, also of a lane that is not listed while a replay goes before it', () => {
    const seen = new OutcomesSeen();
    expect(told(seen.update(tail(outcome(2, 20), outcome(1, 10)), 2))).toEqual(['3-1', '3-2']);
    expect(seen.update(tail(outcome(2, 20)), 2)).toEqual([]);
    expect(seen.update(tail(outcome(2, 20), outcome(1, 10)), 2)).toEqual([]);
  });

  const lane = (attempts: number): HeldLane => ({
    topic: 'payment.captured',
    subscriber: 'ledger',
    orderingKey: '',
    deliveryId: '3-4',
    eventId: 'e',
    subject: null,
    attempts,
    maxAttempts: 5,
    nextAttemptAt: later(60_000),
    lastError: { kind: 'http_503', message: 'Service Unavailable' },
    behind: 2,
    isMoreBehind: false,
  });

  test('tail writes each attempt of a failing lane, and its recovery', () => {
    const failing = view({}, { failing: 1, lastFailedAt: NOW });
    const lanes = new HeldLanesSeen();
    expect(haveFailuresChanged(view(), failing, 'payment.captured')).toBe(true);
    expect(haveFailuresChanged(failing, failing, 'payment.captured')).toBe(false);
    expect(lanes.update('payment.captured', [lane(1)], failing)).toMatchObject([
      { type: 'failing_lane', attempts: 1 },
    ]);
    expect(lanes.update('payment.captured', [lane(1)], failing)).toEqual([]);
    // While it is tried it is not listed: it has not been delivered yet.
    expect(lanes.update('payment.captured', [], failing)).toEqual([]);
    expect(lanes.update('payment.captured', [lane(2)], failing)).toMatchObject([{ attempts: 2 }]);
    expect(lanes.update('payment.captured', [], view())).toMatchObject([
      { type: 'flowing_lane', subscriber: 'ledger' },
    ]);
  });

  test('tail writes each thing on one line of the terminal', () => {
    const pane = (columns: number | null) => ({ columns, paint: (_: string, text: string) => text });
    const happening = { at: NOW, type: 'failing_lane', ...lane(1) } as const;
    expect(lineOf(happening, pane(null))).toBe(
      '14:30:00  ! failing        3-4  payment.captured → ledger  attempt 1 of 5: 503 Service Unavailable; next in 1 min, 2 behind it',
    );
    const narrow = lineOf(happening, pane(60));
    expect(narrow).toMatch(/^14:30:00 .* 3-4 {2}payment\.captured → ledger.*…$/);
    const long = { ...happening, topic: 'notification.preference.of.a.municipality.updated' };
    expect(lineOf(long, pane(60))).toMatch(/ 3-4 {2}notifica…updated → /);
    expect(stringWidth(narrow)).toBeLessThanOrEqual(60);
    const counts = { at: NOW, type: 'counts', pending: 1, failing: 0, deadLettered: 1204 } as const;
    expect(lineOf({ ...counts, deliveriesPerSecond: 0 }, pane(null))).toBe(
      '14:30:00  · counts         1 event pending, 0 failing, 1,204 dead-lettered',
    );
    expect(lineOf({ ...counts, deliveriesPerSecond: 48.5 }, pane(null))).toContain('; 48.5 deliveries/s');
  });
});
