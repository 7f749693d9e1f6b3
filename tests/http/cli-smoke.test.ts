import { describe, expect } from 'vitest';

import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import { smokeTestExample } from '../../lib/console/smoke/example.ts';
import type { SmokeTest } from '../../lib/console/smoke/view.ts';
import { rows } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';

const COLUMNS = 80;

/** What the server answers to the start of a test and to each look at it. */
const shown =
  (view: SmokeTest) =>
  async ({ url }: Request) =>
    new URL(url).pathname.includes('/smoke') ? Response.json(view) : undefined;

const [configured, unset] = smokeTestExample.webhooks as [SmokeTest['webhooks'][0], SmokeTest['webhooks'][0]];
const [accounting, ledger] = smokeTestExample.subscribers as [
  SmokeTest['subscribers'][0],
  SmokeTest['subscribers'][0],
];

/** A deployment in which everything that can be wrong is. */
const TROUBLED: SmokeTest = {
  ...smokeTestExample,
  test: { ...smokeTestExample.test!, state: 'failed' },
  webhooks: [
    configured,
    {
      ...configured,
      provider: 'walletpayments',
      scheme: 'vipps',
      state: 'failed',
      status: 401,
      receiptStored: false,
      eventId: null,
      deliveries: [],
      problem:
        'the platform’s deployment protection answered, not Postbud; it refuses providers too: allow /webhooks/* there',
    },
    { ...unset, provider: 'identityprovider', problem: 'set WEBHOOK_IDENTITYPROVIDER_SECRET' },
  ],
  subscribers: [
    accounting,
    {
      ...accounting,
      subscriber: 'notifications',
      place: 'in_process',
      afterMs: 31,
    },
    {
      ...accounting,
      subscriber: 'payments',
      place: 'in_process',
      state: 'paused',
      afterMs: null,
      problem: 'paused by kari@solvik.example.no',
      topics: { listed: 10, attached: 2 },
      toAttach:
        'set SUBSCRIBER_PAYMENTS_URL, SUBSCRIBER_PAYMENTS_SECRET and SUBSCRIBER_PAYMENTS_TOPICS to booking.approved',
    },
    {
      ...accounting,
      subscriber: 'reporting',
      state: 'failed',
      afterMs: null,
      problem: 'the subscriber answered 401: the signature does not match',
    },
    ledger,
    {
      ...ledger,
      subscriber: 'seasons',
      toAttach:
        'SUBSCRIBER_SEASONS_SECRET must be whsec_ and the base64 of 24 to 64 random bytes, the same as at the subscriber',
    },
  ],
};

describe('npx postbud smoke', () => {
  test('fits 80 columns, with every problem whole below its table', async ({ server, postbud }) => {
    server.answerInstead = shown(TROUBLED);
    const { code, out, err } = await postbud('smoke', { columns: COLUMNS });
    expect([code, err]).toEqual([1, '']);
    expect(out).toMatchInlineSnapshot(`
      "Webhooks, sent to https://postbud.example.no:
      provider            test        scheme  answer     in  delivered to  after
      cardpayments      ✓ arrived     stripe     200  84 ms  payments      41 ms
      walletpayments    ✗ failed      vipps      401  84 ms
      identityprovider    not set up

        ✗ walletpayments: the platform’s deployment protection answered, not Postbud;
          it refuses providers too: allow /webhooks/* there
        ! identityprovider: set WEBHOOK_IDENTITYPROVIDER_SECRET

      Test event, by attached subscriber:
      subscriber       test     runs   after    topics
      accounting     ✓ arrived  HTTP  212 ms  41 of 41
      notifications  ✓ arrived  here   31 ms  41 of 41
      payments         paused   here           2 of 10
      reporting      ✗ failed   HTTP          41 of 41

        ! payments: paused by kari@solvik.example.no
        ✗ reporting: the subscriber answered 401: the signature does not match

      Not attached:
      subscriber    topics  waiting  oldest
      payments     8 of 10        0
      ledger      18 of 18       12  17 h ago
      seasons     18 of 18       12  17 h ago

        ✗ seasons: SUBSCRIBER_SEASONS_SECRET must be whsec_ and the base64 of 24 to 64
          random bytes, the same as at the subscriber

      To attach one, set SUBSCRIBER_<NAME>_URL and _SECRET; for payments, which runs
      here in part, also _TOPICS (--json lists them). Until then these deliveries
      wait, in order.

      41 of 148 topics can reach “delivered” here; 107 wait for ledger.

      ✗ 3 of 5 tests arrived; walletpayments and reporting did not."
    `);
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(COLUMNS);
  });

  test('ends with 0 when everything arrived', async ({ server, postbud }) => {
    server.answerInstead = shown(smokeTestExample);
    const { code, out } = await postbud('smoke');
    expect([code, out.split('\n').at(-1)]).toEqual([0, '✓ Everything arrived: 2 tests.']);
    expect((await postbud('smoke --json')).json()).toEqual(smokeTestExample);
  });

  test('of one subscriber ends with 0 when that one has it, whatever else is wrong', async ({
    server,
    postbud,
  }) => {
    server.answerInstead = shown({
      ...smokeTestExample,
      test: { ...smokeTestExample.test!, state: 'failed' },
      webhooks: [{ ...unset, state: 'misconfigured', problem: 'WEBHOOK_WALLETPAYMENTS_SCHEME is wrong' }],
    });
    const { code, out } = await postbud('smoke accounting');
    expect([code, out.split('\n').at(-1)]).toEqual([0, '✓ Everything arrived: 1 test.']);
  });

  test('of an unknown subscriber is refused with the nearest name', async ({ bus, postbud }) => {
    const { code, err } = await postbud('smoke legder');
    expect([code, err]).toEqual([2, "Unknown subscriber 'legder'. Did you mean 'ledger'?"]);
    expect(await rows(bus.db, 'select from smoke_tests')).toEqual([]);
  });

  test('says when the relay last ran, where the time is up', async ({ bus, server, postbud }) => {
    expect(server.url).toContain('http');
    const { code, out } = await postbud('smoke --timeout 1');
    expect([code, out.split('\n').at(-1)]).toEqual([
      1,
      '✗ Not everything was delivered within 1 s: no relay has ever run. 0 of 1 test arrived so far.',
    ]);
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
