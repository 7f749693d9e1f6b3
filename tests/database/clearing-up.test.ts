import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { retryNow } from '../../lib/bus/deliveries/operations/retry-now.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { dismissLetter } from '../support/dismiss-letter.ts';
import {
  contradictions,
  drainLive,
  emitAlone,
  emitPayments,
  openTransaction,
  payloadOf,
  rows,
  WAITING,
} from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS, countDeliveries } from '../support/records.ts';
import { lockLanes } from '../support/scenes.ts';
import { test } from '../support/cli-test.ts';
import { ledger as paymentsLedger } from '../support/ledger.ts';
import { BROWSER } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const refuse = (words: string) => () => {
  throw new PermanentError(words);
};

/** The ledger and accounting, each with its own words for what it refuses. */
const refusing = [
  subscriber('ledger', {
    'payment.captured': ({ payload }) =>
      refuse(payload.amountMinor % 2 === 0 ? 'period closed' : 'no account')(),
    'payment.refunded': refuse('period closed'),
  }),
  subscriber('accounting', { 'payment.captured': refuse('voucher series missing') }),
];
const well = [
  subscriber('ledger', { 'payment.captured': () => undefined, 'payment.refunded': () => undefined }),
  subscriber('accounting', { 'payment.captured': () => undefined }),
];

/** Four captured payments and two refunds: six dead letters of the ledger, four of accounting. */
async function died(bus: Bus, operators: Operators): Promise<void> {
  await emitPayments(bus.db, 1, 4);
  for (let left = 2; left > 0; left -= 1)
    await emitAlone(bus.db, 'payment.refunded', payloadOf('payment.refunded'));
  await drainLive(bus.db, refusing);
  operators.attached = well;
}

const groupsOf = async (operators: Operators) =>
  (await operators.ask('/dead-letters')).json['groups'] as {
    group: string;
    message: string;
    topic: string;
    subscriber: string;
    count: number;
  }[];

const wordsOf = (text: string) => text.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ');

/** The hidden fields of a page's form. */
const fieldsOf = (text: string) =>
  Object.fromEntries(
    Array.from(text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g), ([, name, value]) => [
      name!,
      value!,
    ]),
  );

const deadOf = (bus: Bus, of: string) =>
  countDeliveries(bus.db, 'subscriber = $1 and dead_lettered_at is not null', [of]);

describe('a replay over topics', () => {
  test('takes all of one subscriber, counted by topic in its preview, and is one replay', async ({
    bus,
    operators,
  }) => {
    await died(bus, operators);
    const path = '/replay?subscriber=ledger&since=24h';
    expect((await operators.ask(path)).json).toMatchObject({
      matched: 6,
      subscriptions: [
        { topic: 'payment.captured', subscriber: 'ledger', count: 4 },
        { topic: 'payment.refunded', subscriber: 'ledger', count: 2 },
      ],
      leftOut: [],
    });
    const { text } = await operators.ask(path, { accept: BROWSER });
    expect(wordsOf(text)).toMatch(/payment\.captured ?ledger ?4.*payment\.refunded ?ledger ?2/);

    const form = { ...fieldsOf(text), reason: 'the period is open again' };
    const sent = await operators.ask('/replay', { form, accept: BROWSER });
    expect(sent.status).toBe(303);
    await drainLive(bus.db, well);
    expect([await deadOf(bus, 'ledger'), await deadOf(bus, 'accounting')]).toEqual([0, 4]);
    const replays = await rows<{ topic: null; request: object }>(
      bus.db,
      'select topic, requested_by, reason, matched, replayed, request from replays',
    );
    expect(replays).toEqual([
      {
        topic: null,
        requested_by: 'kari@solvik.example.no',
        reason: 'the period is open again',
        matched: 6,
        replayed: 6,
        request: expect.objectContaining({ subscriber: 'ledger', since: '24h' }),
      },
    ]);
    const page = await operators.ask(sent.headers.get('location')!.replace('/platform/event-bus', ''), {
      accept: BROWSER,
    });
    expect(wordsOf(page.text)).toContain('Replay of several topics to ledger');
    expect(wordsOf(page.text)).toContain('Replayed: 6 of 6 delivered');
    expect(wordsOf(page.text)).toContain('Topics payment.captured and payment.refunded');
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('is shown on the page of each incident that it cleared up', async ({ bus, operators }) => {
    await died(bus, operators);
    await watchIncidents(bus.db);
    await operators.ask('/replay', { json: { q: 'voucher', since: '24h' } });
    await drainLive(bus.db, well);
    const incidents = await rows<{ id: string; subscriber: string }>(
      bus.db,
      'select id::text, subscriber from incidents',
    );
    const replaysOf = async (of: string) => {
      const { id } = incidents.find(({ subscriber: one }) => one === of)!;
      return (await operators.ask(`/incidents/${id}`)).json['actions'];
    };
    expect(await replaysOf('accounting')).toMatchObject([{ action: 'replay' }]);
    expect(await replaysOf('ledger')).toEqual([]);
  });

  test('takes what the words of the error match, or the groups that were checked, in every topic', async ({
    bus,
    operators,
  }) => {
    await died(bus, operators);
    const byWords = await operators.ask('/replay', { json: { q: 'PERIOD', since: '24h', dryRun: true } });
    expect(byWords.json).toMatchObject({
      matched: 4,
      subscriptions: [
        { topic: 'payment.captured', count: 2 },
        { topic: 'payment.refunded', count: 2 },
      ],
    });
    const groups = await groupsOf(operators);
    const checked = groups.filter(({ message }) => message !== 'no account');
    const query = checked.map(({ group }) => `group=${group}`).join('&');
    for (const [action, done] of [
      ['replay', 'Replay 8 dead letters?'],
      ['dismiss', 'Dismiss 8 dead letters?'],
    ]) {
      const { text } = await operators.ask(`/${action}?since=24h&${query}`, { accept: BROWSER });
      expect(wordsOf(text)).toContain(done);
      for (const counted of [
        /payment\.captured ?accounting ?4/,
        /payment\.captured ?ledger ?2/,
        /payment\.refunded ?ledger ?2/,
      ])
        expect(wordsOf(text)).toMatch(counted);
    }
    const group = checked.map((one) => one.group).join(',');
    const replayed = await operators.ask('/replay', { json: { group, since: '24h', expectedCount: 8 } });
    expect(replayed.json).toMatchObject({ topic: null, matched: 8, replayed: 8 });
    expect((await groupsOf(operators)).map(({ message }) => message)).toEqual(['no account']);
  });

  test('takes what died within a time, and of that what is of the oldest events first', async ({
    bus,
    operators,
  }) => {
    await died(bus, operators);
    const { now } = (
      await rows<{ now: string }>(
        bus.db,
        `select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now`,
      )
    )[0]!;
    await emitPayments(bus.db, 5, 5);
    await drainLive(bus.db, refusing);
    const asked = { since: '1h', until: now };
    expect((await operators.ask('/replay', { json: { ...asked, dryRun: true } })).json).toMatchObject({
      matched: 10,
    });
    const limited = await operators.ask('/replay', { json: { ...asked, limit: 3 } });
    expect(limited.json).toMatchObject({ matched: 3, replayed: 3 });
    const [oldest] = await rows<{ is_first: boolean }>(
      bus.db,
      `select max(event_id::text) filter (where replayed_at is not null)
         <= min(event_id::text) filter (where dead_lettered_at is not null) as is_first from ${RECORDS}`,
    );
    expect(oldest!.is_first).toBe(true);
  });

  test('leaves out who refuses replays and whom the catalog does not list, and says how many and why', async ({
    bus,
    operators,
  }) => {
    await died(bus, operators);
    operators.attached = [
      well[0]!,
      subscriber('accounting', { 'payment.captured': () => undefined }, { onReplay: 'refuse' }),
    ];
    const groups = await groupsOf(operators);
    const group = groups.map((one) => one.group).join(',');
    const { text } = await operators.ask(`/replay?since=24h&group=${group}`, { accept: BROWSER });
    expect(wordsOf(text)).toContain('Replay 6 dead letters?');
    expect(wordsOf(text)).toContain('4 deliveries to accounting are left out. accounting refuses replays');
  });

  test('waits for no lane but those of the subscriptions that it replays', async ({ bus, operators }) => {
    await died(bus, operators);
    const other = await openTransaction(bus.url);
    await lockLanes(other.client, `subscriber = 'accounting' or topic = 'payment.refunded'`);
    const [first] = await groupsOf(operators).then((groups) =>
      groups.filter(({ message, topic }) => message === 'no account' && topic === 'payment.captured'),
    );
    const done = await operators.ask('/replay', { json: { group: first!.group, since: '24h' } });
    expect(done.json).toMatchObject({ replayed: 2 });
    await other.rollback();
  });

  test.for([
    [{ since: '24h' }, 'topic', 'expected a topic, a subscriber, a group, q or deliveryIds'],
    [{ since: '24h', q: ' ' }, 'topic', 'expected a topic, a subscriber, a group, q or deliveryIds'],
    [{ subscriber: 'ledger' }, 'since', 'expected a time span such as 90m, 24h or 7d'],
    [{ subscriber: 'ledger', since: '24h', include: 'all' }, 'topic', 'expected a topic of the catalog'],
    [
      { q: 'closed', deliveryIds: ['00000000-0000-7000-8000-000000000000.ledger'] },
      'deliveryIds',
      'expected neither group nor q beside it',
    ],
    [{ group: 'abc', since: '24h' }, 'group', 'expected an error group, 16 hexadecimal digits'],
    [{ subscriber: 'ledgr', since: '24h' }, 'subscriber', 'did you mean ledger?'],
  ] as const)(
    '%j is refused, and the answer says what would be right',
    async ([json, path, words], { operators }) => {
      const answer = await operators.ask('/replay', { json });
      expect([answer.status, answer.json['issues']]).toEqual([
        400,
        [expect.objectContaining({ path, message: expect.stringContaining(words) })],
      ]);
    },
  );
});

describe('a request that selects nothing', () => {
  test.for(['/replay', '/dismiss'])(
    'to %s says what is missing and what to add',
    async (path, { operators }) => {
      const answer = await operators.ask(path, { json: { reason: 'it is fixed' } });
      expect([answer.status, answer.json['issues']]).toEqual([
        400,
        [
          expect.objectContaining({
            path: 'topic',
            message: expect.stringMatching(/^expected a topic, a subscriber, a group, q or deliveryIds/),
          }),
          expect.objectContaining({
            path: 'since',
            message: expect.stringMatching(
              /^missing; expected a time span such as 90m.*: add since, or deliveryIds/,
            ),
          }),
        ],
      ]);
    },
  );
});

const OLA = 'ola@solvik.example.no';

describe('the second of two operators reads where to see what was done', () => {
  /** What the refusal says, and the page that it names. */
  const seenIn = (answer: { readonly status: number; readonly json: Record<string, unknown> }) => {
    const [, path] =
      / See what was done: \/platform\/event-bus(\S+)\.$/.exec(String(answer.json['detail'])) ?? [];
    return [answer.status, answer.json['code'], path];
  };

  test.for(['replay', 'dismiss'])(
    'of a %s over topics, whose form is drawn again with a link',
    async (verb, { bus, operators }) => {
      await died(bus, operators);
      const path = `/${verb}?subscriber=ledger&since=24h`;
      const { text } = await operators.ask(path, { accept: BROWSER });
      await replay(bus.db, { subscriber: 'ledger', since: '24h' }, OLA);
      const form = { ...fieldsOf(text), reason: 'mine' };
      const second = await operators.ask(`/${verb}`, { form });
      expect(seenIn(second)).toEqual([409, 'count_changed', '/replays']);
      expect(second.json['detail']).toContain(': 0 deliveries match, not 6.');
      const again = await operators.ask(`/${verb}`, { form, accept: BROWSER });
      expect(wordsOf(again.text)).toContain(`Nothing to ${verb} N`);
      expect(again.text).toContain('href="/platform/event-bus/replays">what operators did');
      expect((await operators.ask(path)).json).toMatchObject({ matched: 0 });
    },
  );

  test('of a single dead letter and of a delivery that holds its lane', async ({ bus, operators }) => {
    const [dead] = await operators.died(1);
    await replay(bus.db, { deliveryIds: [dead!] }, OLA);
    const again = { deliveryIds: [dead!], expectedCount: 1, reason: 'mine' };
    for (const path of ['/replay', '/dismiss'])
      expect(seenIn(await operators.ask(path, { json: again }))).toEqual([409, 'count_changed', '/replays']);
    await drainLive(bus.db, [paymentsLedger()]);

    const [head] = await operators.held(3);
    await retryNow(bus.db, { deliveryId: head!, by: OLA });
    expect(seenIn(await operators.ask(`/deliveries/${head!}/retry`, { json: {} }))).toEqual([
      409,
      'not_waiting',
      `/dead-letters/${head!}`,
    ]);
    await skip(bus.db, { deliveryId: head!, by: OLA, reason: 'paid in cash' });
    expect(seenIn(await operators.ask(`/deliveries/${head!}/skip`, { json: { reason: 'mine' } }))).toEqual([
      409,
      'not_waiting',
      `/dead-letters/${head!}`,
    ]);
  });

  test('of a dead letter that is dismissed already, and of an incident whose lanes were just retried', async ({
    bus,
    operators,
  }) => {
    const [dead] = await operators.died(1);
    await dismissLetter(bus.db, { deliveryId: dead!, by: OLA, reason: 'booked by hand' });
    const form = { reason: 'mine', deliveryIds: dead!, expectedCount: '1' };
    const late = await operators.ask('/dismiss', { form, accept: BROWSER });
    expect(late.status).toBe(409);
    expect(wordsOf(late.text)).toContain('The selected deliveries are not dead letters.');
    // Its way back is the page of the dead letter.
    const page = `/dead-letters/${dead!}`;
    expect(late.text).toContain(`href="/platform/event-bus${page}"`);
    expect(wordsOf((await operators.ask(page, { accept: BROWSER })).text)).toContain(`Dismissed by ${OLA}`);

    const [head] = await operators.held(2);
    await watchIncidents(bus.db);
    const [incident] = await rows<{ id: string }>(
      bus.db,
      `select id::text from incidents where state = 'happening' and closed_at is null`,
    );
    await retryNow(bus.db, { deliveryId: head!, by: OLA, incidentId: incident!.id });
    const retried = await operators.ask(`/incidents/${incident!.id}/retry`, { json: {} });
    expect(retried.json).toMatchObject({ retried: 0 });
    const again = await operators.ask(`/incidents/${incident!.id}/retry`, { form: {}, accept: BROWSER });
    expect(decodeURIComponent(again.headers.get('set-cookie')!)).toContain(
      'No lane waits for a retry any more.',
    );
  });

  test('of a replay that still puts deliveries back, before the confirmation', async ({ bus, operators }) => {
    await died(bus, operators);
    await replay(bus.db, { subscriber: 'ledger', since: '24h', perMinute: 1 }, OLA);
    const { json, text } = await operators.ask('/replay?subscriber=ledger&since=24h', { accept: BROWSER });
    expect(json).toEqual({});
    expect(wordsOf(text)).toContain('A paced replay is under way');
    expect(text).toContain('href="/platform/event-bus/replays?only=replays"');
  });

  test('also where both confirm at the same moment, and each delivery is replayed once', async ({
    bus,
    operators,
  }) => {
    await died(bus, operators);
    const other = await connect(bus.url);
    const asked = { subscriber: 'ledger', since: '24h', expectedCount: 6 };
    // Both wait for the lanes, so that neither sees what the other does before it holds them.
    const holder = await openTransaction(bus.url);
    await lockLanes(holder.client);
    const both = Promise.all([
      replay(other.db, asked, OLA).catch((error: unknown) => error),
      operators.ask('/replay', { json: asked }),
    ]);
    await expect.poll(async () => (await rows(bus.db, WAITING)).length).toBe(2);
    await holder.commit();
    const [first, second] = await both;
    const replays = await rows<{ requested_by: string; replayed: number }>(
      bus.db,
      'select requested_by, replayed from replays',
    );
    expect(replays).toHaveLength(1);
    expect(replays[0]!.replayed).toBe(6);
    if (replays[0]!.requested_by === OLA) expect(second.json['code']).toBe('count_changed');
    else expect(first).toMatchObject({ code: 'count_changed' });
    expect(await countDeliveries(bus.db, 'replays > 1')).toBe(0);
    expect(await contradictions(bus.db)).toEqual([]);
    await other.close();
  });

  test('also where both dismiss at the same moment', async ({ bus, operators }) => {
    await died(bus, operators);
    const json = { subscriber: 'ledger', since: '24h', expectedCount: 6, reason: 'booked by hand' };
    const holder = await openTransaction(bus.url);
    await lockLanes(holder.client);
    const both = Promise.all([operators.ask('/dismiss', { json }), operators.ask('/dismiss', { json })]);
    await expect.poll(async () => (await rows(bus.db, WAITING)).length).toBe(2);
    await holder.commit();
    const [first, second] = (await both).toSorted((one, other) => one.status - other.status);
    expect(first!.json).toMatchObject({ matched: 6, dismissed: 6 });
    expect(second!.json['code']).toBe('count_changed');
  });
});

describe('an incident’s blocked lanes', () => {
  const failing = subscriber('ledger', {
    'invoice.reminder.sent': () => {
      throw new Error('the period is closed');
    },
  });

  /** Three invoices with two reminders each: every first one fails. @returns the incident. */
  async function blocked(bus: Bus, operators: Operators): Promise<string> {
    for (const invoiceId of ['inv_1', 'inv_2', 'inv_3', 'inv_1', 'inv_2', 'inv_3'])
      await emitAlone(bus.db, 'invoice.reminder.sent', payloadOf('invoice.reminder.sent', { invoiceId }));
    await drainLive(bus.db, [failing]);
    operators.attached = [failing];
    await watchIncidents(bus.db);
    const [incident] = await rows<{ id: string }>(
      bus.db,
      `select id::text from incidents where subscriber = 'ledger' and closed_at is null`,
    );
    return incident!.id;
  }

  const skips = async (bus: Bus) =>
    await rows<{ operator: string; reason: string; delivery_id: string; incident_id: string }>(
      bus.db,
      `select operator, reason, delivery_id, incident_id::text from operator_actions where action = 'skip'`,
    );

  test('go on after one skip of all that hold them, each recorded once', async ({ bus, operators }) => {
    const id = await blocked(bus, operators);
    const page = await operators.ask(`/incidents/${id}`, { accept: BROWSER });
    expect(page.text).toContain(`action="/platform/event-bus/incidents/${id}/skip"`);
    expect(wordsOf(page.text)).toContain('Skip all that hold its lanes…');
    const empty = { reason: ' ', expectedCount: '3', next: `/platform/event-bus/incidents/${id}` };
    const bare = await operators.ask(`/incidents/${id}/skip`, { form: empty, accept: BROWSER });
    expect([bare.status, wordsOf(bare.text)]).toEqual([
      400,
      expect.stringContaining(
        'Nothing was done: expected a reason; it is kept in the operator log. Correct it',
      ),
    ]);
    // The form is there again, with what it was sent with, and leads back.
    expect(fieldsOf(bare.text)).toMatchObject({ expectedCount: '3' });
    expect(bare.text).toContain(`href="/platform/event-bus/incidents/${id}">Discard`);
    expect(await skips(bus)).toEqual([]);

    const form = { ...empty, reason: 'the period is closed' };
    const done = await operators.ask(`/incidents/${id}/skip`, { form, accept: BROWSER });
    expect(done.status).toBe(303);
    const path = done.headers.get('location')!.replace('/platform/event-bus', '');
    expect(wordsOf((await operators.ask(path, { accept: BROWSER })).text)).toContain('Skipped 3 deliveries');
    expect(decodeURIComponent(done.headers.get('set-cookie')!)).toContain('Skipped 3 deliveries.');
    const recorded = await skips(bus);
    expect(new Set(recorded.map((one) => one.delivery_id)).size).toBe(3);
    for (const one of recorded)
      expect(one).toMatchObject({
        operator: 'kari@solvik.example.no',
        reason: 'the period is closed',
        incident_id: id,
      });
    const handed: string[] = [];
    await drainLive(bus.db, [
      subscriber('ledger', { 'invoice.reminder.sent': ({ payload }) => void handed.push(payload.invoiceId) }),
    ]);
    expect(handed.toSorted()).toEqual(['inv_1', 'inv_2', 'inv_3']);
    expect((await operators.ask(`/incidents/${id}`)).json).toMatchObject({
      state: 'closed',
      sentence: expect.stringMatching(/: over\.$/),
    });
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('are skipped in one act, which is one line wherever operators’ actions are listed', async ({
    bus,
    operators,
    server,
    postbud,
  }) => {
    const id = await blocked(bus, operators);
    expect(server.url).toContain('http');
    await operators.ask(`/incidents/${id}/skip`, { json: { reason: 'the period is closed' } });
    const recorded = await skips(bus);
    expect(recorded).toHaveLength(3);
    await replay(bus.db, { deliveryIds: [recorded[0]!.delivery_id] }, OLA);
    await skip(bus.db, { deliveryId: recorded[0]!.delivery_id, by: OLA, reason: 'again', incidentId: id });

    const act = { action: 'skip', deliveries: 3, deliveryId: null, reason: 'the period is closed' };
    const later = { action: 'skip', deliveries: null, deliveryId: recorded[0]!.delivery_id, reason: 'again' };
    for (const [path, words] of [
      ['/replays', 'Skipped 3 deliveries'],
      [`/incidents/${id}`, 'Skipped 3 deliveries'],
    ] as const) {
      const { json } = await operators.ask(path);
      const acted = (path === '/replays' ? json['items'] : json['actions']) as { action: string }[];
      expect(acted.filter(({ action }) => action === 'skip')).toEqual([
        expect.objectContaining(later),
        expect.objectContaining(act),
      ]);
      const page = wordsOf((await operators.ask(path, { accept: BROWSER })).text);
      expect(page.split(words)).toHaveLength(2);
    }
    for (const command of ['log', `incidents ${id}`])
      expect((await postbud(command)).out).toMatch(/[Ss]kipped 3 deliveries/);
    for (const { delivery_id: deliveryId } of recorded.slice(1)) {
      const own = await operators.ask(`/dead-letters/${deliveryId}`, { accept: BROWSER });
      expect(wordsOf(own.text)).toMatch(/[Ss]kipped.*kari@solvik\.example\.no.*the period is closed/);
    }
  });

  test('are skipped once by two operators, and the second reads where to see it', async ({
    bus,
    operators,
  }) => {
    const id = await blocked(bus, operators);
    for (const { delivery_id: deliveryId } of await rows<{ delivery_id: string }>(
      bus.db,
      `select event_id || '.' || subscriber as delivery_id from deliveries where state = 'failing'`,
    ))
      await skip(bus.db, { deliveryId, by: OLA, reason: 'the period is closed', incidentId: id });
    const json = { reason: 'mine', expectedCount: 3 };
    const answer = await operators.ask(`/incidents/${id}/skip`, { json });
    expect([answer.status, answer.json['code'], answer.json['detail']]).toEqual([
      409,
      'count_changed',
      expect.stringContaining(`See what was done: /platform/event-bus/incidents/${id}`),
    ]);
    expect(await skips(bus)).toHaveLength(3);
  });

  test('are not skipped where others hold them than were counted', async ({ bus, operators }) => {
    const id = await blocked(bus, operators);
    await emitAlone(
      bus.db,
      'invoice.reminder.sent',
      payloadOf('invoice.reminder.sent', { invoiceId: 'inv_4' }),
    );
    await drainLive(bus.db, [failing]);
    const json = { reason: 'closed', expectedCount: 4 };
    expect((await operators.ask(`/incidents/${id}/skip`, { json })).json).toMatchObject({ skipped: 4 });
    await drainLive(bus.db, [failing]);
    const second = await operators.ask(`/incidents/${id}/skip`, { json });
    expect([second.status, second.json['code'], second.json['detail']]).toEqual([
      409,
      'count_changed',
      expect.stringContaining(`See what was done: /platform/event-bus/incidents/${id}`),
    ]);
  });

  test('are skipped from the command line after confirmation, with a reason', async ({
    bus,
    operators,
    server,
    postbud,
  }) => {
    const id = await blocked(bus, operators);
    expect(server.url).toContain('http');
    const without = await postbud(`skip ${id} --yes`);
    expect([without.code, without.err]).toEqual([2, expect.stringContaining('--reason is missing')]);
    const unasked = await postbud(`skip ${id} --reason closed`);
    expect([unasked.code, unasked.err]).toEqual([2, expect.stringContaining('Nothing was skipped')]);
    const done = await postbud(`skip ${id} --reason closed --yes`);
    expect([done.code, done.out]).toEqual([0, '✓ Skipped 3 deliveries. What waited behind follows.']);
    const again = await postbud(`skip ${id} --reason closed --yes`);
    expect([again.code, again.out]).toEqual([
      1,
      expect.stringContaining('No delivery holds a lane of this incident any more.'),
    ]);
    expect(await skips(bus)).toHaveLength(3);
  });
});

describe('the command line', () => {
  test('replays and dismisses over topics, and names the filter where nothing matches', async ({
    bus,
    operators,
    postbud,
  }) => {
    await died(bus, operators);
    const dry = await postbud('replay --subscriber ledger --since 24h --dry-run');
    expect([dry.code, dry.out]).toEqual([0, expect.stringContaining('Would replay 6 dead letters.')]);
    expect(dry.out).toMatch(/payment\.refunded {2}ledger +2/);
    const groups = await groupsOf(operators);
    const [first, second] = groups.filter(({ subscriber: of }) => of === 'ledger').map(({ group }) => group);
    const some = await postbud(`dismiss --group ${first!} --group ${second!} --reason closed --yes`);
    expect([some.code, some.out]).toEqual([
      0,
      expect.stringMatching(/^✓ Dismissed \d dead letters, which can still be replayed\.$/),
    ]);
    const rest = await postbud('replay --search series --since 24h --reason fixed --yes');
    expect([rest.code, rest.out]).toEqual([0, expect.stringContaining('Replayed 4 deliveries.')]);
    const none = await postbud('replay --search series --subscriber accounting --since 24h --yes');
    expect(none.err.split('\n').slice(0, 2)).toEqual([
      'Nothing to replay',
      'Nothing matches: to accounting, errors with “series”, dead-lettered in the last 24h.',
    ]);
    const [head] = await operators.held(3);
    await skip(bus.db, { deliveryId: head!, by: OLA, reason: 'paid in cash' });
    const skipped = await postbud('dismiss --subscriber ledger --dry-run');
    expect(skipped.out).toMatch(/payment\.captured {2}ledger +3/);
    const bare = await postbud('replay --since 24h --yes');
    expect([bare.code, bare.err.split('\n')[0]]).toEqual([
      2,
      'the topic: expected a topic, a subscriber, a group, --search or --delivery; or until beside since, for all of a time',
    ]);
  });
});
