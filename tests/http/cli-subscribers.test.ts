import { describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

describe('subscribers', () => {
  test('lists those in trouble first, in 80 columns', async ({ operators, postbud }) => {
    await operators.held(2);
    const { code, out } = await postbud('subscribers', { columns: 80 });
    expect(code).toBe(0);
    const lines = out.split('\n');
    const heading = lines.findIndex((line) => line.startsWith('subscriber '));
    expect(lines[heading]).toMatch(/^subscriber +state +pending +failing +dead letters/);
    expect(lines[heading + 1]).toMatch(/^ledger, here +! failing +1 +1 +0/);
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(80);
  });

  test('with --json writes what the server answered', async ({ postbud }) => {
    const items = (await postbud('subscribers --json')).json()['items'];
    expect(items).toContainEqual(expect.objectContaining({ subscriber: 'ledger', state: 'delivering' }));
  });

  test('says “failing” of one that refused all so far, in the list and with --json', async ({
    bus,
    postbud,
  }) => {
    await emitPayments(bus.db, 1, 2);
    const refusing = ledger(() => {
      throw new PermanentError('the period is closed');
    });
    await drainLive(bus.db, [refusing]);
    expect((await postbud('subscribers')).out).toMatch(/^ledger, .*! failing /m);
    const items = (await postbud('subscribers --json')).json()['items'];
    expect(items).toContainEqual(expect.objectContaining({ subscriber: 'ledger', state: 'failing' }));
  });
});

describe('subscriber', () => {
  test('says how one is, whose pause holds it, and names the commands that apply and no other', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.held(2);
    const failing = await postbud('subscriber ledger');
    expect(failing.out).toContain('! failing');
    expect(failing.out).toContain('TypeError: the ledger is down');
    expect(failing.out).toMatch(/The way out of what goes wrong: npx postbud incidents [\da-f-]{36}/);
    expect(failing.out).toContain('npx postbud pause ledger --reason <text>');
    expect(failing.out).not.toContain('npx postbud resume');
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving');
    const paused = await postbud('subscriber ledger');
    expect(paused.out).toMatch(/ledger is paused for all its topics by kari since \d\d:\d\d:\d\d: moving/);
    expect(paused.out).toContain('To resume it: npx postbud resume ledger');
    expect(paused.out).not.toContain('npx postbud pause');
  });

  test('says until when its limit holds deliveries back, and how long that is', async ({ bus, postbud }) => {
    await emitPayments(bus.db, 1, 30);
    await drainLive(bus.db, [ledger(() => undefined, { rate: '6/m' })]);
    const { code, out } = await postbud('subscriber ledger', { columns: 120 });
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(
        /limit +rate_limited until \d\d:\d\d:\d\d: at 6\/m all that waits is through in 4 min/,
      ),
    ]);
  });

  test('refuses a name that nothing has, with the nearest', async ({ postbud }) => {
    const { code, err } = await postbud('subscriber legder');
    expect([code, err]).toEqual([
      2,
      'Unknown subscriber. All subscribers: npx postbud subscribers. Did you mean ledger?',
    ]);
    expect(await postbud('subscriber')).toMatchObject({ code: 2 });
  });
});

describe('smoke with a subscriber', () => {
  test('sends the test event to that one alone, and says so where it would wait', async ({
    bus,
    postbud,
  }) => {
    const none = await postbud('smoke reviews');
    expect([none.code, none.err]).toEqual([1, expect.stringContaining('so a test event would wait')]);
    await postbud('smoke ledger --timeout 1');
    expect(await rows(bus.db, 'select subscribers from smoke_tests')).toEqual([{ subscribers: ['ledger'] }]);
  });
});
