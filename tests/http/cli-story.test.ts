import { expect } from 'vitest';

import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

test('an operator finds why a payment did not reach the ledger, sets it right and sees it confirmed, with six commands', async ({
  bus,
  server,
  postbud,
}) => {
  // Two captures were refused for good, and a third holds the lane of seven.
  await emitPayments(bus.db, 1, 9);
  const expired = (number: number) => {
    if (number <= 2) throw new PermanentError('licence expired');
    throw new TypeError('licence expired');
  };
  await drainLive(bus.db, [ledger(expired)]);
  const [missed] = await rows<{ id: string }>(
    bus.db,
    `select id::text from events where payload ->> 'amountMinor' = '9'`,
  );
  // The ledger is fixed: from the first action on, a relay delivers what is due.
  let isFixed = false;
  server.answerInstead = async ({ method }) => {
    if (isFixed && method === 'GET') await drainLive(bus.db, [ledger()]);
    isFixed ||= method === 'POST';
    return undefined;
  };

  const incidents = await postbud('incidents');
  expect(incidents.out).toContain('1 happening now, 1 over with dead letters left.');
  expect(incidents.out).toContain('1 lane is blocked, 7 deliveries wait.');

  const why = await postbud(`why ${missed!.id}`);
  expect(why.out.split('\n')[0]).toContain('Not delivered to ledger');
  expect(why.out).toContain('licence expired');
  const [, lane] = /npx postbud retry ([\da-f-]{36}\.\w+)/.exec(why.out) ?? [];

  const retried = await postbud(`retry ${lane} --reason renewed --wait`);
  expect([retried.code, retried.out]).toEqual([0, expect.stringContaining('✓ Attempt 2: delivered.')]);

  const [, owed] = /2 dead letters left\.[^]*?([\da-f-]{36})/.exec(incidents.out) ?? [];
  const replayed = await postbud(`replay --incident ${owed} --reason renewed --yes --wait`);
  expect([replayed.code, replayed.out]).toEqual([
    0,
    expect.stringContaining('✓ Replayed: 2 of 2 delivered.'),
  ]);

  const confirmed = await postbud(`why ${missed!.id}`);
  expect(confirmed.out).toMatch(/ledger +✓ delivered/);
  const after = await postbud('incidents');
  expect(after.out).toContain('0 happening now, 0 over with dead letters left.');
});
