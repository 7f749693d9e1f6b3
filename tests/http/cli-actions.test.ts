import stringWidth from 'string-width';
import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { drainLive, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

const actionsOf = (bus: Bus) =>
  rows<{ action: string; topic: string | null; subscriber: string | null; reason: string | null }>(
    bus.db,
    'select action, topic, subscriber, reason from operator_actions order by at',
  );

const widthOf = (text: string) => Math.max(...text.split('\n').map((line) => stringWidth(line)));

describe('retry', () => {
  test('retry makes the delivery that holds a lane due, and records why', async ({
    bus,
    operators,
    postbud,
  }) => {
    const [first] = await operators.held(2);
    const { code, out, err } = await postbud(`retry ${first} --reason fixed`);
    expect([code, out, err]).toEqual([0, '✓ Retried payment.captured to ledger: it is due now.', '']);
    expect(await actionsOf(bus)).toEqual([
      { action: 'retry', topic: 'payment.captured', subscriber: 'ledger', reason: 'fixed' },
    ]);
  });

  test('retry --wait says how the attempt ended', async ({ bus, server, operators, postbud }) => {
    const [first] = await operators.held(2);
    const relayed = (handler: () => void) => {
      server.answerInstead = async ({ method }) => {
        if (method === 'POST')
          server.answerInstead = async () => void (await drainLive(bus.db, [ledger(handler)]));
        return undefined;
      };
    };
    relayed(() => {
      throw new TypeError('still down');
    });
    const failed = await postbud(`retry ${first} --wait`);
    expect([failed.code, failed.out.split('\n')[1]]).toEqual([
      1,
      '✗ Attempt 2: failed, TypeError: still down, next attempt after 5 min.',
    ]);
    relayed(() => undefined);
    const delivered = await postbud(`retry ${first} --wait`);
    expect([delivered.code, delivered.out.split('\n')[1]]).toEqual([0, '✓ Attempt 3: delivered.']);
  });

  test('retry --wait ends with 1 when no relay comes in time', async ({ operators, postbud }) => {
    const [first] = await operators.held(1);
    const { code, out } = await postbud(`retry ${first} --wait --timeout 1`);
    expect([code, out]).toEqual([
      1,
      expect.stringContaining('✗ No relay has attempted it yet. The time is up.'),
    ]);
  });

  test('retry of a delivery that does not hold its lane is refused with 1', async ({
    operators,
    postbud,
  }) => {
    const [, second] = await operators.held(2);
    const { code, err } = await postbud(`retry ${second}`);
    expect([code, err]).toEqual([
      1,
      'An earlier delivery in this lane is unfinished. Reload to see which delivery holds the lane.\nnpx postbud why <id> says what it waits for.',
    ]);
    expect((await postbud('retry 00000000-0000-7000-8000-000000000000.ledger')).code).toBe(1);
  });
});

describe('probe', () => {
  test('probe tries the delivery that holds a lane, at no cost, and says how that ended', async ({
    bus,
    server,
    operators,
    postbud,
  }) => {
    const [first] = await operators.held(2);
    server.answerInstead = async ({ method }) => {
      if (method === 'POST')
        server.answerInstead = async () => {
          await drainLive(bus.db, [
            ledger(() => {
              throw new TypeError('still down');
            }),
          ]);
          return undefined;
        };
      return undefined;
    };
    const { code, out } = await postbud(`probe ${first} --reason check --wait`);
    expect([code, out.split('\n')]).toEqual([
      1,
      [
        '✓ Tried payment.captured to ledger: it is due now. If it fails, that costs no attempt.',
        expect.stringMatching(
          /^✗ Probe: no answer, TypeError: still down, no attempt used up, next attempt after (?:1 min|\d+ s)\.$/,
        ),
      ],
    ]);
    expect((await operators.ask(`/dead-letters/${first}`)).json).toMatchObject({
      failures: 1,
    });
    expect(await actionsOf(bus)).toMatchObject([{ action: 'probe', reason: 'check' }]);
  });

  test('probe of an incident tries the first delivery that holds one of its lanes', async ({
    operators,
    postbud,
  }) => {
    const [first] = await operators.held(2);
    const tried = '✓ Tried payment.captured to ledger: it is due now. If it fails, that costs no attempt.';
    const none = await postbud('probe ledger');
    expect([none.code, none.err]).toEqual([
      1,
      'ledger has no outage. Probe a delivery that holds one of its lanes instead: npx postbud subscriber ledger lists them.',
    ]);
    const [{ incidentId }] = (await operators.ask('/incidents')).json['items'] as [{ incidentId: string }];
    expect((await postbud(`probe ${incidentId}`)).out).toBe(tried);
    const { json } = await operators.ask(`/incidents/${incidentId}`);
    expect(json).toMatchObject({ actions: [{ action: 'probe', incidentId }] });
    const twice = await postbud(`probe ${first}`);
    expect([twice.code, twice.err]).toEqual([1, expect.stringContaining('not waiting for a retry')]);
  });
});

describe('skip', () => {
  test('skip dead-letters the delivery that holds a lane, for a reason', async ({
    bus,
    operators,
    postbud,
  }) => {
    const [first] = await operators.held(2);
    const without = await postbud(`skip ${first}`);
    expect([without.code, without.err]).toEqual([
      2,
      `--reason is missing: it is recorded in the operator log.\nFor example: npx postbud skip ${first} --reason "answered by phone"`,
    ]);
    const { code, out } = await postbud(`skip ${first} --reason hopeless`);
    expect([code, out.split('\n')]).toEqual([
      0,
      [
        '✓ Skipped payment.captured to ledger: it is a dead letter now. What waited behind it follows.',
        `To deliver it later: npx postbud replay --delivery ${first}`,
      ],
    ]);
    expect(await operators.idsIn('dead_lettered')).toEqual([first]);
    expect(await actionsOf(bus)).toMatchObject([{ action: 'skip', reason: 'hopeless' }]);
    const again = await postbud(`skip ${first} --reason hopeless`);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining('not waiting for a retry')]);
  });
});

describe('pause and resume', () => {
  test('a topic is paused at once, and resumed', async ({ bus, operators, postbud }) => {
    await operators.held(2);
    const paused = await postbud('pause ledger --topic payment.captured --reason moving');
    expect([paused.code, paused.out.split('\n')]).toEqual([
      0,
      [
        expect.stringMatching(/^✓ ledger is paused for payment\.captured\. /),
        'To end it: npx postbud resume ledger --topic payment.captured',
      ],
    ]);
    const resumed = await postbud('resume ledger --topic payment.captured --reason moved');
    expect([resumed.code, resumed.out]).toEqual([
      0,
      '✓ Resumed ledger for payment.captured. What waited follows, in order.',
    ]);
    expect(await actionsOf(bus)).toEqual([
      { action: 'pause', topic: 'payment.captured', subscriber: 'ledger', reason: 'moving' },
      { action: 'resume', topic: 'payment.captured', subscriber: 'ledger', reason: 'moved' },
    ]);
    const nobody = await postbud('pause ledger --topic resource.created --reason moving');
    expect([nobody.code, nobody.err]).toEqual([1, 'ledger does not subscribe to resource.created.']);
  });

  test('all topics of a subscriber are paused after confirmation, or with --yes', async ({
    bus,
    postbud,
  }) => {
    const nobody = await postbud('pause ledger --reason moving');
    expect([nobody.code, nobody.err]).toEqual([
      2,
      expect.stringContaining('Nothing was paused: there is no terminal'),
    ]);
    const refused = await postbud('pause ledger --reason moving', { answer: () => 'n' });
    expect([refused.code, refused.asked]).toEqual([1, ['\nPause ledger for all its topics? [y/N] ']]);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    expect((await postbud('pause ledger --reason moving --yes --json')).json()).toEqual({
      subscriber: 'ledger',
      topic: null,
      paused: true,
      changed: true,
      pause: null,
    });
    const again = await postbud('pause ledger --reason other --yes');
    expect([again.code, again.out]).toEqual([
      0,
      expect.stringContaining(
        'Nothing was changed: ledger was paused already for all its topics by kari@solvik.example.no: moving',
      ),
    ]);
    expect((await postbud('resume ledger')).out).toBe(
      '✓ Resumed ledger for all its topics. What waited follows, in order.',
    );
    expect((await postbud('resume ledger')).out).toBe(
      '✓ No pause of ledger for all its topics was there to end.',
    );
  });

  test('resume ends with 1 where another pause is left', async ({ postbud }) => {
    await postbud('pause ledger --topic payment.captured --reason moving');
    const { code, out } = await postbud('resume ledger');
    expect([code, out]).toEqual([
      1,
      '✗ No pause of ledger for all its topics was there to end. Another pause remains, which holds a part of its topics.\nnpx postbud subscriber ledger says which',
    ]);
  });

  test.for([
    ['pause legder --reason moving --yes', 'All subscribers: npx postbud subscribers. Did you mean ledger?'],
    ['resume legder', 'All subscribers: npx postbud subscribers. Did you mean ledger?'],
    [
      'resume ledger --topic payment.captred',
      'expected a topic of the catalog; did you mean payment.captured?',
    ],
    [
      'events --subscriber legder',
      "--subscriber 'legder': expected a subscriber of the catalog; did you mean ledger?",
    ],
    ['events --topic payment.captred', 'expected a topic of the catalog; did you mean payment.captured?'],
    [
      'incidents --subscriber legder',
      "--subscriber 'legder': expected a subscriber of the catalog; did you mean ledger?",
    ],
    ['incidents --topic payment.captred', 'expected a topic of the catalog; did you mean payment.captured?'],
    [
      'retire legder --reason gone --yes',
      'Nothing is left of this name, or it never had a delivery. Did you mean ledger?',
    ],
    [
      'log --subscriber legder',
      "--subscriber 'legder': expected a subscriber of the catalog; did you mean ledger?",
    ],
    ['log --topic payment.captred', 'expected a topic of the catalog; did you mean payment.captured?'],
    // There is no terminal: the wrong word is named before the missing --yes.
    ['pause legder --reason moving', 'All subscribers: npx postbud subscribers. Did you mean ledger?'],
    [
      'retire legder --reason gone',
      'Nothing is left of this name, or it never had a delivery. Did you mean ledger?',
    ],
    ['replay payment.captred --since 24h', 'expected a topic of the catalog; did you mean payment.captured?'],
    ['replay payment.captured --since yesterday', "--since 'yesterday': expected a time span"],
    [
      'dismiss --topic payment.captred --reason gone',
      'expected a topic of the catalog; did you mean payment.captured?',
    ],
  ] as const)('%s ends with 2 and the nearest name', async ([args, words], { postbud }) => {
    const { code, out, err } = await postbud(args);
    expect([code, out, err]).toEqual([2, '', expect.stringContaining(words)]);
  });
});

describe('replay --wait', () => {
  const LAST_DAY = 'replay payment.captured --since 24h --yes --wait';

  test('replay --wait follows until all are delivered, and says so', async ({
    bus,
    server,
    operators,
    postbud,
  }) => {
    await operators.died(7);
    server.answerInstead = async ({ method }) => {
      if (method === 'POST') server.answerInstead = async () => void (await drainLive(bus.db, [ledger()]));
      return undefined;
    };
    const { code, out } = await postbud(LAST_DAY);
    expect([code, out]).toEqual([0, expect.stringMatching(/\n✓ Replayed: 7 of 7 delivered\.$/)]);
  });

  test('replay --wait follows a paced replay whose first step another process takes', async ({
    bus,
    server,
    operators,
    postbud,
  }) => {
    await operators.died(2);
    server.answerInstead = async (request) => {
      if (request.method !== 'POST') return undefined;
      server.answerInstead = async () => void (await drainLive(bus.db, [ledger()]));
      const { json } = await operators.ask('/replay', { json: await request.json() });
      return Response.json({ ...json, replayed: 0 });
    };
    const { code, out } = await postbud(`${LAST_DAY} --per-minute 1000`);
    expect([code, out]).toEqual([0, expect.stringContaining('✓ Replayed: 2 of 2 delivered.')]);
  });

  test('replay --wait ends with 1 when some fail again', async ({ bus, server, operators, postbud }) => {
    await operators.died(2);
    server.answerInstead = async ({ method }) => {
      if (method === 'POST') server.answerInstead = async () => void (await operators.died(0));
      return undefined;
    };
    const { code, json } = await postbud(`${LAST_DAY} --json`);
    expect(code).toBe(1);
    expect(json()).toMatchObject({ replayed: 2, progress: { delivered: 0, deadLettered: 2 } });
    expect(json()['recipients']).toEqual([{ topic: 'payment.captured', subscriber: 'ledger', count: 2 }]);
    expect(await rows(bus.db, 'select recipients from replays')).toHaveLength(1);
  });

  test('replay --wait ends with 1 when the time is up', async ({ operators, postbud }) => {
    await operators.died(1);
    const { code, out } = await postbud(`${LAST_DAY} --timeout 1`);
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(/\n✗ Replayed: 0 of 1 delivered, 1 waiting\. The time is up\.$/),
    ]);
  });
});

describe('log', () => {
  test('log lists what operators did, with what, who and why, in one line when piped', async ({
    bus,
    operators,
    postbud,
  }) => {
    expect((await postbud('log')).out).toMatch(/^No entries yet\. /);
    await operators.died(2);
    await replay(bus.db, { topic: 'payment.captured', since: '24h', reason: 'ledger is back' }, 'ola');
    await postbud('pause ledger --topic payment.captured --reason moving');
    const { code, out } = await postbud('log');
    expect(code).toBe(0);
    expect(out.split('\n').slice(-4)).toEqual([
      expect.stringMatching(
        /^[\d:]{8} {2}Pause {3}payment\.captured to ledger {2,}kari@solvik\.example\.no {2}moving$/,
      ),
      expect.stringMatching(
        /^[\d:]{8} {2}Replay {2}payment\.captured to ledger, dead-lettered in the last 24h {2}ola {2,}ledger is back {2}[0-9a-f-]{36}$/,
      ),
      '',
      'Times are UTC.',
    ]);
    const narrow = (await postbud('log', { columns: 60 })).out;
    expect(widthOf(narrow)).toBeLessThanOrEqual(60);
    expect(narrow).toMatch(/ledger is\b[^]*\bback/);
  });

  test('log filters by topic, subscriber, operator and time, and reads as many pages as it needs', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.died(1);
    const [id] = await operators.idsIn('dead_lettered');
    await replay(bus.db, { deliveryIds: [id!] }, 'ola');
    for (const topic of ['payment.captured', 'payment.refunded'])
      await postbud(`pause ledger --topic ${topic} --reason moving`);
    await postbud('pause audit --reason moving --yes');
    const found = async (args: string) => {
      const { items } = (await postbud(`log --json ${args}`.trim())).json() as {
        items: { action: string }[];
      };
      const replays = items.filter(({ action }) => action === 'replay').length;
      return [replays, items.length - replays];
    };
    expect(await found('')).toEqual([1, 3]);
    expect(await found('--topic payment.captured')).toEqual([1, 1]);
    expect(await found('--subscriber ledger')).toEqual([1, 2]);
    expect(await found('--subscriber audit')).toEqual([0, 1]);
    expect(await found('--operator ola')).toEqual([1, 0]);
    expect(await found('--since 1h --subscriber ledger --topic payment.refunded')).toEqual([0, 1]);
    expect((await postbud('log --operator nobody')).out).toMatch(/^No entries match\./);
    await rows(
      bus.db,
      `insert into operator_actions (id, at, operator, action)
       select gen_random_uuid(), now() - interval '1 hour' - n * interval '1 second', 'ola', 'reveal'
       from generate_series(1, 150) as n`,
    );
    expect(await found('--limit 120')).toEqual([1, 119]);
    expect((await postbud('log --limit 3')).out).toContain('There are more: add --limit 15.');
  });
});

describe('every command on a narrow terminal', () => {
  test.for([50, 80] as const)('what actions say fits %i columns', async (columns, { operators, postbud }) => {
    const [first] = await operators.held(2);
    const reason = `--reason ${'漢字👩‍👩‍👧'.repeat(10)}`;
    const lines = [
      `retry ${first} ${reason}`,
      `pause ledger --topic payment.captured ${reason}`,
      'resume ledger --topic payment.captured',
      `skip ${first} ${reason}`,
      'replay payment.captured --since 24h --dry-run',
      'log',
      'dead-letters',
      `dead-letters ${first}`,
      'events',
      'webhooks',
      'incidents',
      'subscriber ledger',
      'why pi_1',
      'topics',
      'doctor',
      'catalog payment.captured',
    ];
    for (const line of lines) {
      const { out } = await postbud(line, { columns });
      // An id or a command, which stay in one piece so that they can be copied, may be longer than a line.
      const long = out
        .split('\n')
        .filter((text) => stringWidth(text) > columns && !/\S{36}|npx postbud/.test(text));
      expect([line, long]).toEqual([line, []]);
    }
  });
});
