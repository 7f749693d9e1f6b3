import { describe, expect } from 'vitest';

import { RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { changeDeliveries, freeLanes, holdLanes, renameLanes } from '../support/scenes.ts';
import { fail, ledger, refuse } from '../support/ledger.ts';
import { BROWSER, HOME, test } from '../support/operator-test.ts';
import type { Operators, Sent } from '../support/operator-test.ts';

const TOPIC = `${HOME}/topics/payment.captured`;

/** Sends a form of the topic's page. @returns the page that the browser is led to. */
async function act(operators: Operators, path: string, fields: Sent['form'] = {}): Promise<string> {
  const { status, headers } = await operators.ask(path, {
    accept: BROWSER,
    form: { next: TOPIC, ...fields },
  });
  expect(status).toBe(303);
  return headers.get('location')!.slice(HOME.length);
}

/** Opens a page. @returns what its region says, how often the page asks, and whether it reloads without script. */
async function region(operators: Operators, path: string) {
  const { text } = await operators.ask(path, { accept: BROWSER });
  const [, said = ''] = /<div id="following" role="status"[^>]*>(.*?)<\/div>/s.exec(text) ?? [];
  return {
    says: said
      .replace(/<a class="btn.*/s, '')
      .replaceAll(/<svg.*?<\/svg>|<[^>]*>/gs, '')
      .replaceAll(/\s+/g, ' ')
      .trim(),
    every: Number(/data-refresh="(\d+)"/.exec(text)?.[1]),
    reloads: text.includes('<noscript><meta http-equiv="refresh"'),
  };
}

const FOLLOWED = { every: 1, reloads: true };
const SETTLED = { every: 15, reloads: false };

describe('after a try at no cost, the page', () => {
  test('says how it ended, that it cost nothing, and when the next attempt is', async ({
    bus,
    operators,
  }) => {
    const [first] = await operators.held(1);
    const { text } = await operators.ask('/topics/payment.captured', { accept: BROWSER });
    expect(text).toContain(`action="${HOME}/deliveries/${first}/probe"`);
    const page = await act(operators, `/deliveries/${first}/probe`);
    expect(page).toBe(`/topics/payment.captured?done=probe-delivery&done.deliveryId=${first}`);
    expect((await region(operators, page)).says).toBe('Tried payment.captured to ledger: on its way …');
    await drainLive(bus.db, [ledger(fail)]);
    expect(await region(operators, page)).toEqual({
      says: expect.stringMatching(
        /^Tried payment\.captured to ledger: it still fails: the ledger is down; no attempt was used up, next try \d\d:\d\d:\d\d UTC\.$/,
      ),
      ...SETTLED,
    });
    const delivery = await operators.ask(`/dead-letters/${first}`, { accept: BROWSER });
    expect(delivery.text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')).toMatch(
      /Probed by kari@.* Probe: Error the ledger is down .* no attempt used up/,
    );
    await operators.ask('/subscribers/ledger/pause', { json: { reason: 'moving' } });
    const paused = await operators.ask('/topics/payment.captured', { accept: BROWSER });
    expect(paused.text).not.toContain('/probe"');
    expect((await operators.ask(`/deliveries/${first}/probe`, { json: {} })).json).toMatchObject({
      code: 'paused',
      detail: 'ledger is paused. Resume it first.',
    });
  });
});

describe('after a retry, the page', () => {
  test('says that the delivery is on its way, then when it was delivered and how long it took', async ({
    bus,
    operators,
  }) => {
    const [first] = await operators.held(1);
    const page = await act(operators, `/deliveries/${first}/retry`);
    expect(page).toBe(`/topics/payment.captured?done=retry&done.deliveryId=${first}`);
    expect(await region(operators, page)).toEqual({
      says: 'Retried payment.captured to ledger: on its way …',
      ...FOLLOWED,
    });
    await drainLive(bus.db, [ledger()]);
    expect(await region(operators, page)).toEqual({
      says: expect.stringMatching(
        /^Retried payment\.captured to ledger: delivered \d\d:\d\d:\d\d UTC after \d+ ms\.$/,
      ),
      ...SETTLED,
    });
  });

  test('says that it failed again, with what error and when the next try is', async ({ bus, operators }) => {
    const [first] = await operators.held(1);
    const page = await act(operators, `/deliveries/${first}/retry`);
    await drainLive(bus.db, [ledger(fail)]);
    expect(await region(operators, page)).toEqual({
      says: expect.stringMatching(
        /^Retried payment\.captured to ledger: failed again: the ledger is down, next try \d\d:\d\d:\d\d UTC\.$/,
      ),
      ...SETTLED,
    });
  });

  test('says that it was given up, that its handler asked to wait, or that its subscriber is paused', async ({
    bus,
    operators,
  }) => {
    const [first] = await operators.held(1);
    const page = await act(operators, `/deliveries/${first}/retry`);
    await act(operators, '/subscribers/ledger/pause', { reason: 'maintenance' });
    expect(await region(operators, page)).toEqual({
      says: 'Retried payment.captured to ledger: waits, because ledger is paused; resume it to deliver.',
      ...SETTLED,
    });
    await act(operators, '/subscribers/ledger/resume');
    const wait = () => {
      throw new RetryAfter(60_000);
    };
    await drainLive(bus.db, [ledger(wait)]);
    expect((await region(operators, page)).says).toMatch(/: the handler asked to wait, next try /);
    await act(operators, `/deliveries/${first}/retry`);
    await drainLive(bus.db, [ledger(refuse)]);
    expect((await region(operators, page)).says).toMatch(/: failed again: refused; dead-lettered\.$/);
  });

  test('says after a minute that it no longer asks every second', async ({ bus, operators }) => {
    const [first] = await operators.held(1);
    const page = await act(operators, `/deliveries/${first}/retry`);
    await changeDeliveries(
      bus.db,
      `attempt_log = jsonb_set(attempt_log, '{-1,at}', to_jsonb(clock_timestamp() - interval '61 seconds'))`,
    );
    expect(await region(operators, page)).toEqual({
      says: 'Retried payment.captured to ledger: on its way … After a minute, this page no longer asks every second.',
      ...SETTLED,
    });
  });
});

test('after a skip, the page says that the lane goes on', async ({ operators }) => {
  const [first] = await operators.held(2);
  const page = await act(operators, `/deliveries/${first}/skip`, { reason: 'answered by phone' });
  expect(await region(operators, page)).toEqual({
    says: 'Skipped payment.captured to ledger: it is a dead letter now. What waited behind it follows.',
    ...SETTLED,
  });
});

describe('after a pause or its end, the page', () => {
  test('says what waits, and follows it until all is delivered', async ({ bus, operators }) => {
    const topic = 'payment.captured';
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, []);
    const paused = await act(operators, '/subscribers/ledger/pause', { topic, reason: 'maintenance' });
    expect(await region(operators, paused)).toEqual({
      says: expect.stringMatching(
        /^Paused ledger on payment\.captured at \d\d:\d\d:\d\d UTC, by .+\. 2 deliveries wait until someone resumes it\.$/,
      ),
      ...SETTLED,
    });
    const resumed = await act(operators, '/subscribers/ledger/resume', { topic });
    expect((await region(operators, paused)).says).toBe('');
    expect(await region(operators, resumed)).toEqual({
      says: expect.stringMatching(/^Resumed ledger on .+ at \d\d:\d\d:\d\d UTC: 2 deliveries waiting …$/),
      ...FOLLOWED,
    });
    await drainLive(bus.db, [ledger()]);
    expect(await region(operators, resumed)).toEqual({
      says: expect.stringMatching(/: nothing waits, the last delivery at \d\d:\d\d:\d\d UTC\.$/),
      ...SETTLED,
    });
  });

  test('says that the subscriber fails again, or that another pause holds it', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 2);
    await drainLive(bus.db, []);
    await act(operators, '/subscribers/ledger/pause', { reason: 'maintenance' });
    await act(operators, '/subscribers/ledger/pause', { topic: 'payment.captured', reason: 'INC-7' });
    const resumed = await act(operators, '/subscribers/ledger/resume');
    await drainLive(bus.db, [ledger(fail)]);
    const one = await act(operators, '/subscribers/ledger/resume', { topic: 'payment.captured' });
    await drainLive(bus.db, [ledger(fail)]);
    expect(await region(operators, one)).toEqual({
      says: expect.stringMatching(/^Resumed .+\. 1 failed and will be retried\. 1 waiting\.$/),
      ...SETTLED,
    });
    await act(operators, '/subscribers/ledger/pause', { reason: 'once more' });
    expect((await region(operators, resumed)).says).toMatch(/, but it is still paused, by .+: once more$/);
  });

  test('follows a relay that still delivers to the subscriber, until it stops', async ({
    bus,
    operators,
  }) => {
    await operators.held(1);
    await holdLanes(bus.db, { until: new Date(Date.now() + MINUTE) });
    const paused = await act(operators, '/subscribers/ledger/pause', { reason: 'maintenance' });
    expect(await region(operators, paused)).toEqual({
      says: expect.stringMatching(/\. A relay is still delivering to it and stops within seconds\.$/),
      ...FOLLOWED,
    });
    await freeLanes(bus.db);
    expect(await region(operators, paused)).toMatchObject(SETTLED);
  });
});

describe('after a replay, any page', () => {
  test('says how many are delivered until none waits', async ({ bus, operators }) => {
    await operators.died(3);
    const { headers } = await operators.ask('/replay', {
      accept: BROWSER,
      form: { topic: 'payment.captured', since: '1h', reason: 'it is mended' },
    });
    const own = headers.get('location')!.slice(HOME.length);
    const page = `/dead-letters?done=replay&done.replayId=${own.split('/').at(-1)}`;
    expect(await region(operators, page)).toEqual({
      says: 'Replayed: 0 of 3 delivered, 3 waiting. See the replay.',
      ...FOLLOWED,
    });
    expect(await region(operators, own)).toMatchObject(FOLLOWED);
    await drainLive(bus.db, [ledger()]);
    expect(await region(operators, page)).toEqual({
      says: expect.stringMatching(
        /^Replayed: 3 of 3 delivered, the last at \d\d:\d\d:\d\d UTC\. See the replay\.$/,
      ),
      ...SETTLED,
    });
    expect(await region(operators, own)).toMatchObject(SETTLED);
  });
});

describe('after what is settled at once, the page', () => {
  test('says that an incident is acknowledged, and that its dead letters are dismissed', async ({
    operators,
  }) => {
    await operators.died(2);
    const { json } = await operators.ask('/incidents');
    const [{ incidentId }] = json['items'] as [{ incidentId: string }];
    const incident = `/incidents/${incidentId}`;
    const acknowledged = await act(operators, `${incident}/acknowledge`, { note: 'the supplier is told' });
    expect(await region(operators, acknowledged)).toEqual({
      says: expect.stringMatching(
        /^Acknowledged at \d\d:\d\d:\d\d UTC, by .+\. It stays open until nothing is left of it\.$/,
      ),
      ...SETTLED,
    });
    const dismissed = await act(operators, `${incident}/dismiss`, { reason: 'test data' });
    expect(await region(operators, dismissed)).toMatchObject({
      says: expect.stringMatching(/^Dismissed 2 dead letters\. /),
      ...SETTLED,
    });
  });

  test('says that a subscriber is retired', async ({ bus, operators }) => {
    await operators.died(1);
    await renameLanes(bus.db, 'ledger', 'postcards');
    await rows(bus.db, `update error_groups set subscriber = 'postcards'`);
    const retired = await act(operators, '/subscribers/postcards/retire', {
      reason: 'postcards are history',
    });
    expect(retired).toBe('?done=retire&done.subscriber=postcards');
    expect(await region(operators, retired)).toEqual({
      says: 'Retired postcards. What waited for it is dismissed.',
      ...SETTLED,
    });
  });
});

const NOBODY = '019a0000-0000-7000-8000-000000000009';

test.for([
  '?done=retry&done.deliveryId=00000000-0000-7000-8000-000000000000.accounting',
  `?done=replay&done.replayId=${NOBODY}`,
  '?done=pause&done.subscriber=ledger&done.topic=nothing',
  '?done=resume&done.subscriber=nobody',
  '?done=retire&done.subscriber=nobody',
  `?done=acknowledge-incident&done.incidentId=${NOBODY}`,
  `?done=repair&done.id=${NOBODY}`,
])('a page whose address names nothing that was done says nothing: %s', async (query, { operators }) => {
  const page = await region(operators, `/dead-letters${query}`);
  expect(page).toEqual({ says: '', ...SETTLED });
});

test('links of a page that follows an action do not go on about it', async ({ operators }) => {
  const [first] = await operators.held(1);
  const { text } = await operators.ask(`?done=retry&done.deliveryId=${first}`, { accept: BROWSER });
  const links = [...text.matchAll(/href="([^"]*done=[^"]*)"/g)].map(([, link]) => link);
  expect(new Set(links)).toEqual(new Set([`/platform/event-bus?done=retry&amp;done.deliveryId=${first}`]));
});
