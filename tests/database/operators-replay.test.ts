import { describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { replayRequest } from '../../lib/console/kit/replay-request.ts';
import type { ReplayRequest } from '../../lib/bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { CountChanged } from '../../lib/bus/deliveries/refusals.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { deadLetterQuery } from '../../lib/console/dead-letters/fields.ts';
import { readDeadLetters } from '../../lib/console/dead-letters/read.ts';
import { asForm } from '../../lib/console/kit/shapes.ts';
import { previewReplay } from '../../lib/console/replays/preview.ts';
import { logQuery, readOperatorLog } from '../../lib/console/replays/log.ts';
import { readReplay } from '../../lib/console/replays/progress.ts';
import { HOUR } from '../../lib/platform/time.ts';
import {
  contradictions,
  drain,
  drainLive,
  emitPayments,
  payloadOf,
  rows,
  emitAlone,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, countDeliveries, deliveryIdsOf } from '../support/records.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';

type Name = 'ledger' | 'accounting' | 'notifications';

/** Refuses payments for a reason. */
const refusing = (name: Name = 'ledger', reason: (number: number) => string = () => 'refused') =>
  subscriber(name, {
    'payment.captured': (event) => {
      throw new PermanentError(reason(event.payload.amountMinor));
    },
  });
const well = (name: Name = 'ledger', handed: number[] = []) =>
  subscriber(name, { 'payment.captured': (event) => void handed.push(event.payload.amountMinor) });

/** With the real clock: a preview has no other. */
const live = (bus: Bus, attached: readonly AttachedSubscriber[]) => drainLive(bus.db, attached);

const asked = (request: Partial<ReplayRequest> = {}) =>
  replayRequest.parse({ topic: 'payment.captured', since: '1h', ...request });
const preview = (
  bus: Bus,
  request: Partial<ReplayRequest> = {},
  attached: readonly AttachedSubscriber[] = [well()],
) => previewReplay(bus.db, attached, asked(request));
const ask = (bus: Bus, request: Partial<ReplayRequest> = {}, by = 'kari') =>
  replay(bus.db, { topic: 'payment.captured', since: '1h', ...request }, by);

const letters = (bus: Bus, of = 'ledger') => deliveryIdsOf(bus.db, of, 'dead_lettered');

const pendingOf = (bus: Bus, of: string) =>
  countDeliveries(bus.db, `subscriber = $1 and state = 'pending' and replays > 0`, [of]);

describe('a preview', () => {
  test('says how many deliveries match, for which subscribers and from when, and changes nothing', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await live(bus, [refusing(), refusing('accounting')]);
    const view = await preview(bus);
    expect(view).toMatchObject({ matched: 8, error: null });
    expect(view.subscriptions.map(({ topic, subscriber: name, count }) => [topic, name, count])).toEqual([
      ['payment.captured', 'accounting', 4],
      ['payment.captured', 'ledger', 4],
    ]);
    const [truth] = await rows<Record<string, number>>(
      bus.db,
      `select (extract(epoch from min(dead_lettered_at)) * 1000)::float8 as "firstAt",
         (extract(epoch from max(dead_lettered_at)) * 1000)::float8 as "lastAt"
       from ${RECORDS} where dead_lettered_at is not null`,
    );
    const isos = Object.fromEntries(
      Object.entries(truth!).map(([name, ms]) => [name, new Date(ms).toISOString()]),
    );
    expect(view).toMatchObject(isos);
    expect(await letters(bus)).toHaveLength(4);
    expect(await rows(bus.db, 'select from replays')).toEqual([]);
  });

  test('of no match says so', async ({ bus }) => {
    expect(await preview(bus)).toMatchObject({
      matched: 0,
      subscriptions: [],
      firstAt: null,
      lastAt: null,
      request: { expectedCount: 0 },
    });
  });

  test('says which subscribers are unattached, paused or still failing', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await live(bus, [well('notifications')]);
    await emitPayments(bus.db, 2, 2);
    await live(bus, [refusing('ledger'), refusing('accounting'), refusing('notifications')]);
    await emitPayments(bus.db, 3, 3);
    await live(bus, [well('accounting')]);
    await pause(bus.db, { subscriber: 'notifications', topic: null }, 'kari', 'moving house');
    const { subscriptions } = await preview(bus, {}, [well('ledger'), well('notifications')]);
    expect(
      subscriptions.map(({ subscriber: name, attached, paused, isStillFailing }) => [
        name,
        { attached, paused, isStillFailing },
      ]),
    ).toEqual([
      ['accounting', { attached: false, paused: false, isStillFailing: false }],
      ['ledger', { attached: true, paused: false, isStillFailing: true }],
      ['notifications', { attached: true, paused: true, isStillFailing: true }],
    ]);
  });

  test('calls none failing that delivered and refused in one commit, as the overview does', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2);
    let calls = 0;
    const half = () => {
      if (++calls === 1) throw new PermanentError('refused');
    };
    await live(bus, [subscriber('ledger', { 'payment.captured': half })]);
    await rows(bus.db, 'update journal set at = (select max(at) from journal)');
    await rows(bus.db, 'update lane_totals set last_failed_at = last_delivered_at');
    expect((await preview(bus, {}, [well('ledger')])).subscriptions).toMatchObject([
      { subscriber: 'ledger', isStillFailing: false },
    ]);
  });

  test('tells the deliveries that an operator skipped from the others', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 3);
    await live(bus, [refusing()]);
    await emitPayments(bus.db, 4, 4);
    await live(bus, [
      ledger(() => {
        throw new TypeError('down');
      }),
    ]);
    const [failing] = await deliveryIdsOf(bus.db, 'ledger', 'failing');
    await skip(bus.db, { deliveryId: failing!, by: 'kari', reason: 'hopeless' });
    const view = await preview(bus);
    expect(view.subscriptions).toMatchObject([{ count: 4, skipped: 1 }]);
    const { text } = await operators.ask('/replay?topic=payment.captured&since=24h', { accept: BROWSER });
    expect(text).toContain('1 delivery of these was skipped or dismissed by an operator.');
  });

  test('by ids that were replayed already, or are unknown, says that they are no dead letters', async ({
    bus,
    operators,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await live(bus, [refusing()]);
    const [id] = await letters(bus);
    await operators.ask('/replay', { json: { deliveryIds: [id] } });
    for (const deliveryId of [id!, '00000000-0000-7000-8000-000000000000.ledger']) {
      const { text } = await operators.ask(`/replay?deliveryIds=${deliveryId}`, { accept: BROWSER });
      expect(text).toContain('The selected deliveries are not dead letters.');
    }
  });

  test('fixes its moment: a delivery that dies later is not in its replay', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await live(bus, [refusing()]);
    const { request, matched } = await preview(bus);
    expect(matched).toBe(2);
    expect(request).toMatchObject({ expectedCount: 2, until: expect.stringMatching(/\.\d{6}Z$/) });
    await emitPayments(bus.db, 3, 4);
    await live(bus, [refusing()]);
    const done = await replay(bus.db, request, 'kari');
    expect(done).toMatchObject({ replayId: request.replayId, matched: 2, replayed: 2 });
    expect(await letters(bus)).toHaveLength(2);
  });

  test('of a past time keeps that time', async ({ bus }) => {
    const until = '2020-01-01T00:00:00Z';
    await emitPayments(bus.db, 1, 1);
    await live(bus, [refusing()]);
    expect(await preview(bus, { until, since: '3650d' })).toMatchObject({ matched: 0, request: { until } });
  });

  test('of one error names the error and leaves out the others', async ({ bus }) => {
    await emitPayments(bus.db, 1, 5);
    await live(bus, [refusing('ledger', (number) => (number < 3 ? 'period 1 is closed' : 'disk full'))]);
    const { groups } = await readDeadLetters(bus.db, deadLetterQuery.parse({}));
    const group = groups.find(({ message }) => message === 'disk full')!.group;
    expect(await preview(bus, { group })).toMatchObject({
      matched: 3,
      error: { kind: 'permanent', message: 'disk full' },
    });
    expect(await ask(bus, { group })).toMatchObject({ matched: 3, replayed: 3 });
    expect(await letters(bus)).toHaveLength(2);
  });

  test('of everything counts delivered and dead-lettered deliveries, up to its limit', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await live(bus, [ledger(), refusing('accounting')]);
    expect(await preview(bus, { include: 'all' })).toMatchObject({ matched: 6, request: { include: 'all' } });
    expect(await preview(bus, { include: 'all', subscriber: 'ledger' })).toMatchObject({ matched: 3 });
    expect(await preview(bus, { limit: 2 })).toMatchObject({ matched: 2 });
  });
});

describe('a replay', () => {
  test('of deliveries chosen from several topics returns those and no other', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await emitAlone(bus.db, 'invoice.paid', payloadOf('invoice.paid'));
    await live(bus, [subscriber('ledger', { 'payment.captured': refuse, 'invoice.paid': refuse })]);
    const all = await letters(bus);
    const chosen = [all[0]!, all[2]!];
    const view = await previewReplay(bus.db, [], replayRequest.parse({ deliveryIds: chosen }));
    expect(view).toMatchObject({ matched: 2 });
    expect(view.subscriptions.map(({ topic }) => topic)).toEqual(['invoice.paid', 'payment.captured']);
    const done = await replay(
      bus.db,
      { deliveryIds: [...chosen, chosen[0]!, '00000000-0000-7000-8000-000000000000.ledger'] },
      'kari',
    );
    expect(done).toMatchObject({ topic: null, since: null, matched: 2, replayed: 2 });
    expect(await letters(bus)).toEqual([all[1]]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of chosen deliveries leaves out those of another topic or subscriber than asked for', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await live(bus, [refusing(), refusing('accounting')]);
    const deliveryIds = [...(await letters(bus)), ...(await letters(bus, 'accounting'))];
    expect(await replay(bus.db, { deliveryIds, subscriber: 'ledger' }, 'kari')).toMatchObject({
      replayed: 1,
    });
    expect(await replay(bus.db, { deliveryIds, topic: 'invoice.paid' }, 'kari')).toMatchObject({
      replayed: 0,
    });
    expect(await letters(bus, 'accounting')).toHaveLength(1);
  });

  test('with the same id answers the second time as the first, and replays once', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await live(bus, [refusing()]);
    const replayId = '019a0000-0000-7000-8000-000000000001';
    const first = await ask(bus, { replayId });
    expect(first).toMatchObject({ replayId, matched: 3, replayed: 3 });
    await live(bus, [refusing()]);
    expect(await ask(bus, { replayId })).toEqual(first);
    expect(await ask(bus, { replayId, expectedCount: 3 })).toEqual(first);
    expect(await letters(bus)).toHaveLength(3);
    expect(await rows(bus.db, 'select id::text, replayed from replays')).toEqual([
      { id: replayId, replayed: 3 },
    ]);
  });

  test.for([1, 2, 3, 4, 5])('with the same id, sent twice at once, replays once (%i)', async (_, { bus }) => {
    await emitPayments(bus.db, 1, 20);
    await live(bus, [refusing()]);
    const replayId = '019a0000-0000-7000-8000-000000000002';
    const twins = await Promise.all([
      ask(bus, { replayId, expectedCount: 20 }),
      ask(bus, { replayId, expectedCount: 20 }),
      ask(bus, { replayId, expectedCount: 20 }),
    ]);
    for (const twin of twins) expect(twin).toMatchObject({ replayId, matched: 20, replayed: 20 });
    expect(await rows(bus.db, 'select replayed from replays')).toEqual([{ replayed: 20 }]);
    expect(await rows(bus.db, `select max(replays)::int as most from ${RECORDS}`)).toEqual([{ most: 1 }]);
  });

  test('is refused when another number matches than was expected, and nothing is kept of it', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2);
    await live(bus, [refusing()]);
    const { request } = await preview(bus);
    await ask(bus, { limit: 1 });
    await expect(replay(bus.db, request, 'kari')).rejects.toMatchObject({
      code: 'count_changed',
      expected: 2,
      matched: 1,
    });
    await expect(ask(bus, { expectedCount: 0 })).rejects.toBeInstanceOf(CountChanged);
    expect(await rows(bus.db, 'select from replays')).toHaveLength(1);
    expect(await letters(bus)).toHaveLength(1);
  });

  test('that would not be logged is not made', async ({ bus }) => {
    await emitPayments(bus.db, 1, 3);
    await live(bus, [refusing()]);
    await rows(
      bus.db,
      `create function refuse_replay() returns trigger language plpgsql as $$ begin raise 'the log is full'; end $$`,
    );
    await rows(
      bus.db,
      'create trigger refuse_replay before insert on replays for each row execute function refuse_replay()',
    );
    try {
      await expect(ask(bus)).rejects.toThrow('the log is full');
      await expect(ask(bus, { include: 'all' })).rejects.toThrow('the log is full');
      await expect(ask(bus, { deliveryIds: await letters(bus) })).rejects.toThrow('the log is full');
    } finally {
      await rows(bus.db, 'drop function refuse_replay cascade');
    }
    expect(await letters(bus)).toHaveLength(3);
    expect(await countDeliveries(bus.db, 'replays > 0')).toBe(0);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('of everything leaves unfinished deliveries alone', async ({ bus }) => {
    await emitPayments(bus.db, 1, 2);
    await live(bus, [ledger((number) => number === 2 && fail())]);
    expect(await ask(bus, { include: 'all' })).toMatchObject({ matched: 1, replayed: 1 });
    expect(await pendingOf(bus, 'ledger')).toBe(1);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('the progress of a replay', () => {
  const progress = async (bus: Bus, replayId: string | null) =>
    (await readReplay(bus.db, replayId!))!.progress;
  const none = { pending: 0, failing: 0, deadLettered: 0, delivered: 0, replayedAgain: 0 };

  test('goes from pending to delivered, dead-lettered again or replayed again, and always adds up', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 4);
    await live(bus, [refusing()]);
    const { replayId } = await ask(bus, { reason: 'mended' });
    expect(await progress(bus, replayId)).toEqual({ ...none, pending: 4 });
    await live(bus, [
      ledger((number) => {
        if (number === 2) refuse();
        if (number === 3) fail();
      }),
    ]);
    expect(await progress(bus, replayId)).toEqual({
      ...none,
      delivered: 1,
      deadLettered: 1,
      failing: 1,
      pending: 1,
    });
    const again = await ask(bus);
    expect(again.replayed).toBe(1);
    expect(await progress(bus, replayId)).toEqual({
      ...none,
      delivered: 1,
      replayedAgain: 1,
      failing: 1,
      pending: 1,
    });
    expect(await progress(bus, again.replayId)).toEqual({ ...none, pending: 1 });
    await drain(bus.db, [well()], { now: Date.now() + HOUR });
    expect(await progress(bus, replayId)).toEqual({ ...none, delivered: 3, replayedAgain: 1 });
    expect(await readReplay(bus.db, replayId)).toMatchObject({
      replayId,
      topic: 'payment.captured',
      requestedBy: 'kari',
      reason: 'mended',
      matched: 4,
      replayed: 4,
      request: { topic: 'payment.captured', since: '1h', reason: 'mended' },
    });
  });

  test('is null for an unknown replay', async ({ bus }) => {
    expect(await readReplay(bus.db, '019a0000-0000-7000-8000-000000000009')).toBeNull();
  });
});

describe('the operators’ log', () => {
  test('lists replays and other actions, newest first, and a page at a time', async ({ bus }) => {
    await emitPayments(bus.db, 1, 6);
    await live(bus, [refusing()]);
    const ids: string[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      ids.unshift((await ask(bus, { limit: 1 })).replayId);
      await pause(
        bus.db,
        { subscriber: 'ledger', topic: turn === 0 ? null : `topic ${turn}` },
        'ola',
        `why ${turn}`,
      );
    }
    const whole = await readOperatorLog(bus.db, logQuery.parse({}));
    expect(whole.items.map(({ action, operator, reason }) => [action, operator, reason])).toEqual([
      ['pause', 'ola', 'why 2'],
      ['replay', 'kari', null],
      ['pause', 'ola', 'why 1'],
      ['replay', 'kari', null],
      ['pause', 'ola', 'why 0'],
      ['replay', 'kari', null],
    ]);
    expect(whole.items.flatMap(({ replayId }) => replayId ?? [])).toEqual(ids);
    expect(whole.nextCursor).toBeNull();
    const seen: string[] = [];
    let cursor: string | null | undefined;
    do {
      const page = await readOperatorLog(bus.db, logQuery.parse({ limit: '1', ...(cursor && { cursor }) }));
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor);
    expect(seen).toEqual(whole.items.map(({ id }) => id));
  });

  test.each(['garbage', Buffer.from('[1]').toString('base64url')])('refuses the cursor %s', (cursor) => {
    expect(logQuery.safeParse({ cursor }).error?.issues).toMatchObject([{ path: ['cursor'] }]);
  });

  test('refuses a cursor with an impossible instant before the database is asked', () => {
    const id = '019a0000-0000-7000-8000-000000000009';
    const cursor = Buffer.from(JSON.stringify(['2031-13-45T99:00:00.000000Z', id])).toString('base64url');
    expect(logQuery.safeParse({ cursor }).success).toBe(false);
  });
});

describe('a request', () => {
  const AGO = /^expected a time span such as 90m, 24h or 7d/;

  test.each([
    '24',
    '-1h',
    '1y',
    '9999999h',
    '',
    '1 h',
    '24H',
    '0h',
    '1e3h',
    '٣h',
    '1.5h',
    '+1h',
    'h',
    '24h\n',
    '3651d',
  ])('with since %j is refused, with what would be right', (since) => {
    const { error } = replayRequest.safeParse({ topic: 'payment.captured', since });
    expect(error?.issues).toMatchObject([{ path: ['since'], message: expect.stringMatching(AGO) }]);
  });

  test.each(['1s', '90m', '24h', '7d', '520w', '3650d', '007d'])('with since %j is accepted', (since) => {
    expect(replayRequest.safeParse({ topic: 'payment.captured', since }).success).toBe(true);
  });

  test.each(['1 day', '24', '2031-05-04', '2031-05-04 10:00', 'now', 'infinity', '2031-13-01T00:00:00Z'])(
    'with until %j is refused, with what would be right',
    (until) => {
      const { error } = replayRequest.safeParse({ topic: 'payment.captured', since: '1h', until });
      expect(error?.issues).toMatchObject([{ path: ['until'] }]);
    },
  );

  test.for(['2031-05-04T10:00:00Z', '2031-05-04T10:00:00.123456Z', '1h'])(
    'with until %j is accepted, by the database too',
    async (until, { bus }) => {
      expect(await ask(bus, { until, since: '2h' })).toMatchObject({ matched: 0 });
    },
  );

  test.each(['0000-01-01T00:00:00Z', '2031-05-04T10:00:00+23:00', '2031-05-04T10:00:00-16:00'])(
    'with until %j, an instant outside the database’s range, is refused before the database is asked',
    (until) => {
      expect(replayRequest.safeParse({ topic: 'payment.captured', since: '1h', until }).success).toBe(false);
    },
  );

  test.for(['reason', 'subscriber'])(
    'with a NUL in the %s is refused, or accepted without it',
    async (name, { bus }) => {
      const parsed = replayRequest.safeParse({ topic: 'payment.captured', since: '1h', [name]: 'a\0b' });
      if (!parsed.success) return;
      expect(await ask(bus, parsed.data)).toMatchObject({ matched: 0 });
    },
  );

  test('with half a surrogate pair in the reason is refused, or accepted without it', async ({ bus }) => {
    const reason = 'a\ud800b';
    const parsed = replayRequest.safeParse({ topic: 'payment.captured', since: '1h', reason });
    if (!parsed.success) return;
    expect(await ask(bus, parsed.data)).toMatchObject({ matched: 0 });
  });

  test('of a form is the same in texts, with empty fields left out', () => {
    expect(
      asForm(replayRequest).parse({
        topic: '',
        since: ' ',
        deliveryIds: '00000000-0000-7000-8000-000000000000.ledger,00000000-0000-7000-8000-000000000000.audit',
        expectedCount: '2',
        limit: '7',
        dryRun: 'true',
        reason: '',
      }),
    ).toEqual({
      deliveryIds: [
        '00000000-0000-7000-8000-000000000000.ledger',
        '00000000-0000-7000-8000-000000000000.audit',
      ],
      expectedCount: 2,
      limit: 7,
      dryRun: true,
      include: 'dead_letters',
    });
  });

  test.each([
    ['expectedCount', 'many'],
    ['limit', '1.5'],
    [
      'deliveryIds',
      '00000000-0000-7000-8000-000000000000.ledger,,00000000-0000-7000-8000-000000000000.audit',
    ],
    ['deliveryIds', '00000000-0000-7000-8000-000000000000.ledger;00000000-0000-7000-8000-000000000000.audit'],
    ['dryRun', 'yes'],
  ])('of a form with %s of %j is refused', (name, text) => {
    const parsed = asForm(replayRequest).safeParse({ topic: 'payment.captured', since: '1h', [name]: text });
    expect(parsed.error?.issues.map(({ path }) => path[0])).toEqual([name]);
  });
});
