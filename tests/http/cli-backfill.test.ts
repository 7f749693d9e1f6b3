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
    expect(err.split('\n').slice(0, 6)).toEqual([
      'Backfill 2 deliveries?',
      'Nothing has been written yet. This is what the backfill would do.',
      '',
      '  topic      payment.captured',
      expect.stringMatching(/^ {2}goes to {4}ledger only\. The \d other subscribers get nothing\.$/),
      expect.stringMatching(/^ {2}recorded {3}(.* to )?\d\d:\d\d:\d\d$/),
    ]);
    expect(err).toMatch(/As fast as the database can: about 1 s to write them\n/);
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

  test('writes nothing without a yes, for a dry run, or for another number than expected', async ({
    bus,
    postbud,
  }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    const refused = await postbud(LINE, { answer: () => 'n' });
    expect([refused.code, refused.err.split('\n').at(-1)]).toEqual([1, 'Nothing was written.']);
    const nobody = await postbud(LINE);
    expect([nobody.code, nobody.err]).toEqual([
      2,
      'Nothing was written: there is no terminal to ask for confirmation.\nAdd --yes to do it without asking, or --dry-run for a preview.',
    ]);
    const dry = await postbud(`${LINE} --dry-run`);
    expect([dry.code, dry.out.split('\n')[0]]).toEqual([0, 'Would backfill 2 deliveries.']);
    expect((await postbud(`${LINE} --dry-run --per-minute 1 --json`)).json()).toMatchObject({
      matched: 2,
      perMinute: 1,
      estimatedSeconds: 120,
    });
    const other = await postbud(`${LINE} --expected 3 --yes`);
    expect([other.code, other.err.split('\n').at(-1)]).toEqual([
      1,
      'Nothing was written: 2 are missing, not 3.',
    ]);
    expect(await backfilled(bus)).toBe(0);
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
    expect([code, err.split('\n').slice(-2)]).toEqual([
      1,
      [
        'Nothing was written: 3 deliveries are missing, not 2. Preview the backfill again.',
        'Run it again to see what matches now.',
      ],
    ]);
    expect(await backfilled(bus)).toBe(0);
  });

  test('says that nothing is missing, and leaves no entry in the log', async ({ bus, postbud }) => {
    const { code, err } = await postbud(`${LINE} --yes`);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect([code, err]).toEqual([
      0,
      expect.stringMatching(
        /^Nothing to backfill\.\nledger already has every stored event of payment\.captured since .*\.\nTimes are UTC\.$/,
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
    expect([good.code, good.out.split('\n').at(-2)]).toEqual([
      0,
      expect.stringMatching(/^✓ Backfilled: 2 of 2 written, the last at .*\. 2 delivered\.$/),
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
        '✓ The backfill is under way: 2 of 5 written.',
        expect.stringContaining('Progress: '),
        `  To stop it: npx postbud backfill --stop ${id!.id} --reason …`,
      ],
    ]);
    const second = await postbud(`${LINE} --yes`);
    expect([second.code, second.err]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(`A backfill of payment\\.captured to ledger is under way: ${id!.id}\\.`),
      ),
    ]);
    const stopped = await postbud(`backfill --stop ${id!.id} --reason slower`);
    expect([stopped.code, stopped.out]).toEqual([
      0,
      expect.stringMatching(/^✓ Stopped: 2 of 5 written\. The rest stays unwritten\. /),
    ]);
    const again = await postbud(`backfill --stop ${id!.id} --reason slower`);
    expect([again.code, again.out]).toEqual([
      0,
      expect.stringMatching(/^✓ It had ended already\. Stopped: 2 of 5 written\. /),
    ]);
  });

  test.for([
    ['backfill', 'The subscriber is missing.'],
    ['backfill ledger --since 30d', '--topic is missing.'],
    ['backfill ledger --topic payment.captured', '--since is missing.'],
    [
      'backfill leger --topic payment.captured --since 30d --yes',
      "Unknown subscriber 'leger'. Did you mean 'ledger'?",
    ],
    [
      'backfill ledger --topic payment.capture --since 30d --yes',
      "Unknown topic 'payment.capture'. Did you mean 'payment.captured'?",
    ],
    [
      'backfill calendar --topic payment.captured --since 30d --yes',
      'calendar does not subscribe to payment.captured.',
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
    ['backfill ledger --stop 1 --reason x', '--stop names the backfill alone: leave out the subscriber.'],
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
    expect([unknown.code, unknown.err]).toEqual([
      2,
      expect.stringContaining('calendar does not subscribe to payment.captured.'),
    ]);
    const paused = await postbud(`pause ${line} --ahead --reason first`);
    expect([paused.code, paused.out.split('\n')]).toEqual([
      0,
      [
        '✓ Paused calendar for payment.captured.',
        'To end it: npx postbud resume calendar --topic payment.captured (--ahead before a release lists it)',
      ],
    ]);
    const resumed = await postbud(`resume ${line} --ahead`);
    expect([resumed.code, resumed.out]).toEqual([0, '✓ Resumed calendar for payment.captured.']);
    const again = await postbud(`resume ${line} --ahead`);
    expect(again.code).toBe(2);
    const all = await postbud('pause calendar --ahead --reason first');
    expect([all.code, all.err]).toEqual([2, expect.stringContaining('--ahead needs --topic.')]);

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
