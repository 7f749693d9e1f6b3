import { describe, expect } from 'vitest';

import { errorGroupOf } from '../../lib/bus/deliveries/error-group.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { claimAlerts } from '../../lib/components/alerts/claim-alerts.ts';
import type { AlertedIncident } from '../../lib/components/alerts/claim-alerts.ts';
import { incidentMessage } from '../../lib/components/alerts/message.ts';
import { settleAlerts } from '../../lib/components/alerts/settle-alerts.ts';
import { causeWords } from '../../lib/console/incidents/incident.ts';
import { acknowledge } from '../../lib/components/incidents/acknowledge.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../lib/platform/time.ts';
import { START, drain, drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { changeDeliveries } from '../support/scenes.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';
import { explainAll, watch } from '../support/plans.ts';

const after = (ms: number) => new Date(START + ms);

/** Fails as an HTTP subscriber does. */
const answer = (status: number, message: string) => () => {
  throw Object.assign(new Error(`the subscriber answered ${status}: ${message}`), { code: `http_${status}` });
};

/** Gives a delivery up at once, with these words. */
const refuse = (message: string) => {
  throw new PermanentError(message);
};

interface Row {
  readonly id: string;
  readonly message: string;
  readonly state: string;
  readonly revision: number;
  readonly lanes: number;
  readonly owed: number;
  readonly opened: number;
}

/** Watches, and reads what stands then, in the order of the beginnings. */
async function watched(db: Database, at: Date): Promise<Row[]> {
  await watchIncidents(db, at);
  return await stored(db);
}

const stored = (db: Database) =>
  rows<Row>(
    db,
    `select id::text, message, state, revision, blocked_lanes as lanes, owed::float8,
       (extract(epoch from opened_at) * 1000)::float8 as opened
     from incidents order by opened_at, message`,
  );

/** Watches, and takes what is told then. */
async function told(db: Database, at: Date): Promise<readonly AlertedIncident[]> {
  await watchIncidents(db, at);
  const claimed = await claimAlerts(db, 'webhook', at);
  if (claimed === null) return [];
  await settleAlerts(db, claimed, null, at);
  return claimed.incidents;
}

const FORTY = numbers(1, 40).map((number) => `refused by rule ${letters(number)}`);

/** Numbers do not tell errors apart. */
function letters(number: number): string {
  return number === 0 ? '' : letters(Math.floor(number / 26)) + 'abcdefghijklmnopqrstuvwxyz'[number % 26]!;
}

/** Makes dead letters of as many errors as there are messages, the first of each in their order. */
async function dieOf(db: Database, messages: readonly string[], count: number, now = START): Promise<void> {
  await emitPayments(db, 1, count);
  await drain(db, [ledger((number) => refuse(messages[(number - 1) % messages.length]!))], { now });
}

describe('another error of a subscription', () => {
  test('is another incident, behind the same status too: with its own beginning, words, counts and alert', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 2);
    const expired = ledger(answer(500, 'licence 17 expired'), { maxAttempts: 2 });
    await drain(bus.db, [expired]);
    expect(await told(bus.db, after(SECOND))).toMatchObject([{ change: 'opened', openedAt: START }]);
    await drain(bus.db, [expired], { now: START + MINUTE });
    await drain(bus.db, [ledger(answer(500, 'disk full'))], { now: START + DAY });
    expect(await told(bus.db, after(DAY))).toMatchObject([
      {
        message: 'the subscriber answered 500: disk full',
        change: 'opened',
        openedAt: START + DAY,
        blockedLanes: 1,
        waiting: 1,
        owed: 0,
      },
      {
        message: expect.stringContaining('licence'),
        change: 'changed',
        state: 'owed',
        owed: 1,
        openedAt: START,
      },
    ]);
    expect(await stored(bus.db)).toMatchObject([
      { state: 'owed', lanes: 0, owed: 1, opened: START },
      { state: 'happening', lanes: 1, owed: 0, opened: START + DAY },
    ]);
  });

  test('of the same delivery begins with the attempt that failed so, and what it was before says what goes on', async ({
    bus,
    operators,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(answer(500, 'licence expired'))]);
    await watched(bus.db, after(SECOND));
    await drain(bus.db, [ledger(answer(500, 'disk full'))], { now: START + 2 * MINUTE });
    await watched(bus.db, after(HOUR));
    expect(await stored(bus.db)).toMatchObject([
      { message: 'the subscriber answered 500: licence expired', state: 'closed', opened: START },
      { message: 'the subscriber answered 500: disk full', state: 'happening', opened: START + 2 * MINUTE },
    ]);
    const [now, before] = await listed(operators);
    expect([now!.sentence, before!.sentence]).toEqual([
      'ledger answers 500 on payment.captured: 1 lane is blocked, 1 delivery waits.',
      'ledger answered 500 on payment.captured: over, but now it fails with 500: disk full.',
    ]);
    expect(before!.next).toMatchObject({ incidentId: now!.incidentId });
    const { text } = await operators.ask(`/incidents/${before!.incidentId}`, { accept: BROWSER });
    expect(text).toMatch(
      new RegExp(`href="/platform/event-bus/incidents/${now!.incidentId}"[^>]*>That incident`),
    );
  });

  test('that alternates with the first opens, closes and tells nothing at each attempt', async ({ bus }) => {
    const [one, other] = [ledger(answer(500, 'broken')), ledger(answer(422, 'refused'))];
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [one]);
    expect(await told(bus.db, after(SECOND))).toHaveLength(1);
    await drain(bus.db, [other], { now: START + 2 * MINUTE });
    expect(await told(bus.db, after(3 * MINUTE))).toMatchObject([{ kind: 'http_422', change: 'opened' }]);
    await drain(bus.db, [one], { now: START + 8 * MINUTE });
    for (const minutes of numbers(9, 16)) expect(await told(bus.db, after(minutes * MINUTE))).toEqual([]);
    expect(await stored(bus.db)).toMatchObject([
      { message: expect.stringContaining('500'), state: 'happening', revision: 1, lanes: 1 },
      { message: expect.stringContaining('422'), state: 'happening', revision: 1, lanes: 0 },
    ]);
    // It is over when it has not come back for a quarter of an hour, or as soon as the lane delivers.
    const closed = await told(bus.db, after(18 * MINUTE));
    expect(closed).toMatchObject([{ kind: 'http_422', change: 'closed' }]);
    expect(incidentMessage(closed, { environment: 'Production', publicUrl: undefined })).toMatchObject({
      subject: 'Another error now: payment.captured to ledger, 4 May 12:02 to 12:18 CEST',
      entries: [
        {
          text: expect.stringMatching(
            / Now ledger fails with http_500: the subscriber answered 500: broken\.$/,
          ),
        },
      ],
    });
    await drain(bus.db, [ledger()], { now: START + HOUR });
    expect(await told(bus.db, after(HOUR))).toMatchObject([
      { kind: 'http_500', change: 'closed', next: null },
    ]);
  });

  test('is told by the group that the relay recorded; a failure that an older release recorded has the same', async ({
    bus,
  }) => {
    await emitPayments(bus.db, 1, 3, { orderingKey: 'venue 1' });
    await emitPayments(bus.db, 4, 4, { orderingKey: 'venue 2' });
    await drain(bus.db, [
      ledger((number) => (number === 1 ? refuse('no account 4711') : refuse('no account 4712'))),
    ]);
    await emitPayments(bus.db, 5, 5, { orderingKey: 'venue 3' });
    const failing = ledger(() => {
      throw Object.assign(new Error('no account 4713'), { code: 'permanent_not' });
    });
    await drain(bus.db, [failing]);
    const [known] = await rows<{ group: string }>(
      bus.db,
      `select attempt_log -> -1 ->> 'group' as group from ${RECORDS} where state = 'failing'`,
    );
    const { key } = errorGroupOf('payment.captured', 'ledger', 'permanent_not', 'no account 1');
    expect(known).toEqual({ group: key });
    const before = await watched(bus.db, after(SECOND));
    expect(before).toMatchObject([{ lanes: 1 }, { owed: 4 }]);
    await changeDeliveries(bus.db, `attempt_log = '[]' || jsonb_build_array((attempt_log -> -1) - 'group')`);
    expect(await watched(bus.db, after(2 * SECOND))).toEqual(before);
  });
});

interface Item {
  readonly incidentId: string;
  readonly group: string;
  readonly state: string;
  readonly sentence: string;
  readonly owed: number;
  readonly lastError: { readonly message: string };
  readonly next: { readonly incidentId: string } | null;
}

const listed = async (operators: Operators) =>
  (await operators.ask('/incidents')).json['items'] as readonly Item[];

describe('an operator', () => {
  test('replays and dismisses the dead letters of one error, and what it leaves says nothing of another', async ({
    bus,
    operators,
  }) => {
    await emitPayments(bus.db, 1, 9);
    const words = ['no such account', 'period closed', 'currency unknown'];
    await drainLive(bus.db, [ledger((number) => refuse(words[number % 3]!))]);
    const items = await listed(operators);
    expect(items.map(({ owed }) => owed)).toEqual([3, 3, 3]);
    const of = (message: string) => items.find(({ lastError }) => lastError.message === message)!;
    const [replayed, dismissed, left] = words.map(of);

    const { group, incidentId } = replayed!;
    const request = { topic: 'payment.captured', subscriber: 'ledger', since: '24h', incident: incidentId };
    const preview = await operators.ask('/replay', { json: { ...request, dryRun: true } });
    expect(preview.json).toMatchObject({ matched: 3 });
    expect((await operators.ask('/replay', { json: request })).json).toMatchObject({ replayed: 3 });
    const path = `/incidents/${dismissed!.incidentId}/dismiss`;
    expect(
      (await operators.ask(path, { json: { reason: 'test data', expectedCount: 3 } })).json,
    ).toMatchObject({
      dismissed: 3,
      left: 0,
    });
    // One is under way, one is settled whatever the first is, one is as it was.
    const now = new Map((await listed(operators)).map((item) => [item.incidentId, item]));
    expect([replayed, dismissed, left].map((item) => now.get(item!.incidentId)!)).toMatchObject([
      { state: 'owed', owed: 0 },
      { state: 'closed', owed: 0 },
      { state: 'owed', owed: 3 },
    ]);
    expect((await operators.ask(`/dead-letters?group=${group}`)).json).toMatchObject({ total: 0 });
    expect((await operators.ask(`/dead-letters?group=${left!.group}`)).json).toMatchObject({ total: 3 });
    expect((await operators.ask(`/incidents/${incidentId}`)).json).toMatchObject({
      actions: [{ action: 'replay' }],
    });
    expect((await operators.ask(`/incidents/${left!.incidentId}`)).json).toMatchObject({ actions: [] });
  });

  test.for(['a topic', 'several errors of a topic'])(
    'who replays %s sees on each incident the replay, and that its dead letters are on their way',
    async (what, { bus, operators }) => {
      await emitPayments(bus.db, 1, 5);
      await drainLive(bus.db, [
        ledger((number) => refuse(number === 1 ? 'no such account' : 'period closed')),
      ]);
      const items = await listed(operators);
      const group = what === 'a topic' ? {} : { group: items.map((item) => item.group).join(',') };
      const request = { topic: 'payment.captured', since: '24h', ...group };
      expect((await operators.ask('/replay', { json: request })).json).toMatchObject({ replayed: 5 });
      const shown = async () => {
        const found: unknown[] = [];
        for (const { incidentId } of items) {
          const { state, owed, actions } = (await operators.ask(`/incidents/${incidentId}`)).json;
          found.push([state, owed, (actions as { action: string }[]).map(({ action }) => action)]);
        }
        return found;
      };
      expect(items.map(({ owed }) => owed)).toEqual([4, 1]);
      expect(await shown()).toEqual([
        ['owed', 0, ['replay']],
        ['owed', 0, ['replay']],
      ]);
      await drainLive(bus.db, [ledger((number) => number === 2 && answer(500, 'broken')())]);
      expect(await shown()).toEqual([
        ['owed', 0, ['replay']],
        ['closed', 0, ['replay']],
      ]);
    },
  );

  test('tells the incidents of one status apart by their errors, on the overview too', async ({
    bus,
    operators,
  }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, [ledger((number) => refuse(number === 1 ? 'no such account' : 'period closed'))]);
    for (const path of ['', '/incidents', '/subscribers/ledger']) {
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect([path, text.includes('no such account'), text.includes('period closed')]).toEqual([
        path,
        true,
        true,
      ]);
    }
  });
});

describe('a subscriber that answers in other words each time', () => {
  test('has a hundred incidents of its own errors, the first ones, and one of the rest', async ({ bus }) => {
    const words = (number: number) => answer(500, `no ${letters(number)} today`);
    for (const number of numbers(1, 150))
      await emitPayments(bus.db, number, number, { orderingKey: `booking ${number}` });
    await drain(bus.db, [ledger((number) => words(number)())]);
    const first = await watched(bus.db, after(SECOND));
    expect(first).toHaveLength(101);
    expect(first.filter(({ lanes }) => lanes === 1)).toHaveLength(100);
    expect(first.find(({ lanes }) => lanes > 1)).toMatchObject({
      lanes: 50,
      message: 'other messages: there are too many to tell them apart',
    });
    const { message } = first.find(({ lanes }) => lanes > 1)!;
    expect(causeWords({ kind: 'http_500', message })).toBe('500: other messages, too many to tell apart');
    expect(causeWords({ kind: 'http_503', message: 'Service Unavailable' })).toBe('503 Service Unavailable');
    // None of the hundred gives way to another.
    await emitPayments(bus.db, 151, 151, { orderingKey: 'booking 151' });
    await drain(bus.db, [ledger(() => answer(500, 'no one today')())]);
    const ids = (found: readonly Row[]) => found.map(({ id }) => id).toSorted();
    const second = await watched(bus.db, after(2 * SECOND));
    expect(ids(second)).toEqual(ids(first));
    expect(second.find(({ lanes }) => lanes > 1)).toMatchObject({ lanes: 51, state: 'happening' });
  });
});

describe('an incident that an older release opened, of all errors of a kind', () => {
  /** As that release left it, and told of it, with what holds for all of the kind. */
  async function isOfItsKind(db: Database, at: Date, kept: string): Promise<string> {
    await watchIncidents(db, at);
    const [{ id }] = (await rows<{ id: string }>(
      db,
      'select id::text from incidents order by opened_at, id limit 1',
    )) as [{ id: string }];
    await rows(db, 'delete from incidents where id <> $1::uuid', [id]);
    await rows(db, `update incidents set error_group = '', message = 'of the kind', ${kept}`);
    await acknowledge(db, id, 'kari', 'INC-4411');
    await rows(
      db,
      `insert into alerts (incident_id, revision, channel, sent_at) select id, revision, 'webhook', now() from incidents`,
    );
    return id;
  }

  test('is that of the oldest, and the others go on in theirs: nobody is told again, and whoever took it up has', async ({
    bus,
  }) => {
    await dieOf(bus.db, FORTY, 400);
    const id = await isOfItsKind(bus.db, after(MINUTE), 'owed = 400');
    expect(await told(bus.db, after(5 * MINUTE))).toEqual([]);
    const found = await stored(bus.db);
    expect(found).toHaveLength(40);
    expect(new Set(found.map(({ message, owed }) => `${message} ${owed}`)).size).toBe(40);
    expect(found.find((one) => one.id === id)).toMatchObject({ state: 'owed', owed: 10, revision: 2 });
    expect(
      await rows(bus.db, `select distinct acknowledged_by as by, acknowledged_note as note from incidents`),
    ).toEqual([{ by: 'kari', note: 'INC-4411' }]);
    // What is new is told.
    await emitPayments(bus.db, 401, 401);
    await drain(bus.db, [ledger(() => refuse('another rule'))], { now: START + HOUR });
    expect(await told(bus.db, after(HOUR))).toMatchObject([{ change: 'opened', message: 'another rule' }]);
    // An older release that watches meanwhile finds each of them, and does not fail.
    await rows(bus.db, `update incidents set owed = 401, state = 'owed' where closed_at is null`);
    await watched(bus.db, after(2 * HOUR));
    expect((await stored(bus.db)).reduce((sum, { owed }) => sum + owed, 0)).toBe(401);
  });

  test('that blocks lanes by a newer error does not speak for it any more', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drain(bus.db, [ledger(answer(500, 'licence expired'), { maxAttempts: 1 })]);
    await emitPayments(bus.db, 2, 2);
    await drain(bus.db, [ledger(answer(500, 'disk full'))], { now: START + DAY });
    const id = await isOfItsKind(bus.db, after(DAY), `state = 'happening', blocked_lanes = 1, waiting = 1`);
    expect(await told(bus.db, after(DAY + HOUR))).toEqual([]);
    expect(await stored(bus.db)).toMatchObject([
      {
        id,
        message: expect.stringContaining('licence expired'),
        state: 'owed',
        lanes: 0,
        owed: 1,
        opened: START,
      },
      {
        message: expect.stringContaining('disk full'),
        state: 'happening',
        lanes: 1,
        owed: 0,
        opened: START + DAY,
      },
    ]);
  });
});

describe('10,000 dead letters of forty errors', () => {
  test('are forty incidents, each with its beginning, words and count, and one message', async ({ bus }) => {
    await dieOf(bus.db, FORTY.slice(0, 39), 9980);
    await emitPayments(bus.db, 9981, 10_000);
    await drain(bus.db, [ledger(() => refuse(FORTY[39]!))], { now: START + HOUR });
    const first = await told(bus.db, after(2 * HOUR));
    expect(first).toHaveLength(40);
    const found = await stored(bus.db);
    expect(found.map(({ message }) => message).toSorted()).toEqual(FORTY.toSorted());
    expect(found.reduce((sum, { owed }) => sum + owed, 0)).toBe(10_000);
    expect(found.at(-1)).toMatchObject({ message: FORTY[39], owed: 20, opened: START + HOUR });
    expect(new Set(found.slice(0, -1).map(({ owed, opened }) => `${owed} ${opened}`))).toEqual(
      new Set([`255 ${START}`, `256 ${START}`]),
    );
    expect(await watched(bus.db, after(3 * HOUR))).toEqual(found);
    expect(await told(bus.db, after(3 * HOUR))).toEqual([]);
    // A pass over them counts each dead letter once, and reads a few other rows of each error, also where statistics say how large
    // each error is.
    await rows(bus.db, 'analyze');
    await explainAll(bus);
    const { db, takeWork, close } = await watch(bus.url);
    await watchIncidents(db, after(3 * HOUR));
    const work = [...takeWork().values()].reduce((sum, { rows: handled }) => sum + handled, 0);
    await close();
    expect(work).toBeGreaterThan(10_000);
    expect(work - 10_000).toBeLessThan(5000);
    // All that is left of one of them is replayed: it closes, and the others stay.
    const group = errorGroupOf('payment.captured', 'ledger', 'permanent', FORTY[39]!).key;
    const request = { topic: 'payment.captured', since: '1d', group };
    await replay(bus.db, request, 'kari', after(3 * HOUR));
    await drain(bus.db, [ledger()], { now: START + 3 * HOUR });
    expect(await told(bus.db, after(4 * HOUR))).toMatchObject([{ change: 'closed', message: FORTY[39] }]);
    expect((await stored(bus.db)).filter(({ state }) => state === 'owed')).toHaveLength(39);
  });
});
