import { expect } from 'vitest';

import { emit } from '../../lib/outbox/emit.ts';
import { PermanentError } from '../../lib/subscribers/outcome.ts';
import { drainLive, payloadOf } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

test('payments that stopped are found, explained, fixed, replayed and confirmed by six commands', async ({
  bus,
  server,
  postbud,
}) => {
  const refuse = (error: Error) => () => {
    throw Object.assign(error, { answer: '{ "error": "licence expired" }' });
  };
  const pay = async (...intents: string[]) => {
    for (const intentId of intents)
      await emit(bus.db, 'payment.captured', payloadOf('payment.captured', { intentId }));
  };
  await pay('pi_1', 'pi_2');
  await drainLive(bus.db, [ledger(refuse(new PermanentError('the subscriber answered 410 Gone')))]);
  await pay('pi_3', 'pi_4');
  await drainLive(bus.db, [ledger(refuse(new Error('the subscriber answered 500')))]);

  const alert = await postbud('incidents');
  expect(alert.out).toContain('1 happening now, 1 over with dead letters left.');
  expect(alert.out).toContain('ledger fails with Error on payment.captured: 1 lane is blocked');
  const [incidentId] = UUID.exec(alert.out)!;

  expect((await postbud('why pi_4')).out).toMatch(
    /^Not delivered to ledger: next behind intent pi_3, which answered 500 “licence expired”; next try /,
  );

  const [deliveryId] = /\b\d+-\d+\b(?!-)/.exec(
    (await postbud(`incidents ${incidentId}`)).out.split('Blocked lane')[1]!,
  )!;

  // The licence is paid, and a relay comes after each action.
  server.answerInstead = async ({ method }) => {
    if (method === 'GET') await drainLive(bus.db, [ledger()]);
    return undefined;
  };
  const retried = await postbud(`retry ${deliveryId} --reason paid --wait`);
  expect([retried.code, retried.out]).toEqual([0, expect.stringContaining('✓ Delivered at ')]);

  const replayed = await postbud('replay payment.captured --since 24h --reason paid --yes --wait');
  expect([replayed.code, replayed.out]).toEqual([
    0,
    expect.stringMatching(/✓ 2 of 2 delivered at .* Europe\/Oslo\.$/),
  ]);

  expect((await postbud('incidents')).out).toContain('0 happening now, 0 over with dead letters left.');
});
