import { describe, expect } from 'vitest';

import { drainLive, rows } from '../support/bus.ts';
import { renameLanes } from '../support/scenes.ts';
import { fail, ledger } from '../support/ledger.ts';
import { BROWSER, HOME, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const TOPIC = `${HOME}/topics/payment.captured`;

/** Sends a form of the topic's page. @returns the page that the browser is led to, and its cookie. */
async function act(operators: Operators, path: string, fields: Readonly<Record<string, string>> = {}) {
  const { status, headers } = await operators.ask(path, {
    accept: BROWSER,
    form: { next: TOPIC, ...fields },
  });
  expect(status).toBe(303);
  const [cookie = ''] = headers.getSetCookie();
  return { path: headers.get('location')!.slice(HOME.length), cookie };
}

/** Opens a page. @returns what it says was done, how often it asks, and whether it reloads without script. */
async function region(operators: Operators, path: string, cookie = '') {
  const { text } = await operators.ask(path, { accept: BROWSER, cookie: cookie.split(';')[0]! });
  const [, said = ''] = /<div id="done" role="status"[^>]*>(.*?)<\/div>/s.exec(text) ?? [];
  return {
    says: said
      .replaceAll(/<svg.*?<\/svg>|<[^>]*>/gs, '')
      .replaceAll(/\s+/g, ' ')
      .trim(),
    every: Number(/data-refresh="(\d+)"/.exec(text)?.[1]),
    reloads: text.includes('<noscript><meta http-equiv="refresh"'),
  };
}

const NOTHING = { says: '', every: 15, reloads: false };

describe('after an action, a browser', () => {
  test('is back at the page that it came from, which says for a minute what was done and asks each second', async ({
    bus,
    operators,
  }) => {
    const [first] = await operators.held(1);
    const { path, cookie } = await act(operators, `/deliveries/${first}/retry`);
    expect(path).toBe('/topics/payment.captured');
    expect(cookie).toMatch(
      /^__Host-event-bus-done=[^;]+; Max-Age=60; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
    );
    expect(await region(operators, path, cookie)).toEqual({
      says: expect.stringMatching(
        /^Retried payment\.captured to ledger: it is due now\. \d\d:\d\d:\d\d UTC$/,
      ),
      every: 1,
      reloads: true,
    });
    await drainLive(bus.db, [ledger(fail)]);
    const { text } = await operators.ask(path, { accept: BROWSER });
    expect(text).toContain('2 of 5 attempts');
  });

  test('reads it on no other page, at no address, and not after the cookie is gone or spoilt', async ({
    operators,
  }) => {
    const [first] = await operators.held(1);
    const { path, cookie } = await act(operators, `/deliveries/${first}/retry`);
    expect(await region(operators, '/dead-letters', cookie)).toEqual(NOTHING);
    expect(await region(operators, path)).toEqual(NOTHING);
    expect(await region(operators, path, `${cookie.split('=')[0]}={"page":7}`)).toEqual(NOTHING);
  });

  test('is alone given a cookie: a program has the answer', async ({ operators }) => {
    const [first] = await operators.held(1);
    const { headers } = await operators.ask(`/deliveries/${first}/retry`, { json: {} });
    expect(headers.getSetCookie()).toEqual([]);
  });
});

describe('the page says what was done', () => {
  const said = async (
    operators: Operators,
    ...[path, fields]: [string, Readonly<Record<string, string>>?]
  ) => {
    const done = await act(operators, path, fields);
    return (await region(operators, done.path, done.cookie)).says.replace(/ \S+ UTC$/, '');
  };

  test('to a delivery and to a subscriber', async ({ operators }) => {
    const [first] = await operators.held(2);
    expect(await said(operators, `/deliveries/${first}/probe`)).toBe(
      'Tried payment.captured to ledger: it is due now. If it fails, that costs no attempt.',
    );
    expect(await said(operators, `/deliveries/${first}/skip`, { reason: 'by phone' })).toBe(
      'Skipped payment.captured to ledger: it is a dead letter now. What waited behind it follows.',
    );
    expect(await said(operators, '/dismiss', { deliveryIds: first!, reason: 'by phone' })).toBe(
      'Dismissed 1 dead letter, which can still be replayed.',
    );
    const topic = 'payment.captured';
    expect(await said(operators, '/subscribers/ledger/pause', { topic, reason: 'moving' })).toMatch(
      /^ledger is paused for payment\.captured\. Its deliveries wait until someone resumes it/,
    );
    expect(await said(operators, '/subscribers/ledger/resume', { topic })).toMatch(
      /^Resumed ledger for payment\.captured\./,
    );
  });

  test('to an incident', async ({ operators }) => {
    await operators.died(2);
    const { json } = await operators.ask('/incidents');
    const [{ incidentId }] = json['items'] as [{ incidentId: string }];
    const incident = `/incidents/${incidentId}`;
    expect(await said(operators, `${incident}/acknowledge`, { note: 'the supplier is told' })).toMatch(
      /^Acknowledged\. ledger refused/,
    );
    expect(await said(operators, `${incident}/dismiss`, { reason: 'test data' })).toBe(
      'Dismissed 2 dead letters.',
    );
  });

  test('to a subscriber that is retired', async ({ bus, operators }) => {
    await operators.died(1);
    await renameLanes(bus.db, 'ledger', 'postcards');
    await rows(bus.db, `update error_groups set subscriber = 'postcards'`);
    expect(await said(operators, '/subscribers/postcards/retire', { reason: 'they are history' })).toBe(
      'Retired postcards on payment.captured: 1 delivery dismissed.',
    );
  });
});

test('a try at no cost stands in the history of the delivery, and a paused subscriber is offered none', async ({
  bus,
  operators,
}) => {
  const [first] = await operators.held(1);
  await act(operators, `/deliveries/${first}/probe`);
  await drainLive(bus.db, [ledger(fail)]);
  const delivery = await operators.ask(`/dead-letters/${first}`, { accept: BROWSER });
  expect(delivery.text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')).toMatch(
    /Probed by kari@.* Probe: Error the ledger is down .* no attempt used up/,
  );
  await operators.ask('/subscribers/ledger/pause', { json: { reason: 'moving' } });
  const { text } = await operators.ask('/topics/payment.captured', { accept: BROWSER });
  expect(text).not.toContain('/probe"');
  expect((await operators.ask(`/deliveries/${first}/probe`, { json: {} })).json).toMatchObject({
    code: 'paused',
    detail: 'ledger is paused. Resume it first.',
  });
});
