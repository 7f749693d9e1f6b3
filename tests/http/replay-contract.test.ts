import { describe, expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { keepStepping } from '../../lib/edge/cron/keep-stepping.ts';
import { steppedWork } from '../../lib/edge/cron/stepped-work.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { countDeliveries, deliveryIdsOf } from '../support/records.ts';
import { test as cliTest } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';
import { startOperatorServer } from '../support/operator-server.ts';
import { BROWSER } from '../support/operator-test.ts';

const giveUp = () => {
  throw new PermanentError('refused');
};
const mailer = subscriber('notifications', { 'payment.captured': giveUp }, { onReplay: 'refuse' });
const attached = [ledger(), mailer];

const test = cliTest.override('server', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const server = await startOperatorServer(database.db, attached);
  onCleanup(() => server.close());
  return server;
});

/** Makes so many dead letters of the ledger and of notifications each. */
async function died(bus: Bus, count: number): Promise<void> {
  await emitPayments(bus.db, 1, count);
  await drainLive(bus.db, [ledger(giveUp), mailer]);
}

const WHY =
  'notifications refuses replays of payment.captured, because it would act twice. Settle its dead letters another way, then dismiss them.';

describe('a subscriber that refuses replays', () => {
  test.beforeEach(async ({ bus, operators }) => {
    operators.attached = attached;
    await died(bus, 2);
  });

  test('is named in the preview of the console and of the command line, with how many and why', async ({
    operators,
    postbud,
  }) => {
    const { text } = await operators.ask('/replay?topic=payment.captured&since=24h', { accept: BROWSER });
    expect(text.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ')).toContain(
      `2 deliveries to notifications are left out. ${WHY}`,
    );
    const { out } = await postbud('replay payment.captured --since 24h --dry-run');
    expect(out).toContain('Would replay 2 dead letters.');
    expect(out).toContain(`! 2 deliveries to notifications are left out. ${WHY}`);
    const alone = await postbud('replay payment.captured --since 24h --subscriber notifications --dry-run');
    expect(alone.out.split('\n').slice(0, 3)).toEqual([
      'Nothing to replay',
      'All that matches is left out.',
      `  ! 2 deliveries to notifications are left out. ${WHY}`,
    ]);
  });

  test('is refused with replay_refused when it alone is named, and nothing moves', async ({
    bus,
    operators,
  }) => {
    const deliveryIds = await deliveryIdsOf(bus.db, 'notifications');
    for (const json of [
      { topic: 'payment.captured', since: '24h', subscriber: 'notifications' },
      { deliveryIds },
      { deliveryIds, perMinute: 100 },
    ]) {
      const answer = await operators.ask('/replay', { json });
      expect([answer.status, answer.json['code']]).toEqual([409, 'replay_refused']);
    }
    expect(await rows(bus.db, 'select from replays union all select from paced_replays')).toEqual([]);
    const counted = await operators.ask('/replay', { json: { deliveryIds, dryRun: true } });
    expect(counted.json).toMatchObject({ matched: 0, leftOut: [{ count: 2, reason: 'refuses_replays' }] });
  });

  test('has no button to replay it on any page, and its incident says what to do instead', async ({
    bus,
    operators,
    postbud,
  }) => {
    await watchIncidents(bus.db);
    const [incident] = await rows<{ id: string }>(
      bus.db,
      `select id::text from incidents where subscriber = 'notifications'`,
    );
    const page = await operators.ask(`/incidents/${incident!.id}`, { accept: BROWSER });
    expect(page.text).toContain('Settle without a replay');
    expect(page.text).not.toContain('/replay?');
    expect((await operators.ask(`/incidents/${incident!.id}`)).json).toMatchObject({ refusesReplays: true });
    const { out } = await postbud(`incidents ${incident!.id}`);
    expect(out.replaceAll(/\s+/g, ' ')).toContain(
      `then dismiss them. Then: npx postbud dismiss ${incident!.id} --reason <text>`,
    );
    const letters = await operators.ask('/dead-letters?subscriber=notifications', { accept: BROWSER });
    expect(letters.text).not.toContain('/replay?');
    expect(letters.text.match(/refuses replays/g)).toHaveLength(3);
  });
});

describe('a dry run', () => {
  test('counts, stores nothing, and is no replay even under an id that was used', async ({
    bus,
    operators,
  }) => {
    operators.attached = attached;
    await died(bus, 2);
    const asked = {
      topic: 'payment.captured',
      since: '24h',
      replayId: '019a0000-0000-7000-8000-000000000003',
    };
    const dry = async (more: object = {}) =>
      await operators.ask('/replay', { json: { ...asked, ...more, dryRun: true } });
    const counted = { matched: 2 };
    expect((await dry({ expectedCount: 2 })).json).toMatchObject(counted);
    expect(await rows(bus.db, 'select from replays')).toEqual([]);
    await operators.ask('/replay', { json: asked });
    await drainLive(bus.db, [ledger(giveUp), mailer]);
    expect((await dry()).json).toMatchObject(counted);
    expect((await dry({ expectedCount: 1 })).json).toMatchObject(counted);
  });
});

describe('a paced replay', () => {
  const replayed = (bus: Bus) => countDeliveries(bus.db, 'replays > 0');

  test('is previewed with its time, and answers what it put back at once', async ({
    bus,
    operators,
    postbud,
  }) => {
    await died(bus, 120);
    const preview = await operators.ask('/replay?topic=payment.captured&since=24h&perMinute=60');
    expect(preview.json).toMatchObject({ matched: 240, request: { perMinute: 60 } });
    const page = await operators.ask('/replay?topic=payment.captured&since=24h&perMinute=60', {
      accept: BROWSER,
    });
    expect(page.text).toContain('60 a minute, about 4 min');
    expect(page.text).toMatch(/name="perMinute"[^>]*value="60"/s);
    const done = await postbud(
      'replay payment.captured --since 24h --subscriber ledger --per-minute 60 --reason slow --yes',
    );
    expect([done.code, done.out.split('\n')[0]]).toEqual([0, '✓ Replayed 1 of 120 deliveries.']);
    expect(done.err).toMatch(/pace +60 a minute, about 2 min\n/);
    expect(await replayed(bus)).toBe(1);
  });

  test('is followed on its page, stopped there or with --stop, and then not again', async ({
    bus,
    operators,
    postbud,
  }) => {
    await died(bus, 120);
    const { json } = await operators.ask('/replay', {
      form: {
        topic: 'payment.captured',
        since: '24h',
        subscriber: 'ledger',
        perMinute: '60',
        expectedCount: '120',
        confirm: '120',
      },
      accept: 'application/json',
    });
    const { replayId } = json as { replayId: string };
    const path = `/replays/${replayId}`;
    const page = await operators.ask(path, { accept: BROWSER });
    expect(page.text.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ')).toContain(
      'Replayed: 0 of 1 delivered, 1 waiting, 119 left to put back.',
    );
    expect(page.text).toContain(`action="/platform/event-bus${path}/stop"`);
    const without = await postbud(`replay --stop ${replayId}`);
    expect([without.code, without.err.split('\n')[0]]).toEqual([
      2,
      '--reason is missing: it is recorded in the operator log.',
    ]);
    const stopped = await postbud(`replay --stop ${replayId} --reason slow`);
    expect([stopped.code, stopped.out]).toEqual([
      0,
      expect.stringMatching(/^✓ Replayed: 0 of 1 delivered, 1 waiting, 119 not put back: it was stopped\./),
    ]);
    const again = await operators.ask(`${path}/stop`, { json: { reason: 'slow' } });
    expect([again.status, again.json['code']]).toEqual([409, 'replay_ended']);
    const after = await operators.ask(path, { accept: BROWSER });
    expect(after.text.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ')).toMatch(
      /119 not put back: it was stopped\..*Stopped by kari@solvik\.example\.no: slow/,
    );
    expect(after.text).not.toContain('/stop"');
    const log = await operators.ask('/replays', { accept: BROWSER });
    expect(log.text).toContain('Stop replay');
    expect((await operators.ask('/replays')).json).toMatchObject({
      items: [
        { action: 'stop_replay', reason: 'slow', replayId, subscriber: 'ledger' },
        { action: 'replay', replayId, isUnderWay: false },
      ],
    });
  });

  test('is waited for to its last delivery, which the cron puts back', async ({ bus, postbud }) => {
    await died(bus, 20);
    const ended = new AbortController();
    const going = steppedWork(attached).map((work) =>
      keepStepping(work, { db: bus.db, until: Infinity, signal: ended.signal }),
    );
    const relaying = (async () => {
      while (!ended.signal.aborted) await drainLive(bus.db, [ledger()]);
    })();
    const { code, out } = await postbud(
      'replay payment.captured --since 24h --subscriber ledger --per-minute 6000 --yes --wait',
    );
    ended.abort();
    await Promise.all([...going, relaying]);
    expect([code, out]).toEqual([0, expect.stringContaining('✓ Replayed: 20 of 20 delivered.')]);
  });

  test('takes a whole number from 1 to a million, and --stop takes no other replay beside it', async ({
    operators,
    postbud,
  }) => {
    for (const perMinute of [0, 1.5, 1_000_001, '100']) {
      const { status, json } = await operators.ask('/replay', {
        json: { topic: 'payment.captured', since: '24h', perMinute },
      });
      expect([perMinute, status, (json['issues'] as { message: string }[])[0]!.message]).toEqual([
        perMinute,
        400,
        'expected a whole number of deliveries a minute, 1 to 1000000',
      ]);
    }
    const both = await postbud('replay payment.captured --stop x --reason y');
    expect([both.code, both.err]).toEqual([
      2,
      '--stop names the replay alone: leave out all but its reason.',
    ]);
    const unknown = await postbud('replay --stop x --reason y');
    expect([unknown.code, unknown.err]).toEqual([
      2,
      "--stop: 'x' is not a replay id.\nCopy it from npx postbud log.",
    ]);
    const nobody = await postbud('replay --stop 019a0000-0000-7000-8000-000000000009 --reason y');
    expect([nobody.code, nobody.err]).toEqual([1, expect.stringContaining('Unknown replay.')]);
  });
});
