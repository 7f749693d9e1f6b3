import { describe, expect, onTestFinished } from 'vitest';

import { SMOKE_TEST } from '../../lib/bus/catalog/smoke-test.ts';
import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { withSmokeTests } from '../../lib/components/smoke-test.ts';
import { drainLive, rows } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';

describe('npx postbud smoke', () => {
  test('says that no event was sent where nobody would deliver it', async ({ server, postbud }) => {
    const smokeTestId = '019c7f41-0f4e-7a61-9c53-5f0f8f1f2a11';
    server.answerInstead = async () => Response.json({ smokeTestId, subscribers: [], paused: [] });
    const { code, out, err } = await postbud('smoke');
    expect([code, out, err]).toEqual([0, expect.stringContaining('No event was sent: this deployment'), '']);
  });

  test('says who has it and ends with 0, also to programs in JSON', async ({ bus, postbud }) => {
    const relay = setInterval(() => void drainLive(bus.db, withSmokeTests([ledger()])), 200);
    onTestFinished(() => clearInterval(relay));
    const { code, out } = await postbud('smoke');
    expect([code, out]).toEqual([0, expect.stringMatching(/^✓ Delivered to ledger at \d\d:\d\d.*\.$/m)]);
    const asJson = await postbud('smoke ledger --json');
    expect([asJson.code, asJson.json()]).toMatchObject([
      0,
      { subscribers: ['ledger'], event: { event: { state: 'delivered' } } },
    ]);
  });

  test('names who is left out because it is paused', async ({ bus, postbud }) => {
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'kari', 'moving');
    expect((await postbud('smoke')).out).toContain('No event was sent. ledger is paused: left out.');
    expect((await postbud('smoke --json')).json()).toMatchObject({ subscribers: [], paused: ['ledger'] });
  });

  test('of an unknown subscriber is refused with the nearest name, and of one that is not attached', async ({
    bus,
    postbud,
  }) => {
    const { code, err } = await postbud('smoke legder');
    expect([code, err]).toEqual([
      2,
      "--subscriber 'legder': expected a subscriber of the catalog; did you mean ledger?",
    ]);
    const unattached = await postbud('smoke accounting');
    expect([unattached.code, unattached.err]).toEqual([
      1,
      expect.stringContaining('this deployment does not deliver to it'),
    ]);
    expect(await rows(bus.db, 'select from smoke_tests')).toEqual([]);
  });

  test('says why it waits, where the time is up', async ({ bus, server, postbud }) => {
    expect(server.url).toContain('http');
    const { code, out } = await postbud('smoke --timeout 1');
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(/^✗ Not delivered to ledger: .*relay.*\. The time is up\.$/m),
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
