import { describe, expect } from 'vitest';

import { drainLive, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { countDeliveries } from '../support/records.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

const LINE = 'backfill ledger --topic payment.captured --since 30d';

const backfilled = ({ db }: Bus) => countDeliveries(db, 'backfilled');

describe('npx postbud backfill', () => {
  test('previews, asks, writes, and says where to see its progress', async ({ bus, server, postbud }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    await emitPayments(bus.db, 3, 3);
    await drainLive(bus.db, [ledger()]);
    const { code, out, err, asked } = await postbud(`${LINE} --reason new`, { answer: () => 'y' });
    expect(
      err
        .split('\n')
        .filter((line) => !line.startsWith('  !'))
        .slice(0, 6),
    ).toEqual([
      'Backfill 2 deliveries?',
      'Nothing has been backfilled yet. This is what the backfill would do.',
      '',
      '  topic      payment.captured',
      '  goes to    ledger only',
      expect.stringMatching(/^ {2}recorded {3}(.* to )?\d\d:\d\d:\d\d$/),
    ]);
    expect(err).toMatch(/ pace +All at once\n/);
    expect(err).toMatch(
      /Newer events wait for ledger until the backfill has come to them\. Producers go on\.\n/,
    );
    expect(err).toContain('! ledger was already handed 1 newer event of payment.captured. ');
    expect(asked).toEqual(['\nBackfill them? [y/N] ']);
    const [id] = await rows<{ id: string }>(bus.db, 'select id::text from backfills');
    expect([code, out.split('\n')]).toEqual([
      0,
      ['✓ Backfilled 2 deliveries.', `  Progress: ${server.url}/platform/event-bus/backfills/${id!.id}`],
    ]);
    expect(await rows(bus.db, 'select requested_by, reason from backfills')).toEqual([
      { requested_by: 'kari@solvik.example.no', reason: 'new' },
    ]);
  });

  test('writes nothing when the number has changed since the preview', async ({ bus, server, postbud }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    server.answerInstead = async ({ method }) => {
      if (method === 'POST') {
        server.answerInstead = null;
        await storedWithoutLedger(bus.db, 3, 3);
      }
      return undefined;
    };
    const { code, err } = await postbud(`${LINE} --yes`);
    expect([code, err.split('\n').at(-1)]).toEqual([
      1,
      'Nothing was backfilled: 3 deliveries match, not 2. Preview it again. See what was done: npx postbud log.',
    ]);
    expect(await backfilled(bus)).toBe(0);
  });

  test('says that nothing is missing, and leaves no entry in the log', async ({ bus, postbud }) => {
    const { code, err } = await postbud(`${LINE} --yes`);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect([code, err]).toEqual([
      0,
      expect.stringMatching(
        /^Nothing to backfill\nledger already has every stored event of payment\.captured since .*\.\n\nTimes are UTC\.$/,
      ),
    ]);
  });

  test('with --wait follows until all is delivered, and exits with 1 if anything died', async ({
    bus,
    server,
    postbud,
  }) => {
    const relayed = (handler?: () => never) => {
      server.answerInstead = async ({ url, method }) => {
        if (method === 'GET' && url.includes('/backfills/')) await drainLive(bus.db, [ledger(handler)]);
        return undefined;
      };
    };
    await storedWithoutLedger(bus.db, 1, 2);
    relayed();
    const good = await postbud(`${LINE} --yes --wait`);
    expect([good.code, good.out.split('\n').at(-1)]).toEqual([
      0,
      '✓ Backfilled: 2 of 2 written. 2 delivered.',
    ]);
    await storedWithoutLedger(bus.db, 3, 3);
    relayed(() => {
      throw Object.assign(new Error('refused'), { name: 'PermanentError', permanent: true });
    });
    const bad = await postbud(`${LINE} --yes --wait --timeout 1 --json`);
    expect([bad.code, bad.json()]).toMatchObject([1, { written: 1, progress: { delivered: 0 } }]);
  });

  test('paced says how far it is, and --stop ends it', async ({ bus, postbud }) => {
    await storedWithoutLedger(bus.db, 1, 5);
    const { code, out } = await postbud(`${LINE} --per-minute 40 --yes`);
    const [id] = await rows<{ id: string }>(bus.db, 'select id::text from backfills');
    expect([code, out.split('\n')]).toEqual([
      0,
      [
        '✓ Backfilled 2 of 5 deliveries.',
        expect.stringContaining('Progress: '),
        `  To stop it: npx postbud backfill --stop ${id!.id} --reason …`,
      ],
    ]);
    const second = await postbud(`${LINE} --yes`);
    expect([second.code, second.err]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(
          `A backfill of payment\\.captured to ledger is under way\\. .*stop it: npx postbud backfill --stop ${id!.id}\\.`,
        ),
      ),
    ]);
    const stopped = await postbud(`backfill --stop ${id!.id} --reason slower`);
    expect([stopped.code, stopped.out]).toEqual([0, expect.stringMatching(/^✓ Stopped: 2 of 5 written\. /)]);
    const again = await postbud(`backfill --stop ${id!.id} --reason slower`);
    expect([again.code, again.out]).toEqual([0, expect.stringMatching(/^✓ Stopped: 2 of 5 written\. /)]);
  });

  test.for([
    ['backfill', 'The subscriber is missing.'],
    [
      'backfill leger --topic payment.captured --since 30d --yes',
      "'leger': expected a subscriber of the catalog; did you mean ledger?",
    ],
    ['backfill ledger --since 30d', '--topic is missing.'],
    ['backfill ledger --topic payment.captured', '--since is missing.'],
    [
      'backfill ledger --topic payment.capture --since 30d --yes',
      "--topic 'payment.capture': expected a topic of the catalog; did you mean payment.captured?",
    ],
    [
      'backfill ledger --topic payment.captured --since 1y --yes',
      "--since '1y': expected a time span such as 30d",
    ],
    [
      'backfill ledger --topic payment.captured --since 2999-01-01T00:00:00Z --yes',
      "--since '2999-01-01T00:00:00Z': expected a time span",
    ],
    [
      'backfill ledger --topic payment.captured --since 30d --per-minute 0',
      "--per-minute: '0' is not a whole number from 1 to 100000.",
    ],
    ['backfill ledger --stop 1 --reason x', '--stop names the backfill alone: leave out all but its reason.'],
    ['backfill --stop 1 --reason x', "--stop: '1' is not a backfill id."],
    ['backfill --stop 019a0000-0000-7000-8000-000000000009', '--reason is missing'],
  ] as const)('%s: exits with 2 and says what is wrong', async ([line, words], { postbud }) => {
    const { code, err } = await postbud(line);
    expect([code, err]).toEqual([2, expect.stringContaining(words)]);
  });

  test('of an unknown id can’t be stopped', async ({ postbud }) => {
    const { code, err } = await postbud('backfill --stop 019a0000-0000-7000-8000-000000000009 --reason x');
    expect([code, err]).toEqual([1, expect.stringContaining('Unknown backfill.')]);
  });

  test('after a pause ahead of the release that lists it, keeps all events in order', async ({
    bus,
    handed,
    ledger: handing,
    postbud,
  }) => {
    const line = 'calendar --topic payment.captured';
    const unknown = await postbud(`pause ${line} --reason first`);
    expect([unknown.code, unknown.err]).toEqual([1, 'calendar does not subscribe to payment.captured.']);
    expect((await postbud(`pause ${line} --ahead --reason first`)).code).toBe(0);
    expect((await postbud(`resume ${line}`)).code).toBe(0);
    const again = await postbud(`resume ${line}`);
    expect([again.code, again.err]).toEqual([1, 'calendar does not subscribe to payment.captured.']);

    // The recipe of docs/operate.md.
    await storedWithoutLedger(bus.db, 1, 3);
    await postbud('pause ledger --topic payment.captured --ahead --reason first');
    await emitPayments(bus.db, 4, 6);
    await drainLive(bus.db, [handing()]);
    expect(handed).toEqual([]);
    expect((await postbud(`${LINE} --yes`)).code).toBe(0);
    await postbud('resume ledger --topic payment.captured');
    await drainLive(bus.db, [handing()]);
    expect(handed).toEqual([1, 2, 3, 4, 5, 6]);
  });
});
