import { describe, expect, onTestFinished } from 'vitest';

import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import { withSmokeTests } from '../../lib/components/smoke-test.ts';
import { drainLive, rows } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

const COLUMNS = 80;

const TROUBLED = {
  smokeTestId: '019c7f41-0f4e-7a61-9c53-5f0f8f1f2a11',
  subscribers: [],
  webhooks: [
    { provider: 'cardpayments', status: 200, durationMs: 84, problem: null },
    {
      provider: 'walletpayments',
      status: 401,
      durationMs: 84,
      problem:
        'the platform’s deployment protection answered, not Postbud; it refuses providers too: allow /webhooks/* there',
    },
  ],
};

describe('npx postbud smoke', () => {
  test('says whole what is wrong with an endpoint, and that no event was sent', async ({
    server,
    postbud,
  }) => {
    server.answerInstead = async () => Response.json(TROUBLED);
    const { code, out, err } = await postbud('smoke', { columns: COLUMNS });
    expect([code, err]).toEqual([1, '']);
    expect(out).toMatchInlineSnapshot(`
      "  ✓ cardpayments accepted its webhook after 84 ms
        ✗ walletpayments: the platform’s deployment protection answered, not Postbud;
          it refuses providers too: allow /webhooks/* there
      ✗ 1 of 2 tests arrived; walletpayments did not. No event was sent: this
      deployment does not relay (RELAY=on lets it, if its database is its own), or has
      no subscriber attached."
    `);
  });

  test('says what arrived after what time and ends with 0, also to programs in JSON', async ({
    bus,
    postbud,
  }) => {
    const relay = setInterval(() => void drainLive(bus.db, withSmokeTests([ledger()])), 200);
    onTestFinished(() => clearInterval(relay));
    const { code, out } = await postbud('smoke');
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^ {2}✓ ledger has the event after \d.*\n✓ Everything arrived: 1 test\.$/),
    ]);
    const asJson = await postbud('smoke ledger --json');
    expect([asJson.code, asJson.json()]).toMatchObject([
      0,
      { subscribers: ['ledger'], webhooks: [], event: { event: { state: 'delivered' } } },
    ]);
  });

  test('of an unknown subscriber is refused with the nearest name', async ({ bus, postbud }) => {
    const { code, err } = await postbud('smoke legder');
    expect([code, err]).toEqual([2, "Unknown subscriber 'legder'. Did you mean 'ledger'?"]);
    expect(await rows(bus.db, 'select from smoke_tests')).toEqual([]);
  });

  test('says why it waits, where the time is up', async ({ bus, server, postbud }) => {
    expect(server.url).toContain('http');
    const { code, out } = await postbud('smoke --timeout 1');
    expect([code, out.split('\n').at(-1)]).toEqual([
      1,
      '✗ Not everything was delivered within 1 s. 0 of 1 test arrived; ledger did not.',
    ]);
    expect(out).toMatch(/! ledger: .*relay/);
    expect(await rows(bus.db, 'select topic, subscribers from events')).toEqual([
      { topic: SMOKE_TEST.topic, subscribers: ['ledger'] },
    ]);
  });

  test('takes one subscriber at most, and a number of seconds', async ({ postbud }) => {
    expect((await postbud('smoke ledger production')).err).toContain("Unexpected argument 'production'.");
    expect((await postbud('smoke --timeout soon')).err).toBe(
      "--timeout: 'soon' is not a whole number from 1 to 600.",
    );
  });
});
