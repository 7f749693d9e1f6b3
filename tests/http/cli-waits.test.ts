import { describe, expect } from 'vitest';

import { drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import { deliveryIdsOf, statesOf } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger, refuse } from '../support/ledger.ts';
import { delayRetries } from '../support/scenes.ts';

const words = (text: string) => text.replaceAll(/\s+/g, ' ');

/** Finds the id of an incident in what `incidents` wrote. */
const idIn = (out: string) => /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(out)![0];

const halting = (then?: (number: number) => unknown) => ledger(then, { afterDeadLetter: 'halt' });

/** Payment 1 is refused, and halts its lane: 2 and 3 wait. @returns the ids of the deliveries. */
async function halted(bus: Bus): Promise<string[]> {
  await emitPayments(bus.db, 1, 3);
  await drainLive(bus.db, [halting((number) => number === 1 && refuse())]);
  return await deliveryIdsOf(bus.db);
}

const waiting = (isThere: boolean) =>
  ledger(
    () => {
      if (!isThere) throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
    },
    { outage: 'wait' },
  );

async function down(bus: Bus): Promise<void> {
  for (const number of numbers(1, 5))
    await emitPayments(bus.db, number, number, { orderingKey: `booking ${number}` });
  await drainLive(bus.db, [waiting(false)]);
  // That nobody is there is known once a delivery finds nobody again.
  await delayRetries(bus.db, '-1 hour');
  await drainLive(bus.db, [waiting(false)]);
}

describe('a halted lane at a terminal', () => {
  test('is said by why, topics, incidents and dead-letters, with the two ways out', async ({
    bus,
    postbud,
  }) => {
    const [dead, second] = await halted(bus);
    const why = words((await postbud(`why ${second}`, { columns: 100 })).out);
    expect(why).toMatch(/^Not delivered to ledger: halted behind [\da-f-]+…, which was dead-lettered at/);
    expect(why).toContain(
      `To let it go on: npx postbud replay --delivery ${dead}, or npx postbud dismiss ${dead} --reason <text>`,
    );
    expect((await postbud('topics')).out).toContain('1 lane halted by a dead letter');
    const list = await postbud('incidents');
    expect(list.out).toContain(
      '✗ ledger refused deliveries on payment.captured: 1 lane is halted by its dead letter, 2 deliveries wait.',
    );
    const one = await postbud(`incidents ${idIn(list.out)}`);
    expect(words(one.out)).toMatch(
      new RegExp(
        `Blocked lanes lane held by last error behind it next attempt id ledger on payment.captured, whole topic dead letter .* permanent: refused 2 when replayed ${dead}`,
      ),
    );
    expect(one.out).toContain(
      `To let a lane go on without its dead letter: npx postbud dismiss ${dead} --reason <text>`,
    );
    expect((await postbud('dead-letters')).out).toMatch(/ halts its lane +ledger +permanent: refused/);
    expect(words((await postbud(`dead-letters ${dead}`)).out)).toContain(
      'It halts its lane until it is replayed or dismissed.',
    );
  });

  test('is not tried by a probe of its subscriber', async ({ bus, postbud }) => {
    await halted(bus);
    const { code, err } = await postbud('probe ledger');
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^ledger has no outage\. .*: npx postbud subscriber ledger lists them\.$/),
    ]);
  });

  test('goes on when its dead letter is dismissed by its id, after a question', async ({ bus, postbud }) => {
    const [dead, second] = await halted(bus);
    const refused = await postbud(`retry ${second}`);
    expect([refused.code, refused.err]).toEqual([
      1,
      `Dead letter ${dead} halts this lane. Replay or dismiss that one.`,
    ]);
    const unasked = await postbud(`dismiss ${dead} --reason booked`);
    expect([unasked.code, unasked.err]).toEqual([2, expect.stringContaining('--yes')]);
    const done = await postbud(`dismiss ${dead} --reason booked`, { answer: () => 'y' });
    expect([done.code, done.out]).toEqual([0, '✓ Dismissed 1 dead letter, which can still be replayed.']);
    expect(words(done.err)).toContain('1 halted lane goes on.');
    await drainLive(bus.db, [halting()]);
    expect(await statesOf(bus.db)).toEqual(['dead_lettered', 'delivered', 'delivered']);
    const again = await postbud(`dismiss ${second} --reason booked --yes`);
    expect([again.code, again.err]).toEqual([
      1,
      expect.stringMatching(/^Nothing to dismiss\nThe selected deliveries are not dead letters\./),
    ]);
  });
});

describe('an outage at a terminal', () => {
  test('is said by incidents and subscriber, with the next probe', async ({ bus, postbud }) => {
    await down(bus);
    const list = await postbud('incidents');
    expect(list.out).toContain('✗ ledger is unreachable: 5 deliveries wait in 5 lanes until it answers.');
    expect(list.out).toMatch(/next probe in \d+ s/);
    const one = await postbud(`incidents ${idIn(list.out)}`);
    expect(one.out).toContain('To probe it now: npx postbud probe ledger --wait');
    expect(words((await postbud('subscriber ledger', { columns: 80 })).out)).toMatch(
      /ledger has been unreachable since [\d:]+\. 5 deliveries wait, without using up attempts\. Next probe in \d+ s\..*To probe it now: npx postbud probe ledger/,
    );
    const nothing = await postbud(`replay --incident ${idIn(list.out)} --yes`);
    expect([nothing.code, nothing.err]).toEqual([
      1,
      expect.stringContaining('Nothing to replay: what waits follows when ledger answers again.'),
    ]);
  });

  test.for([
    ['probe ledger --wait', 'Probing ledger: one of its deliveries is tried now.', 'ledger answers again.'],
    ['retry <incident> --wait', 'Retried: 1 lane due now.', 'ledger was unreachable'],
  ] as const)(
    'is probed by %s, which says whether somebody answered',
    async ([command, begun, ended], { bus, server, postbud }) => {
      await down(bus);
      const id = idIn((await postbud('incidents')).out);
      const line = command.replace('<incident>', id);
      /** Relays once the probe is asked for. */
      const relayed = (isThere: boolean) => {
        server.answerInstead = async ({ method }) => {
          if (method === 'POST')
            server.answerInstead = async () => void (await drainLive(bus.db, [waiting(isThere)]));
          return undefined;
        };
      };
      relayed(false);
      const silent = await postbud(line);
      expect(silent.code).toBe(1);
      expect(words(silent.out)).toContain(`✓ ${begun} ✗ ledger `);
      expect(silent.out).toContain('unreachable');
      relayed(true);
      const back = await postbud(line);
      expect([back.code, words(back.out)]).toEqual([0, expect.stringContaining(`✓ ${begun} ✓ ${ended}`)]);
      expect(await rows(bus.db, `select from operator_actions where action = 'probe'`)).toHaveLength(2);
    },
  );

  test.for([
    ['probe ledger', 1, 'ledger has no outage. Probe a delivery that holds one of its lanes instead'],
    ['probe legder', 2, 'Did you mean ledger?'],
    ['retry', 2, 'The delivery id or incident id is missing.'],
    ['retry ledger', 1, 'Unknown delivery. Copy its id'],
  ] as const)('%s ends with %i and the reason', async ([command, exitCode, reason], { postbud }) => {
    const { code, err } = await postbud(command);
    expect([code, err]).toEqual([exitCode, expect.stringContaining(reason)]);
  });
});

test('why says, in words and in JSON, that a limit holds deliveries back, and until when', async ({
  bus,
  postbud,
}) => {
  await emitPayments(bus.db, 1, 30);
  await drainLive(bus.db, [ledger(() => undefined, { rate: '6/m' })]);
  const [, second, third] = await deliveryIdsOf(bus.db);
  expect(words((await postbud(`why ${second}`, { columns: 100 })).out)).toMatch(
    /not delivered to ledger: due since [\d:]+; the subscriber’s limit is 6\/m; all that waits for it is through at about \d/,
  );
  const behind = (await postbud(`why ${third}`, { columns: 100 })).out;
  expect(words(behind)).toMatch(/behind [\da-f-]+…: due since [\d:]+; the subscriber’s limit is 6\/m;/);
  const { deliveries } = JSON.parse((await postbud(`why ${second} --json`)).out) as {
    deliveries: { why: { code: string; reason: string; since: string; until: string } | null }[];
  };
  const limited = deliveries.map(({ why }) => why).find((why) => why?.code === 'rate_limited');
  // 29 deliveries wait, ten seconds each.
  expect(limited).toMatchObject({ reason: '6/m' });
  expect(Date.parse(limited!.until) - Date.parse(limited!.since)).toBeGreaterThanOrEqual(290_000);
});
