import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { ROOT, withChanges } from '../chaos/build.ts';
import { BACK, CRASHES, GONE, KILLED, KNOWING, WOKEN } from '../chaos/history.ts';
import type { DeliveryVersion, History, SubscriberLimits, TimerVersion } from '../chaos/history.ts';
import { MUTATIONS } from '../chaos/mutations.ts';
import { SURROUNDED_MUTATIONS } from '../chaos/surroundings/mutations.ts';
import { A, B, KEY, Story } from '../support/story.ts';

const ok = (t: number) => ({ end: 'ok', t }) as const;

/** Placed, and the lane claimed at 100 until 20,300. */
const claimed = () =>
  new Story()
    .lane(50, 'relay-1', {})
    .delivery(50, 'relay-1', 1)
    .delivery(50, 'relay-1', 2)
    .lane(100, 'relay-1', { token: 'one', dueAt: 20_300 });

/** The first was delivered at 120. */
const half = () => claimed().call(110, 'relay-1', 1, ok(120));

const DELIVERED = { state: 'delivered', attempts: 1, nextAttemptAt: null } as const;
const FREE = { token: null, dueAt: null, head: 2 } as const;

/** Both are settled and the lane is let go. */
const settled = (story: Story, at: number, by: string) =>
  story.lane(at, by, FREE).delivery(at, by, 1, DELIVERED).delivery(at, by, 2, DELIVERED);

const good = () => settled(half().call(121, 'relay-1', 2, ok(130)), 140, 'relay-1');

const replayed = { outcome: 'replayed', attempt: 0 };
const failed = { outcome: 'failed', attempt: 1, kind: 'Error' };

const to = (subscribers: readonly string[]) => {
  const catalog = { 'payment.captured': { subscribers, version: 1 } };
  return { present: catalog, next: catalog };
};

describe('the checker of the chaos runs', () => {
  test('the checker finds nothing in a history that keeps all promises', () => {
    expect(good().broken).toEqual([]);
  });

  test('the checker finds nothing in a history with a retry, a crash, a takeover and a replay', () => {
    const story = claimed()
      .call(110, 'relay-1', 1, { end: 'threw', t: 120 })
      .lane(130, 'relay-1', { token: null, dueAt: 60_120 })
      .delivery(130, 'relay-1', 1, {
        state: 'failing',
        attempts: 1,
        attemptedAt: 110,
        durationMs: 10,
        nextAttemptAt: 60_120,
        log: [failed],
      })
      .lane(60_200, 'relay-1', { token: 'two', dueAt: 80_400 })
      .call(60_210, 'relay-1', 1, ok(60_215), { attempt: 2 })
      .call(60_216, 'relay-1', 2, null)
      .fault(60_220, KILLED, 'relay-1')
      .fault(60_230, GONE, 'relay-1')
      .fault(60_300, 'the clock is moved', '', 21_000)
      .lane(85_000, 'relay-2', { token: 'three', dueAt: 105_200 })
      .call(85_010, 'relay-2', 1, ok(85_020), { attempt: 2 })
      .call(85_021, 'relay-2', 2, ok(85_030));
    settled(story, 85_040, 'relay-2')
      .delivery(90_000, 'operator', 1, { state: 'pending', attempts: 0, replays: 1, log: [failed, replayed] })
      .lane(90_000, 'operator', { head: 0, dueAt: 90_000 })
      .lane(90_010, 'relay-2', { token: 'four', dueAt: 110_210 })
      .call(90_020, 'relay-2', 1, ok(90_030), { replayed: true })
      .lane(90_040, 'relay-2', FREE)
      .delivery(90_040, 'relay-2', 1, DELIVERED);
    expect(story.broken).toEqual([]);
  });

  describe('promise 1, every committed event and no other', () => {
    const events = good().history.events;

    test('the checker condemns a committed event that is gone', () => {
      expect(
        good().ends({ emits: [{ release: 'present', id: 'c', tag: 'event 3', fate: 'committed' }] }).broken,
      ).toEqual(['outcome: event 3 was committed and is gone']);
    });

    test('the checker condemns a rolled-back event that is there, and one that was handed over', () => {
      const emits = [{ release: 'present', id: B, tag: 'event 2', fate: 'rolled back' }] as const;
      expect(good().ends({ emits }).broken).toEqual(['outcome: event 2 was rolled back and is there']);
      expect(good().ends({ emits, events: events.slice(0, 1) }).broken).toContain(
        'outcome: ledger was handed event 2, which was never committed',
      );
    });

    test('the checker accepts an event either way when its commit was left without an answer', () => {
      expect(
        good().ends({ emits: [{ release: 'present', id: B, tag: 'event 2', fate: 'unknown' }] }).broken,
      ).toEqual([]);
    });

    test('the checker condemns an event that never had its place, and a subscriber that was left out', () => {
      expect(good().ends({ markers: 1 }).broken).toEqual(['outcome: 1 events still wait for their places']);
      expect(good().ends({ releases: to(['ledger', 'audit']) }).broken).toEqual([
        'outcome: there is no delivery to audit',
        'outcome: there is no delivery to audit',
      ]);
    });

    test('the checker condemns a delivery to a subscriber that the event was not emitted for', () => {
      expect(good().ends({ releases: to([]) }).broken).toEqual([
        'outcome: there is a delivery to ledger, which the event was not emitted for',
        'outcome: there is a delivery to ledger, which the event was not emitted for',
      ]);
    });

    test('the checker holds an event to the catalog of the release that emitted it', () => {
      const { emits } = good().history;
      const ofNext = emits.map((emit) => ({ ...emit, release: 'next' as const }));
      const releases = { ...to([]), next: to(['ledger']).next };
      expect(good().ends({ releases, emits: ofNext }).broken).toEqual([]);
    });

    test('the checker condemns a delivery that is still open in the end', () => {
      const story = half()
        .lane(140, 'relay-1', { ...FREE, head: 1 })
        .delivery(140, 'relay-1', 1, DELIVERED);
      expect(story.ends({ events: [events[0]!, { ...events[1]!, state: 'pending' }] }).broken).toEqual([
        'outcome: the delivery to ledger is still pending, long after the last fault',
      ]);
    });

    test('the checker condemns a delivery marked delivered though no handler returned', () => {
      const story = settled(half().call(121, 'relay-1', 2, { end: 'threw', t: 130 }), 140, 'relay-1');
      expect(story.broken).toEqual([
        'outcome: it was marked delivered to ledger 1 times, but the handler returned 0 times',
      ]);
    });
  });

  describe('promise 2, in order and one after the other', () => {
    test('the checker condemns a position before an older event', () => {
      const [first, second] = good().history.events;
      const events = [{ ...first!, createdAt: '2031-05-04T10:00:00.000003Z' }, second!];
      expect(good().ends({ events }).broken).toEqual([
        'order: position 2 in the lane of ledger is older than position 1',
      ]);
    });

    test('the checker tells events of the same microsecond by their seq', () => {
      const events = good().history.events.map((event, index) => ({
        ...event,
        createdAt: '2031-05-04T10:00:00.000001Z',
        seq: 10 - index,
      }));
      expect(good().ends({ events }).broken).toEqual([
        'order: position 2 in the lane of ledger is older than position 1',
      ]);
    });

    test('the checker condemns an event that is handed over while the one ahead of it waits for its retry', () => {
      const story = claimed()
        .call(110, 'relay-1', 1, { end: 'threw', t: 120 })
        .call(121, 'relay-1', 2, ok(130))
        .call(131, 'relay-1', 1, ok(140), { attempt: 2 });
      expect(settled(story, 150, 'relay-1').broken).toContain(
        'order: ledger was handed event 2 before the event ahead of it was settled',
      );
    });

    test('the checker takes an event for settled once its own relay or the database knows it', () => {
      const story = () =>
        claimed().call(110, 'relay-1', 1, ok(125)).lane(20_400, 'relay-2', { token: 'two', dueAt: 40_600 });
      const overtakes = 'order: ledger was handed event 2 before the event ahead of it was settled';
      const early = () =>
        story().call(20_410, 'relay-2', 2, ok(20_420)).call(20_421, 'relay-2', 1, ok(20_430));
      expect(settled(early(), 20_440, 'relay-2').broken).toEqual([overtakes]);
      // A crash may have taken the settlement back that relay-2 went by.
      const forgotten = (at: number) =>
        settled(
          early()
            .fault(at, CRASHES)
            .fault(at + 100, BACK),
          20_440,
          'relay-2',
        ).broken;
      expect(forgotten(155)).not.toContain(overtakes);
      expect(forgotten(9155)).toContain(overtakes);
      const late = claimed()
        .call(110, 'relay-1', 1, ok(20_450))
        .lane(20_400, 'relay-2', { token: 'two', dueAt: 40_600 })
        .call(20_410, 'relay-2', 1, ok(20_420))
        .call(20_421, 'relay-2', 2, ok(20_430));
      expect(settled(late, 20_440, 'relay-2').broken).toEqual([]);
    });

    test('the checker lets transactional handlers share a commit, and condemns one that commits before the one ahead of it', () => {
      const effects = [A, B].map((eventId) => ({ eventId, subscriber: 'ledger' }));
      expect(good().withTransactions().ends({ effects }).broken).toEqual([]);
      const story = half()
        .withTransactions()
        .call(121, 'relay-1', 2, ok(130))
        .delivery(140, 'relay-1', 2, DELIVERED)
        .lane(240, 'relay-1', FREE)
        .delivery(240, 'relay-1', 1, DELIVERED);
      expect(story.ends({ effects }).broken).toEqual([
        'order: what ledger made of position 2 was committed before the event ahead of it was settled',
      ]);
    });

    test('the checker condemns two handlers of a lane at once', () => {
      const story = claimed()
        .call(110, 'relay-1', 1, null)
        .call(120, 'relay-1', 1, ok(125))
        .call(126, 'relay-1', 2, ok(130));
      expect(settled(story, 140, 'relay-1').broken).toContain(
        'overlap: relay-1 called ledger with event 1 while relay-1 was at event 1',
      );
    });

    test('the checker condemns a call without a claim, and one after the lease was over', () => {
      expect(settled(half().call(121, 'relay-2', 2, ok(130)), 140, 'relay-1').broken).toContain(
        'holder: relay-2 called ledger without a claim',
      );
      expect(settled(half().call(20_400, 'relay-1', 2, ok(20_410)), 20_420, 'relay-1').broken).toEqual([
        'holder: relay-1 called ledger with event 2 after its lease was over',
      ]);
    });

    test('the checker excuses a relay that was woken just before', () => {
      const story = half().fault(20_350, WOKEN, 'relay-1').call(20_400, 'relay-1', 2, ok(20_410));
      expect(settled(story, 20_420, 'relay-1').broken).toEqual([]);
    });

    test('the checker condemns a lease that is over before the time of the handler is', () => {
      const story = new Story()
        .lane(50, 'relay-1', {})
        .delivery(50, 'relay-1', 1)
        .delivery(50, 'relay-1', 2)
        .lane(100, 'relay-1', { token: 'one', dueAt: 150 })
        .call(110, 'relay-1', 1, null)
        .lane(160, 'relay-2', { token: 'two', dueAt: 20_360 })
        .call(170, 'relay-2', 1, ok(180))
        .call(181, 'relay-2', 2, ok(190));
      expect(settled(story, 200, 'relay-2').broken).toEqual([
        'lease: relay-2 took the lane 50 ms after relay-1 called ledger with event 1, which has 200 ms',
        'overlap: relay-2 called ledger with event 1 while relay-1 was at event 1',
        'overlap: relay-2 called ledger with event 2 while relay-1 was at event 1',
      ]);
    });

    test('the checker condemns a relay that takes a lane which another one holds, and one that settles in it', () => {
      const taken = claimed().lane(105, 'relay-2', { token: 'two', dueAt: 20_305 });
      expect(taken.broken).toContain(
        'holder: relay-2 took the lane of ledger that relay-1 held for another 20195 ms',
      );
      expect(settled(half().call(121, 'relay-1', 2, ok(130)), 140, 'relay-2').broken).toEqual([
        'holder: relay-2 changed the lane of ledger, which relay-1 held',
      ]);
    });
  });

  describe('promise 2, of keys that share a lane', () => {
    const shared = (first: string, second: string) =>
      new Story()
        .lane(50, 'relay-1', {})
        .delivery(50, 'relay-1', 1, { laneKey: first })
        .delivery(50, 'relay-1', 2, { laneKey: second })
        .lane(100, 'relay-1', { token: 'one', dueAt: 20_300 });
    test('the checker lets different keys run side by side and pass each other, and no key overtake itself', () => {
      const sideBySide = (second: string) =>
        settled(
          shared(KEY, second).call(110, 'relay-1', 1, null).call(115, 'relay-1', 2, ok(120)),
          140,
          'relay-1',
        ).broken;
      expect(sideBySide('another key').filter((what) => !what.startsWith('outcome'))).toEqual([]);
      expect(sideBySide(KEY)).toEqual(
        expect.arrayContaining([
          'order: ledger was handed event 2 before the event ahead of it was settled',
          'overlap: relay-1 called ledger with event 2 while relay-1 was at event 1',
        ]),
      );
    });
  });

  describe('promise 3, attempts and waits', () => {
    const failing = {
      state: 'failing',
      attempts: 1,
      attemptedAt: 110,
      durationMs: 10,
      log: [failed],
    } as const;

    test('the checker condemns an attempt too many', () => {
      const story = half().call(121, 'relay-1', 2, ok(130), { attempt: 3 });
      story.lane(140, 'relay-1', FREE).delivery(140, 'relay-1', 1, DELIVERED);
      expect(story.delivery(140, 'relay-1', 2, { ...DELIVERED, attempts: 3 }).broken).toEqual([
        'attempts: ledger was handed event 2 as attempt 3 of 2',
        'attempts: 3 attempts of 2 were recorded',
      ]);
    });

    test('the checker condemns an attempt that failed of another handler’s error', () => {
      for (const kind of ['as_planned', 'not_taken']) {
        const log = [{ ...failed, kind }];
        const innocent = () =>
          settled(half().call(121, 'relay-1', 2, ok(130)), 140, 'relay-1').delivery(150, 'relay-1', 1, {
            log,
          });
        expect(innocent().inBatches().broken).toEqual([
          'attempts: it failed 1 times of what ledger threw, which threw 0 times',
        ]);
      }
    });

    test('the checker excuses a batch whose transaction one of its events broke', () => {
      const log = [{ ...failed, kind: '22012' }];
      const broken = (story: Story) =>
        settled(
          story.call(110, 'relay-1', 1, ok(120)).call(121, 'relay-1', 2, ok(130)),
          140,
          'relay-1',
        ).delivery(150, 'relay-1', 1, { log }).broken;
      expect(broken(claimed().inBatches())).toEqual([]);
      expect(broken(claimed())).toHaveLength(1);
    });

    test('the checker condemns a handler that ends its relay again and again without using up attempts', () => {
      const killing = (log: DeliveryVersion['log']) => {
        const story = claimed()
          .call(110, 'relay-1', 1, { end: 'crashes', t: 115 })
          .lane(20_400, 'relay-2', { token: 'two', dueAt: 40_600 })
          .call(20_410, 'relay-2', 1, { end: 'crashes', t: 20_415 })
          .lane(40_700, 'relay-3', { token: 'three', dueAt: 60_900 })
          .delivery(40_710, 'relay-3', 1, { log });
        return story.call(40_720, 'relay-3', 1, ok(40_730)).call(40_731, 'relay-3', 2, ok(40_740));
      };
      const uncounted = "attempts: ledger ended its relay's process 2 times, of which 0 were recorded";
      const lapsed = { outcome: 'failed', attempt: 1, kind: 'lease_expired' };
      expect(settled(killing([]), 40_750, 'relay-3').broken).toEqual([uncounted]);
      expect(settled(killing([lapsed]), 40_750, 'relay-3').broken).toEqual([]);
      const forgotten = killing([]).fault(20_420, CRASHES).fault(20_430, BACK);
      expect(settled(forgotten, 40_750, 'relay-3').broken).toEqual([]);
    });

    test('the checker condemns a wait that is shorter than the schedule', () => {
      const story = claimed()
        .call(110, 'relay-1', 1, { end: 'threw', t: 120 })
        .delivery(130, 'relay-1', 1, { ...failing, nextAttemptAt: 59_000 });
      expect(story.broken).toContain('wait: after attempt 1 it waits 58880 ms, not 60000');
    });

    test('the checker condemns a call before the time that was stored', () => {
      const story = claimed()
        .call(110, 'relay-1', 1, { end: 'threw', t: 120 })
        .lane(130, 'relay-1', { token: null, dueAt: 60_120 })
        .delivery(130, 'relay-1', 1, { ...failing, nextAttemptAt: 60_120 })
        .lane(30_000, 'relay-1', { token: 'two', dueAt: 50_200 })
        .call(30_010, 'relay-1', 1, ok(30_020), { attempt: 2 });
      expect(story.broken).toContain('wait: ledger was handed event 1 30110 ms too early');
    });

    test('the checker condemns a call before the time that the handler asked for', () => {
      const waited = { outcome: 'waited', attempt: 1, kind: 'RetryAfter' };
      const story = claimed()
        .call(110, 'relay-1', 1, { end: 'waits', t: 120, ms: 9000 })
        .lane(130, 'relay-1', { token: null, dueAt: 3120 })
        .delivery(130, 'relay-1', 1, { nextAttemptAt: 3120, log: [waited] })
        .lane(3200, 'relay-2', { token: 'two', dueAt: 23_400 })
        .call(3210, 'relay-2', 1, ok(3220));
      expect(story.broken).toContain('wait: ledger asked for 9000 ms and was handed event 1 after 3090');
    });
  });

  describe('promise 4, exactly once', () => {
    const effect = (eventId: string) => ({ eventId, subscriber: 'ledger' });
    const transactional = () =>
      claimed()
        .withTransactions()
        .call(110, 'relay-1', 1, ok(120))
        .lane(125, 'relay-1', { head: 1 })
        .delivery(125, 'relay-1', 1, DELIVERED)
        .call(130, 'relay-1', 2, ok(140))
        .lane(145, 'relay-1', FREE)
        .delivery(145, 'relay-1', 2, DELIVERED);

    test('the checker finds nothing when each delivery had its effect', () => {
      expect(transactional().ends({ effects: [effect(A), effect(B)] }).broken).toEqual([]);
    });

    test('the checker condemns a lost, a repeated and an invented effect', () => {
      expect(transactional().ends({ effects: [effect(A)] }).broken).toEqual([
        'effects: it was delivered to ledger 1 times and had its effect 0 times',
      ]);
      expect(transactional().ends({ effects: [effect(A), effect(B), effect(B)] }).broken).toEqual([
        'effects: it was delivered to ledger 1 times and had its effect 2 times',
      ]);
      expect(transactional().ends({ effects: [effect(A), effect(B), effect('c')] }).broken).toEqual([
        'effects: ledger had an effect without a delivery',
      ]);
    });
  });

  describe('promise 5, states', () => {
    test('the checker condemns an event in another state than the worst of its deliveries', () => {
      const [first, second] = good().history.events;
      expect(good().ends({ events: [first!, { ...second!, state: 'failing' }] }).broken).toEqual([
        'consistency: it is failing, and the worst of its deliveries is delivered',
      ]);
    });

    test('the checker condemns an orphan', () => {
      const story = good().ends({ events: good().history.events.slice(1), emits: [] });
      expect(story.broken).toContain(
        'consistency: there is a delivery to ledger of an event that is not there',
      );
    });

    test('the checker passes on contradictions between the tables', () => {
      expect(good().ends({ contradictions: [`counters: ${A}`] }).broken).toEqual([
        `consistency: counters: ${A}`,
      ]);
    });
  });

  describe('promise 6, place and history', () => {
    const back = { state: 'pending', attempts: 0, replays: 1, log: [replayed] } as const;
    const broken = (version: Partial<DeliveryVersion>, more: Partial<DeliveryVersion> = {}) =>
      good()
        .delivery(200, 'operator', 1, version)
        .delivery(210, 'operator', 1, { ...DELIVERED, ...more })
        .broken.filter((what) => what.startsWith('history'));

    test('the checker condemns a replay that loses its history', () => {
      expect(broken(back, { log: [] })).toContain('history: entries of its history are gone');
      expect(broken({ ...back, log: [] })).toContain(
        'history: it was replayed 1 times, and its history has 0 replays',
      );
    });

    test('the checker condemns a replay without fresh attempts, or of an open delivery', () => {
      expect(broken({ ...back, attempts: 1 })).toContain(
        'history: a replay left it pending after 1 attempts',
      );
      const early = claimed().delivery(105, 'operator', 1, back).broken;
      expect(early).toContain('history: it was replayed while it was pending');
    });

    test('the checker condemns a call whose delivery is not there, unless a crash of the database took it back', () => {
      const C = '01900000-0000-7000-8000-00000000000c';
      const story = () => good().call(150, 'relay-1', 3, ok(160), { eventId: C });
      const gone = `history: ledger was handed event 3 as ${C}.ledger, which is not there`;
      expect(story().broken).toContain(gone);
      expect(story().fault(155, CRASHES).fault(300, BACK).broken).not.toContain(gone);
      expect(story().fault(9155, CRASHES).fault(9300, BACK).broken).toContain(gone);
    });

    test('the checker holds a call whose delivery a crash took back to the order of its event', () => {
      const before = new Story().call(20, 'relay-1', 2, ok(25));
      const story = before
        .fault(30, CRASHES)
        .fault(40, BACK)
        .lane(50, 'relay-1', {})
        .delivery(50, 'relay-1', 1)
        .delivery(50, 'relay-1', 2)
        .lane(100, 'relay-1', { token: 'one', dueAt: 20_300 })
        .call(110, 'relay-1', 1, ok(120))
        .call(121, 'relay-1', 2, ok(130));
      expect(settled(story, 140, 'relay-1').broken).toEqual([
        'order: ledger was handed event 2 before the event ahead of it was settled',
      ]);
    });

    test('the checker condemns an end state that is undone without a replay', () => {
      expect(broken({ state: 'dead_lettered' })).toContain(
        'history: it went from delivered to dead_lettered without a replay',
      );
    });
  });

  test('the checker condemns deadlocks', () => {
    expect(good().error(150, 'relay-1', '40P01').broken).toEqual([
      'deadlock: relay-1 was the victim of a deadlock',
    ]);
    const log = [{ outcome: 'failed', attempt: 1, kind: '40P01' }];
    expect(claimed().delivery(120, 'relay-1', 1, { log }).broken).toContain(
      'deadlock: its handler was the victim of a deadlock',
    );
  });

  test('the checker condemns a relay whose process ends by itself, and no other', () => {
    expect(good().fault(150, GONE, 'relay-1').broken).toEqual([
      'survival: the process of relay-1 ended by itself',
    ]);
    expect(good().fault(145, KILLED, 'relay-1').fault(150, GONE, 'relay-1').broken).toEqual([]);
  });

  describe('promise 9, only versions that a release knows', () => {
    test('the checker condemns an older release that was handed a newer version', () => {
      const story = half().call(121, 'relay-1', 2, ok(130), { version: 2 });
      expect(settled(story, 140, 'relay-1').broken).toEqual([
        'version: ledger of the present release was handed event 2 in version 2; it knows 1',
      ]);
    });
  });

  describe('promise 13, no replayed delivery reaches a handler that refuses replays', () => {
    const onceReplayed = (by: string) =>
      good()
        .delivery(200, 'operator', 1, {
          state: 'pending',
          attempts: 0,
          replays: 1,
          log: [{ ...replayed, by }],
        })
        .lane(200, 'operator', { head: 0, dueAt: 200 })
        .lane(210, 'relay-1', { token: 'two', dueAt: 20_410 });
    const refusing = (story: Story) =>
      story.ends({ subscribers: [{ ...good().history.subscribers[0]!, onReplay: 'refuse' }] }).broken;
    const handedOver = (by: string) =>
      onceReplayed(by)
        .call(220, 'relay-1', 1, ok(230), { replayed: true })
        .lane(240, 'relay-1', FREE)
        .delivery(240, 'relay-1', 1, DELIVERED);
    const handed = 'refusal: ledger, which refuses replays, was handed event 1 after one';

    test('the checker condemns a handler that was handed what another release had replayed', () => {
      expect(refusing(handedOver('an operator of another release'))).toEqual([handed]);
    });

    test('the checker condemns a replay that put back what is refused, handed over or not', () => {
      const putBack = 'refusal: a replay put it back for ledger, which refuses replays';
      expect(refusing(handedOver(KNOWING))).toEqual([handed, putBack]);
      const notHandedOver = onceReplayed(KNOWING)
        .lane(240, 'relay-1', FREE)
        .delivery(240, 'relay-1', 1, { state: 'dead_lettered', attempts: 1 })
        .ends({
          events: good().history.events.map((one, n) => (n ? one : { ...one, state: 'dead_lettered' })),
        });
      expect(refusing(notHandedOver)).toEqual([putBack]);
    });

    test('the checker finds nothing in a replay to a handler that runs again', () => {
      expect(handedOver(KNOWING).broken).toEqual([]);
    });
  });

  describe('promise 14, timers', () => {
    const AT = Date.parse('2031-05-04T10:00:00Z');
    const set = (id: string, dueAt: number, timerKey: string | null = null): TimerVersion => ({
      at: 0,
      by: 'producer',
      id,
      topic: 'payment.captured',
      timerKey,
      dueAt,
      isGone: false,
    });
    const gone = (by: string, timer: TimerVersion): TimerVersion => ({ ...timer, by, isGone: true });
    const released = (...timers: readonly TimerVersion[]) => [
      ...timers,
      ...timers.map((timer) => gone('relay-1', timer)),
    ];
    const { events, emits } = good().history;
    /** Both events were timers, and so was a third one that did not happen. */
    const withTimers = (timers: readonly TimerVersion[], more: Partial<History> = {}) =>
      good().ends({
        timers,
        events: events.map((event) => ({ ...event, dueAt: AT - 10 })),
        emits: emits.map((emit) => ({ ...emit, committedAt: 100 })),
        ...more,
      }).broken;
    const THIRD = '01900000-0000-7000-8000-00000000000c';
    const ofA = set(A, AT - 20, 'a key');
    const ofB = set(B, AT - 10);
    const third = set(THIRD, AT - 10, 'a key');
    const emit = { release: 'present', id: THIRD, tag: 'event 3', fate: 'committed' } as const;

    test('the checker finds nothing in timers that are released, moved or cancelled as they should be', () => {
      expect(withTimers([third, ...released(ofA, ofB)], { emits: [...emits, emit] })).toEqual([]);
      const cancels = [
        { topic: 'payment.captured', timerKey: 'a key', wasThere: true, fate: 'committed' },
        { topic: 'payment.captured', timerKey: 'a key', wasThere: true, fate: 'rolled back' },
      ] as const;
      const cancelled = [third, gone('producer', third)];
      expect(withTimers([...cancelled, ...released(ofA, ofB)], { emits: [...emits, emit], cancels })).toEqual(
        [],
      );
    });

    test('the checker condemns a timer that was cancelled or moved and happened all the same', () => {
      expect(withTimers([ofA, gone('producer', ofA), ...released(ofB)])).toEqual([
        'timer: its timer was cancelled, and it happened all the same',
      ]);
      expect(withTimers([ofA, third, gone('producer', third), ...released(ofB)])).toEqual([
        'timer: its timer was moved, and it happened all the same',
      ]);
    });

    test('the checker condemns a timer that was lost, one that is never released, and an event of none', () => {
      expect(withTimers(released(ofA, ofB, third))).toEqual([
        'timer: its timer was released, and there is no event',
      ]);
      expect(withTimers([...released(ofA, ofB), third])).toEqual([
        'timer: its timer is still set, long after its time',
      ]);
      expect(withTimers(released(ofA))).toEqual(['timer: no timer was set for it']);
    });

    test('the checker condemns an event before its time', () => {
      expect(withTimers(released(set(A, AT + 30), set(B, AT + 40)))).toEqual([
        'timer: it happened 30 ms before its time',
        'timer: it happened 40 ms before its time',
      ]);
    });

    test('the checker condemns a timer that passes an earlier one which had been committed long before', () => {
      const timers = released(set(A, AT - 10), set(B, AT - 20));
      expect(withTimers(timers)).toEqual(['timer: it happened before event 2, whose time was 10 ms earlier']);
      const lately = emits.map((one) => ({ ...one, committedAt: AT }));
      expect(withTimers(timers, { emits: lately })).toEqual([]);
    });

    test('the checker condemns a cancellation that said it had cancelled, and deleted nothing', () => {
      const said = { topic: 'payment.captured', timerKey: 'b', wasThere: true, fate: 'committed' } as const;
      expect(withTimers(released(ofA, ofB), { cancels: [said] })).toEqual([
        'timer: timers of payment.captured b were cancelled 1 times, and 0 were deleted',
      ]);
    });
  });

  describe('promise 15, limits of subscribers', () => {
    const limitedTo = (story: Story, limits: Partial<SubscriberLimits>) =>
      story.ends({ subscribers: [{ ...good().history.subscribers[0]!, ...limits }] }).broken;

    test('the checker condemns more deliveries at once than a rate allows, and lets it catch up with time', () => {
      expect(limitedTo(good(), { rate: '40/m' })).toEqual([]);
      expect(limitedTo(good(), { rate: '20/m' })).toEqual([
        'rate: 2 deliveries to ledger were claimed within 0 ms, at 20/m',
      ]);
      const claimedAgainAt = (at: number) =>
        settled(
          half()
            .lane(130, 'relay-1', { token: null, dueAt: 130, head: 1 })
            .delivery(130, 'relay-1', 1, DELIVERED)
            .lane(at, 'relay-2', { token: 'two', dueAt: at + 20_200 })
            .call(at + 10, 'relay-2', 2, ok(at + 20)),
          at + 30,
          'relay-2',
        );
      expect(limitedTo(claimedAgainAt(3100), { rate: '20/m' })).toEqual([]);
      expect(limitedTo(claimedAgainAt(3000), { rate: '20/m' })).toEqual([
        'rate: 2 deliveries to ledger were claimed within 2900 ms, at 20/m',
      ]);
    });

    test('the checker condemns more handlers at once than a concurrency allows', () => {
      const sideBySide = () =>
        new Story()
          .lane(50, 'relay-1', {})
          .delivery(50, 'relay-1', 1, { laneKey: KEY })
          .delivery(50, 'relay-1', 2, { laneKey: 'another key' })
          .lane(100, 'relay-1', { token: 'one', dueAt: 20_300 })
          .call(110, 'relay-1', 1, null)
          .call(115, 'relay-1', 2, ok(120));
      const found = (concurrency: number) =>
        limitedTo(settled(sideBySide(), 140, 'relay-1'), { concurrency }).filter(
          (what) => !what.startsWith('outcome'),
        );
      expect(found(2)).toEqual([]);
      expect(found(1)).toEqual([
        'concurrency: relay-1 called ledger with event 2 while 1 of its handlers ran, which may be 1',
      ]);
    });
  });
});

describe('the mutations of the chaos runs', () => {
  test.each([...MUTATIONS, ...SURROUNDED_MUTATIONS])(
    'the mutation $name fits the code that runs, in one place for each change',
    ({ changes }) => {
      for (const file of new Set(changes.map((change) => change.file))) {
        const text = readFileSync(join(ROOT, file), 'utf8');
        expect(withChanges(text, file, changes)).not.toBe(text);
      }
    },
  );
});
