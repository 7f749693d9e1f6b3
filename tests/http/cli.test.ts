import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

import stringWidth from 'string-width';
import { describe, expect, vi } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { problemValue } from '../../lib/platform/http/problem-codes.ts';
import type { ProblemCode } from '../../lib/platform/http/problem-codes.ts';
import { drainLive, emitPayments, payloadOf, rows, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { deadLettersOf, deliveriesOf } from '../support/records.ts';
import { deleteDeliveries, leaveSubscription } from '../support/scenes.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';
import { OPERATOR_SECRET, operatorToken } from '../support/operator-token.ts';
import { freePort } from '../support/postgres.ts';

const ESCAPE = '\u001B';

/** Records payments that every subscriber receives. */
async function deliveredToAll({ db }: Bus, count: number): Promise<void> {
  await emitPayments(db, 1, count);
  const all = catalog['payment.captured'].subscribers.map((name) =>
    subscriber(name, { 'payment.captured': () => undefined }),
  );
  await drainLive(db, all);
}

describe('topics', () => {
  test('topics says that no topic needs attention, and counts the quiet topics', async ({ postbud }) => {
    const { code, out } = await postbud('topics');
    expect(code).toBe(0);
    expect(out).toMatch(/^ {2}pending +0$/m);
    expect(out).toContain('No topic needs attention.');
    expect(out).toMatch(/^Topics \(.+; \d+ quiet topics not shown\)$/m);
    expect(out).toContain('To list the quiet topics too: npx postbud topics --show all');
  });

  test('topics shows what goes wrong, and the topics that need attention with their subscribers', async ({
    operators,
    postbud,
  }) => {
    await operators.died(2);
    const { out } = await postbud('topics');
    expect(out).toMatch(/^Over, with dead letters left/m);
    expect(out).toMatch(/^payment\.captured +0 +0 +2\b/m);
    expect(out).toMatch(/^ {2}ledger +0 +0 +2 +! failing$/m);
    expect(out).toMatch(/^ {2}accounting +2 +0 +0 .*unattached$/m);
    expect(out).not.toContain('booking.created');
  });

  test('topics shows all topics where it is asked to', async ({ postbud }) => {
    expect((await postbud('topics --show all')).out.split('\n').length).toBeGreaterThan(60);
  });

  test('topics --json is the endpoint’s answer', async ({ postbud }) => {
    const { out, err, json } = await postbud('topics --json');
    expect(err).toBe('');
    expect(json()).toMatchObject({ relay: { state: expect.any(String) }, totals: { pending: 0 }, hours: {} });
    expect(out).toContain('\n  "totals": {');
  });

  test.for([40, 60, 80, 120] as const)(
    'topics fits a terminal of %i columns',
    async (columns, { operators, postbud }) => {
      await operators.died(1);
      const { out } = await postbud('topics --show all', { columns });
      expect(Math.max(...out.split('\n').map((line) => stringWidth(line)))).toBeLessThanOrEqual(
        Math.max(columns, 62),
      );
    },
  );
});

describe('webhooks', () => {
  test('webhooks lists the providers, what was received and what was refused, within 80 columns', async ({
    bus,
    postbud,
  }) => {
    await emitAlone(bus.db, 'webhook.cardpayments.received', payloadOf('webhook.cardpayments.received'));
    await rows(
      bus.db,
      `insert into webhook_rejections (provider, reason, day, count, last_at, recent_at) values
         ('cardpayments', 'signature_mismatch', (now() at time zone 'utc')::date, 57, now(), array[now()])`,
    );
    const { code, out } = await postbud('webhooks', { columns: 80 });
    expect(code).toBe(0);
    for (const words of ['not configured', 'evt_1QxK2mCaptured', 'signature_mismatch', '57'])
      expect(out).toContain(words);
    expect(out).toMatch(/cardpayments +not configured +\S+ +not asked for/);
    expect(Math.max(...out.split('\n').map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
    expect((await postbud('webhooks --json')).json()).toMatchObject({ nextCursor: null });
  });

  test('webhooks --id says whether a webhook was received, and an unknown provider is refused with those that there are', async ({
    postbud,
  }) => {
    const { code, out } = await postbud('webhooks --id evt_9');
    expect([code, out]).toEqual([0, expect.stringContaining('No webhook with the id evt_9')]);
    const { code: wrong, err } = await postbud('webhooks --provider cardpayment');
    expect([wrong, err]).toEqual([
      2,
      expect.stringContaining("--provider 'cardpayment': expected one of cardpayments"),
    ]);
  });
});

describe('events', () => {
  test('events lists the newest, and finds one by any id in it', async ({ bus, operators, postbud }) => {
    const [delivery] = await operators.died(2);
    const [oldest] = await rows<{ id: string }>(bus.db, 'select id::text from events order by id');
    const listed = await postbud('events --limit 1');
    expect(listed.code).toBe(0);
    expect(listed.out).toMatch(/payment\.captured, intent \S+ +✗ dead-lettered/);
    expect(listed.out).toMatch(/Details: npx postbud why \S+\nThere are more: add --limit 5\. /);
    const { out } = await postbud(`events ${delivery}`);
    expect(out).toContain('delivery id');
    expect(out).toContain(oldest!.id);
    const dead = await postbud('events --subscriber ledger --state dead-lettered');
    expect((await postbud('events --state dead_lettered')).out).toContain('dead-lettered');
    expect(dead.out).toMatch(/payment\.captured, intent \S+ +✗ dead-lettered/);
    expect((await postbud('events --json --limit 1')).json()).toMatchObject({
      items: [{}],
      isComplete: true,
    });
  });

  test('events says when nothing is found, and what was not searched', async ({ operators, postbud }) => {
    expect((await postbud('events')).out).toMatch(/^No events yet\. /);
    await operators.died(1);
    expect((await postbud('events --topic booking.created')).out).toMatch(
      /^No event matches these filters\. /,
    );
    expect((await postbud('events pi_nowhere')).out).toMatch(
      /^No event found by 'pi_nowhere'\. Ids are compared whole, with their case\. /,
    );
    expect((await postbud('events kari@example.no')).out).toContain('In payloads only ids are looked for');
  });

  test.for([
    [
      'events --topic payment.capture',
      "--topic 'payment.capture': expected a topic of the catalog; did you mean payment.captured?",
    ],
    [
      'events --subscriber acounting',
      "--subscriber 'acounting': expected a subscriber of the catalog; did you mean accounting?",
    ],
    ['events --state dead', '--state'],
    ['events --since yesterday', '--since'],
    ['events one two', "Unexpected argument 'two'."],
  ] as const)('%s is refused with what is wrong', async ([args, message], { postbud }) => {
    const { code, out, err } = await postbud(args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
  });

  test('events --follow continues a long line below, with its words whole', async ({
    operators,
    server,
    postbud,
  }) => {
    await operators.died(1);
    let asked = 0;
    // The second answer ends it.
    server.answerInstead = async () =>
      (asked += 1) > 1 ? Response.json(problemValue('unauthorized'), { status: 401 }) : undefined;
    const { code, out } = await postbud('events --follow', { columns: 80 });
    expect([code, asked]).toEqual([4, 2]);
    expect(out).toMatch(/✗ dead-lettered +[\da-f-]{36}\n +payment\.captured +intent \S+$/);
    expect(Math.max(...out.split('\n').map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
  });

  test.for([60, 80, 120] as const)(
    'events fits a terminal of %i columns',
    async (columns, { operators, postbud }) => {
      const [delivery] = await operators.died(1);
      for (const args of ['events --subscriber ledger', `events ${delivery}`, 'events kari@example.no']) {
        const { out } = await postbud(args, { columns });
        expect(Math.max(...out.split('\n').map((line) => stringWidth(line)))).toBeLessThanOrEqual(columns);
      }
    },
  );
});

describe('why', () => {
  test('why says why an event is not delivered, then the same of each delivery, with what can be done', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.held(2);
    const ids = await rows<{ id: string }>(bus.db, 'select id::text from events order by created_at, seq');
    const { code, out } = await postbud(`why ${ids[1]!.id}`);
    expect(code).toBe(0);
    expect(out).toMatch(
      /^Not delivered to ledger: behind \S+: it failed with TypeError: the ledger is down; next try [\d:]+; /,
    );
    expect(out).toMatch(/^ledger · pending\n {2}Behind .*\n(?: {2}.*\n)* {2}delivery [\da-f-]{36}\.ledger$/m);
    expect(out).toMatch(/^accounting · pending\n {2}This deployment has no handler/m);
    expect(out).toMatch(/^ {2}When it is fixed: npx postbud retry [\da-f-]{36}\.ledger --wait$/m);
  });

  test('why finds the event of a delivery, and lists several that have an id', async ({
    bus,
    operators,
    postbud,
  }) => {
    const [dead] = await operators.died(1);
    const [event] = await rows<{ id: string }>(bus.db, 'select id::text from events');
    const one = await postbud(`why ${dead} --json`);
    expect(one.json()).toMatchObject({ event: { eventId: event!.id } });
    expect((await postbud(`why ${dead}`)).out).toMatch(
      /^ledger ✗ dead-lettered at [\d:]+\n {2}delivery \S+\n {2}[\d:]+ {2}✗ Attempt 1: failed .*\n +permanent: refused; dead-lettered$/m,
    );
    await operators.died(2);
    const several = await postbud('why bkg_48213');
    expect([several.code, several.out]).toEqual([
      0,
      expect.stringMatching(/^3 events found by 'bkg_48213', newest first\./),
    ]);
    const [newest] = (await postbud('events bkg_48213 --json')).json()['items'] as { eventId: string }[];
    expect((await postbud('why bkg_48213 --json')).json()).toMatchObject({
      event: { eventId: newest!.eventId },
    });
  });

  test('why answers for the undelivered event of several', async ({ bus, operators, postbud }) => {
    await deliveredToAll(bus, 30);
    const [dead] = await operators.died(1);
    const { eventId } = (await deliveriesOf(bus.db)).find(({ state }) => state === 'dead_lettered')!;
    const { code, out } = await postbud('why bkg_48213');
    expect(code).toBe(0);
    expect(out).toMatch(
      new RegExp(
        `^31 events found by .*\n\nThe newest that is not delivered is ${eventId}:\n\nDead-lettered for ledger `,
        's',
      ),
    );
    expect(out).toContain(dead);
    expect((await postbud('why bkg_48213 --json')).json()).toMatchObject({ event: { eventId: eventId } });
  });

  test('why lists several undelivered events with their states, and answers for the newest', async ({
    bus,
    operators,
    postbud,
  }) => {
    await deliveredToAll(bus, 1);
    await operators.died(2);
    const newest = await rows<{ id: string }>(
      bus.db,
      'select id::text from events order by seq desc limit 1',
    );
    const { out } = await postbud('why bkg_48213');
    expect(out).toMatch(/^3 events found by 'bkg_48213', newest first\./);
    const [list = ''] = out.split('The newest that');
    expect(list.match(/✗ dead-lettered/g)).toHaveLength(2);
    expect(list.match(/✓ delivered/g)).toHaveLength(1);
    expect(out).toMatch(
      new RegExp(`\nThe newest that is not delivered is ${newest[0]!.id}:\n\nDead-lettered for ledger `),
    );
  });

  test('why fits 80 columns', async ({ operators, postbud }) => {
    const [, second] = await operators.held(2);
    const { out } = await postbud(`why ${second}`, { columns: 80 });
    expect(out.split('\n').filter((line) => stringWidth(line) > 80)).toEqual([]);
    expect(out).toContain('next try');
  });

  test('why ends with 1 for an unknown id, and with 2 without one', async ({ postbud }) => {
    expect(await postbud('why 019c7f3e-0000-7000-8000-000000000000')).toMatchObject({
      code: 1,
      err: expect.stringContaining("No event found by '019c7f3e-0000-7000-8000-000000000000'."),
    });
    expect(await postbud('why')).toMatchObject({
      code: 2,
      err: expect.stringContaining('The event id is missing.'),
    });
  });
});

describe('dead-letters', () => {
  test('dead-letters says when there are none, and when none match', async ({ operators, postbud }) => {
    expect((await postbud('dead-letters')).out).toBe(
      'No dead letters. Every delivery has succeeded, was dismissed or is still being retried.',
    );
    await operators.died(1);
    expect((await postbud('dead-letters --topic booking.created')).out).toBe(
      'No dead letters match these filters. 1 dead letter without filters.',
    );
  });

  test('dead-letters lists the newest with their errors, and how to see more', async ({
    operators,
    postbud,
  }) => {
    await operators.died(3);
    const { code, out } = await postbud('dead-letters --limit 2');
    expect(code).toBe(0);
    expect(out).toMatch(/^3 dead letters\. /m);
    expect(out).toMatch(/^By error \(1 error\)$/m);
    expect(out).toMatch(/^ +3 {2}permanent: refused {2}payment\.captured to ledger/m);
    expect(out.match(/ {2}[\da-f-]{36}\.[a-z-]+$/gm)).toHaveLength(2);
    expect(out).toContain('There are more: add --limit 10.');
  });

  test('dead-letters reads as many pages as it needs', async ({ bus, operators, postbud }) => {
    await operators.died(120);
    const { json } = await postbud('dead-letters --limit 110 --json');
    const ids = (json()['items'] as { deliveryId: string }[]).map(({ deliveryId }) => deliveryId);
    expect(ids).toEqual((await deadLettersOf(bus.db)).slice(0, 110));
    expect(json()).toMatchObject({ total: 120, nextCursor: expect.any(String) });
    expect((await postbud('dead-letters --limit 500 --json')).json()).toMatchObject({ nextCursor: null });
  });

  test('dead-letters shows one dead letter within the terminal’s width', async ({ operators, postbud }) => {
    await operators.died(1, `refused ${'and refused again '.repeat(20)}`);
    const [id] = await operators.idsIn('dead_lettered');
    const { code, out } = await postbud(`dead-letters ${id}`, { columns: 72 });
    expect(code).toBe(0);
    expect(out).toMatch(/^Dead-lettered for ledger at /);
    expect(out).toContain(`\n  delivery ${id}\n`);
    expect(out).toMatch(/✗ Attempt 1: failed/);
    expect(out).toContain('"amountMinor": 1');
    expect(out).toContain(`:\n    npx postbud replay --delivery ${id}\n`);
    const lines = out.split('\n').filter((line) => !line.includes('npx postbud'));
    expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(72);
  });

  test('an unknown dead letter ends with 1', async ({ postbud }) => {
    const { code, err } = await postbud('dead-letters 019c7f3e-0000-7000-8000-000000000000.ledger');
    expect([code, err]).toEqual([
      1,
      'Unknown delivery. Copy its id from the list of dead letters or of held lanes, for example 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting.',
    ]);
  });

  test('why --reveal needs the scope, and says that it is logged', async ({ bus, operators, postbud }) => {
    await operators.died(1);
    const [id] = await operators.idsIn('dead_lettered');
    const wrong = await postbud(`why ${id} --reveal ${'x'.repeat(501)}`);
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringMatching(/^--reveal: /)]);
    const revealed = await postbud(`why ${id} --reveal because`);
    expect(revealed.out).toContain('With personal data');
    expect(revealed.err).toContain('operator log');
    expect(await rows(bus.db, 'select action, reason from operator_actions')).toEqual([
      { action: 'reveal', reason: 'because' },
    ]);
    vi.stubEnv('POSTBUD_TOKEN', await operatorToken({ scope: 'event-bus:read event-bus:replay' }));
    const refused = await postbud(`why ${id} --reveal because`);
    expect([refused.code, refused.out]).toEqual([4, '']);
    expect(refused.err).toContain('--scope "event-bus:read event-bus:reveal"');
  });

  test('a stranger’s text in a dead letter cannot control the terminal', async ({ operators, postbud }) => {
    await operators.died(1, `${ESCAPE}[2J${ESCAPE}]0;title\u0007 \u009B31m\u202E`);
    const [id] = await operators.idsIn('dead_lettered');
    const shown = [`dead-letters`, `dead-letters ${id}`, 'dead-letters --json', `dead-letters ${id} --json`];
    for (const args of shown) {
      const { code, out } = await postbud(args);
      expect(code).toBe(0);
      expect(out).not.toMatch(/[^\P{Cc}\n]|\u202E/u);
    }
  });
});

test('dead-letters shows what a component answered, behind a bar and unable to control the terminal', async ({
  bus,
  operators,
  postbud,
}) => {
  await emitPayments(bus.db, 1, 1);
  const answer = `{\n  "error": "${'licence expired '.repeat(5)}"\r\n}${ESCAPE}[2J\u202E`;
  const refuse = () => {
    throw Object.assign(new PermanentError('the subscriber answered 410 Gone'), { answer });
  };
  await drainLive(bus.db, [ledger(refuse)]);
  const [id] = await operators.idsIn('dead_lettered');
  const { out } = await postbud(`dead-letters ${id}`, { columns: 60 });
  expect(out).toMatch(/^ +│ \{\n +│ {3}"error": "licence expired licence/m);
  expect(out).toMatch(/^ +│ \}␛\[2J⟨U\+202E⟩$/m);
  const lines = out.split('\n').filter((line) => !line.includes('npx postbud'));
  expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(60);
  expect((await postbud(`dead-letters ${id}`)).out).toContain(`"error": "${'licence expired '.repeat(5)}"\n`);
  expect((await postbud(`dead-letters ${id} --json`)).json()).toMatchObject({
    attempts: [{ error: { answer } }],
  });
});

describe('replay', () => {
  const LAST_DAY = 'replay payment.captured --since 24h';

  test('replay --dry-run shows the replay and does nothing, with a reader’s token', async ({
    operators,
    postbud,
  }) => {
    await operators.died(2);
    vi.stubEnv('POSTBUD_TOKEN', await operatorToken({ scope: 'event-bus:read' }));
    const { code, out, asked } = await postbud(`${LAST_DAY} --dry-run`);
    expect([code, asked]).toEqual([0, []]);
    expect(out).toContain('Would replay 2 dead letters.');
    expect(out).toMatch(/^payment\.captured {2}ledger +2$/m);
    expect(out).toContain('! ledger is still failing. What they get now will probably fail too.');
    expect((await postbud(`${LAST_DAY} --dry-run --json`)).json()).toMatchObject({ matched: 2 });
    const named = await postbud('replay --topic payment.captured --since 24h --dry-run --json');
    expect(named.json()).toMatchObject({ matched: 2, request: { topic: 'payment.captured' } });
    expect(await operators.idsIn('dead_lettered')).toHaveLength(2);
  });

  test('replay on a terminal asks, and takes only yes for a yes', async ({ operators, postbud }) => {
    await operators.died(2);
    for (const answer of ['', 'n', 'what?']) {
      const { code, out, err, asked } = await postbud(LAST_DAY, { answer: () => answer });
      expect([code, out, asked]).toEqual([1, '', ['\nReplay them? [y/N] ']]);
      expect(err).toContain('Replay 2 dead letters?');
      expect(err).toContain('Nothing was replayed.');
    }
    expect(await operators.idsIn('dead_lettered')).toHaveLength(2);
    const { code, out } = await postbud(LAST_DAY, { answer: () => 'y' });
    expect(code).toBe(0);
    expect(out).toContain('Replayed 2 deliveries.');
    expect(await operators.idsIn('pending')).toHaveLength(2);
  });

  test('replay has the number typed when it is more than a hundred', async ({ operators, postbud }) => {
    await operators.died(101);
    expect((await postbud(LAST_DAY, { answer: () => 'y' })).code).toBe(1);
    const { code, asked } = await postbud(LAST_DAY, { answer: () => '101' });
    expect([code, asked]).toEqual([0, ['\nType 101 to replay them: ']]);
    expect(await operators.idsIn('pending')).toHaveLength(101);
  });

  test('replay replays what was shown or nothing, and reports a race', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.died(3);
    const [first] = await operators.idsIn('dead_lettered');
    const { code, err } = await postbud(LAST_DAY, {
      answer: async () => {
        await replay(bus.db, { deliveryIds: [first!] }, 'another');
        return 'y';
      },
    });
    expect(code).toBe(1);
    expect(err).toContain('Nothing was replayed: 2 deliveries match, not 3');
    expect(err).toContain('See what was done: npx postbud log.');
    expect(await operators.idsIn('dead_lettered')).toHaveLength(2);
  });

  test('replay --yes does not ask, and sends who and why', async ({ bus, operators, postbud }) => {
    await operators.died(2);
    const wrong = await postbud(`${LAST_DAY} --yes --expected 3`);
    expect([wrong.code, await operators.idsIn('dead_lettered')]).toEqual([
      1,
      expect.objectContaining({ length: 2 }),
    ]);
    expect(wrong.err).toContain('Nothing was replayed: 2 match, not 3.');
    const [id] = await operators.idsIn('dead_lettered');
    const done = await postbud(`replay --delivery ${id} --reason fixed --yes --expected 1 --json`);
    expect(done.json()).toMatchObject({ matched: 1, replayed: 1, replayId: expect.any(String) });
    expect(await rows(bus.db, 'select requested_by, reason, replayed from replays')).toEqual([
      { requested_by: 'kari@solvik.example.no', reason: 'fixed', replayed: 1 },
    ]);
  });

  test('replay says when there is nothing to replay, and leaves no entry in the log', async ({
    bus,
    postbud,
  }) => {
    vi.stubEnv('POSTBUD_TOKEN', await operatorToken({ scope: 'event-bus:read' }));
    const { code, err, out } = await postbud(`${LAST_DAY} --yes`);
    expect(await rows(bus.db, 'select from replays')).toEqual([]);
    expect([code, err, out]).toEqual([
      0,
      expect.stringMatching(
        /^Nothing to replay\nNothing matches: payment\.captured, dead-lettered in the last 24h\.\n/,
      ),
      '',
    ]);
  });

  test('replay asks again when its answer is lost, and replays once', async ({
    bus,
    server,
    operators,
    postbud,
  }) => {
    await operators.died(2);
    let posts = 0;
    server.answerInstead = async (request) => {
      if (request.method !== 'POST' || (posts += 1) > 1) return undefined;
      server.answerInstead = null;
      await fetch(request.clone());
      server.answerInstead = async () => void (posts += 1);
      return new Response(new ReadableStream({ start: (answer) => answer.error(new Error('cut')) }));
    };
    const { code, out } = await postbud(`${LAST_DAY} --yes`);
    expect([code, posts]).toEqual([0, 2]);
    expect(out).toContain('Replayed 2 deliveries.');
    expect(await rows(bus.db, 'select replayed from replays')).toEqual([{ replayed: 2 }]);
  });

  test('replay names the wrong option or topic', async ({ postbud }) => {
    const wrongTopic = await postbud('replay payment.captred --since 24h --yes');
    expect(wrongTopic.code).toBe(2);
    expect(wrongTopic.err).toBe(
      "the topic 'payment.captred': expected a topic of the catalog; did you mean payment.captured?",
    );
    const wrongWindow = await postbud('replay payment.captured --since 24x --yes');
    expect(wrongWindow.code).toBe(2);
    expect(wrongWindow.err).toMatch(/^--since '24x': expected a time span such as/m);
  });

  test('an unknown subscriber or topic is answered with the nearest name', async ({ operators, postbud }) => {
    await operators.died(1);
    const meant = "--subscriber 'legder': expected a subscriber of the catalog; did you mean ledger?";
    for (const args of ['dead-letters', 'replay payment.captured --since 24h --yes']) {
      const { code, out, err } = await postbud(`${args} --subscriber legder`);
      expect([code, out, err]).toEqual([2, '', meant]);
    }
    const unknown = await postbud('dead-letters --topic nothing.like.it');
    expect([unknown.code, unknown.err]).toEqual([
      2,
      "--topic 'nothing.like.it': expected a topic of the catalog, for example payment.captured",
    ]);
  });

  test('names that only another release’s catalog has are accepted', async ({ bus, postbud }) => {
    await leaveSubscription(bus.db, 'tea.brewed', 'teapot');
    const { code, out } = await postbud('dead-letters --topic tea.brewed --subscriber teapot');
    expect([code, out]).toEqual([0, expect.stringMatching(/^No dead letters\. /)]);
    const { err } = await postbud('dead-letters --subscriber teepot');
    expect(err).toContain(
      "--subscriber 'teepot': expected a subscriber of the catalog, for example accounting",
    );
  });

  test.for([['--search', `dead-letters --search ${'x'.repeat(201)}`]] as const)(
    'a wrong value is reported under its option %s',
    async ([option, line], { postbud }) => {
      const { code, err } = await postbud(line);
      expect([code, err]).toEqual([2, expect.stringMatching(new RegExp(`^${option}: `))]);
    },
  );
});

describe('subscriber', () => {
  test('subscriber shows one within 80 columns, and where each topic is handled', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.died(2);
    await drainLive(bus.db, [ledger()]);
    await replay(bus.db, { topic: 'payment.captured', since: '1h', reason: 'fixed' }, 'kari');
    const { code, out } = await postbud('subscriber ledger', { columns: 80 });
    expect(code).toBe(0);
    expect(out).toMatch(/^payment\.captured +\d+ +\d+ +defaults\n {2}runs: in this process$/m);
    expect(out).toContain('Times are UTC.');
    expect(Math.max(...out.split('\n').map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
    const asJson = await postbud('subscriber ledger --json');
    expect(asJson.json()).toMatchObject({ items: [{ subscriber: 'ledger', state: 'failing' }] });
  });

  test.for([
    ['subscriber', 'The subscriber is missing.'],
    [
      'subscriber legder',
      'Unknown subscriber. All subscribers: npx postbud subscribers. Did you mean ledger?',
    ],
    [
      'topic payment.capture',
      'Unknown topic. All topics: npx postbud topics --show all. Did you mean payment.captured?',
    ],
  ] as const)('%s is refused with what would be right', async ([line, words], { postbud }) => {
    const { code, out, err } = await postbud(line);
    expect([code, out, err.split('\n')[0]]).toEqual([2, '', words]);
  });
});

describe('doctor', () => {
  test('doctor finds nothing wrong with a bus that kept its promises', async ({ operators, postbud }) => {
    await operators.died(2);
    const { code, out } = await postbud('doctor');
    expect(code).toBe(0);
    expect(out).toContain('Checked the newest 2 events');
    expect(out).toMatch(/^✓ events have their places in the order of creation$/m);
    expect(out).toContain('The bus kept all its promises.');
  });

  test('doctor ends with 1 and the broken promise', async ({ bus, operators, postbud }) => {
    await operators.died(2);
    const [id] = await operators.idsIn('dead_lettered');
    await deleteDeliveries(bus.db, 'id = $1', [id]);
    const { code, out } = await postbud('doctor --events 10');
    expect(code).toBe(1);
    expect(out).toMatch(/✗ every event has one place in the order, or awaits it\n +1 event: /);
    expect(out).toMatch(/The bus broke 1 promise\./);
    const asJson = await postbud('doctor --json');
    expect(asJson.code).toBe(1);
    expect(asJson.json()).toMatchObject({
      findings: expect.arrayContaining([expect.objectContaining({ count: 1 })]),
    });
  });

  test('the doctor’s endpoint is bounded', async ({ server }) => {
    const get = async (query: string, headers: Record<string, string> = {}) =>
      await fetch(`${server.url}/platform/event-bus/doctor${query}`, { headers });
    const authorization = `Bearer ${await operatorToken({ scope: 'event-bus:read' })}`;
    for (const events of ['0', '20001', '1.5', 'all'])
      expect((await get(`?events=${events}`, { authorization })).status).toBe(400);
    expect(await (await get('?events=20000', { authorization })).json()).toMatchObject({
      events: 0,
      findings: [],
    });
  });
});

describe('what goes wrong is told with what to do', () => {
  const problem = (status: number, code: ProblemCode, headers: Record<string, string> = {}) =>
    Response.json(problemValue(code, { detail: 'In other words.' }), { status, headers });

  test.for([
    ['a token that is not valid', '', 4, ['The token is invalid or has expired', 'npm run -s token']],
    ['a token that is none', 'a b', 4, ['contains spaces']],
  ] as const)('%s is reported with what to do', async ([, token, expected, words], { postbud }) => {
    vi.stubEnv('POSTBUD_TOKEN', token || 'not.a.token');
    const { code, out, err } = await postbud('topics');
    expect([code, out]).toEqual([expected, '']);
    for (const word of words) expect(err).toContain(word);
  });

  test.for([
    [
      'a limit that was reached',
      () => problem(429, 'rate_limited', { 'retry-after': '90' }),
      1,
      /Try again in 1 min 30 s\.$/,
    ],
    [
      'no database behind it',
      () => problem(503, 'database_unavailable', { 'retry-after': '5' }),
      3,
      /^In other words\.\nTry again in 5 s/,
    ],
    ['no key to check tokens with', () => problem(503, 'operators_not_configured'), 1, /In other words\./],
    [
      'a page in place of an answer',
      () => new Response('<!doctype html>', { status: 404 }),
      3,
      /not as a Postbud server does/,
    ],
    ['a page that is found', () => new Response('<!doctype html>'), 3, /not as a Postbud server does/],
    [
      'JSON that is too deep to be looked at',
      () => new Response('['.repeat(50_000) + ']'.repeat(50_000)),
      3,
      /not as/,
    ],
    [
      'a proxy’s page',
      () => new Response('<h1>Bad gateway</h1>', { status: 502 }),
      1,
      /answered 502\.\n.*proxy in front/,
    ],
    [
      'a limit without an end',
      () => problem(429, 'rate_limited', { 'retry-after': '99999999999999' }),
      1,
      /^In other words\.\nLook for request/,
    ],
    ['a redirect to nowhere', () => new Response(null, { status: 304 }), 3, /answered 304, but not as/],
    [
      'a compressed answer that is damaged',
      () => new Response('{}', { headers: { 'content-encoding': 'gzip' } }),
      3,
      /can’t be reached: its compressed answer is damaged\./,
    ],
    [
      'an answer of another version',
      () => Response.json({ generatedAt: '2026-11-22T08:00:00Z' }),
      1,
      /relay: /,
    ],
    [
      'a redirect to another host',
      () => new Response(null, { status: 307, headers: { location: 'https://other.example/x' } }),
      3,
      /--url https:\/\/other\.example$/,
    ],
  ] as const)(
    'a server that answers with %s is reported with what to do',
    async ([, answer, expected, words], { server, postbud }) => {
      server.answerInstead = async () => answer();
      const { code, out, err } = await postbud('topics');
      expect([code, out]).toEqual([expected, '']);
      expect(err).toMatch(words);
    },
  );

  test('a server that does not listen is reported with what to do', async ({ postbud }) => {
    const { code, err } = await postbud(`topics --url http://localhost:${await freePort()}`);
    expect([code, err]).toEqual([
      3,
      expect.stringContaining('nothing listens on this port.\nIs it running (npm start)?'),
    ]);
  });

  test('a server that does not speak HTTPS is reported', async ({ server, postbud }) => {
    const plain = await postbud(`topics --url ${server.url.replace('http:', 'https:')}`);
    expect([plain.code, plain.err]).toEqual([3, expect.stringContaining('does not speak HTTPS')]);
  });

  test('an answer may be compressed, as hosts do, which makes it many times smaller', async ({
    server,
    postbud,
  }) => {
    const plain = await postbud('topics --json');
    const asked: (string | null)[] = [];
    server.answerInstead = async ({ headers }) => {
      asked.push(headers.get('accept-encoding'));
      return new Response(gzipSync(plain.out), { headers: { 'content-encoding': 'gzip' } });
    };
    expect([(await postbud('topics --json')).out, asked]).toEqual([plain.out, ['gzip']]);
  });
});

describe('the token', () => {
  const publish = (folder: string, url: string) =>
    writeFileSync(
      join(folder, 'development.json'),
      JSON.stringify({ url, variables: { OPERATOR_JWT_SECRET: OPERATOR_SECRET } }),
    );

  test('a token is made with the secret of npm start, for a local server only', async ({
    server,
    folder,
    postbud,
  }) => {
    vi.stubEnv('POSTBUD_TOKEN', '');
    expect((await postbud('topics')).code).toBe(4);
    publish(folder, server.url);
    // The server that runs here is also the one that is meant.
    vi.stubEnv('POSTBUD_URL', '');
    const { code, out, err } = await postbud('topics --json');
    expect([code, err]).toEqual([0, `No token given: minted one with the secret in ${folder}/.`]);
    expect(() => JSON.parse(out)).not.toThrow();
    vi.stubEnv('OPERATOR_JWT_SECRET', OPERATOR_SECRET);
    const elsewhere = await postbud('topics --url http://postbud.invalid');
    expect([elsewhere.code, elsewhere.err]).toEqual([4, expect.stringContaining('is not HTTPS')]);
  });

  test('a made token has only the scopes that the command needs', async ({
    server,
    folder,
    operators,
    postbud,
  }) => {
    vi.stubEnv('POSTBUD_TOKEN', '');
    publish(folder, server.url);
    const scopes: unknown[] = [];
    server.answerInstead = async ({ headers }) => {
      const [, claims] = (headers.get('authorization') ?? '').split('.');
      scopes.push((JSON.parse(Buffer.from(claims!, 'base64url').toString()) as { scope: string }).scope);
      return undefined;
    };
    await operators.died(1);
    await postbud('replay payment.captured --since 24h --yes');
    expect(scopes).toEqual(['event-bus:read', 'event-bus:replay']);
  });

  test('a token file goes before the environment', async ({ folder, postbud }) => {
    const file = join(folder, 'token');
    writeFileSync(file, `${await operatorToken()}\n`);
    vi.stubEnv('POSTBUD_TOKEN', 'not.a.token');
    expect((await postbud(`topics --token-file ${file}`)).code).toBe(0);
    const { code, err } = await postbud(`topics --token-file ${file}.gone`);
    expect([code, err]).toEqual([2, expect.stringContaining('ENOENT')]);
  });
});
