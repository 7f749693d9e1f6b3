import { sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';

import { WATCH_LOCK } from '../../lib/bus/deliveries/locks.ts';
import { drainLive, emitPayments, numbers, rows } from '../support/bus.ts';
import { renameLanes } from '../support/scenes.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

interface Item {
  readonly incidentId: string;
  readonly state: string;
}

const ORDER = ['happening', 'owed', 'closed'];

const listed = async (operators: Operators) => (await operators.ask('/incidents')).json['items'] as Item[];

async function onlyIncident(operators: Operators): Promise<string> {
  const [item, ...others] = await listed(operators);
  expect(others).toEqual([]);
  return item!.incidentId;
}

const shown = async (operators: Operators, path: string) =>
  (await operators.ask(path, { accept: BROWSER })).text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

/** The fields of the form by which an incident's page dismisses. */
async function dismissFields(operators: Operators, path: string): Promise<Record<string, string>> {
  const { text } = await operators.ask(path, { accept: BROWSER });
  const [, form = ''] = /<form method="post" action="[^"]*\/dismiss">(.*?)<\/form>/s.exec(text) ?? [];
  const hidden = form.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g);
  return Object.fromEntries(Array.from(hidden, ([, name, value]) => [name!, value!]));
}

describe('an incident', () => {
  test('is retried, replayed and confirmed on its own page', async ({ bus, operators }) => {
    await operators.died(7);
    await emitPayments(bus.db, 8, 9);
    const down = ledger(() => {
      throw Object.assign(new Error('licence expired'), { code: 'permanent_not', name: 'Down' });
    });
    await drainLive(bus.db, [down]);
    expect(await listed(operators)).toMatchObject([
      { state: 'happening', blockedLanes: 1, waiting: 2, lastError: { message: 'licence expired' } },
      { state: 'owed', owed: 7, lastError: { kind: 'permanent', message: 'refused' } },
    ]);
    const [blocked, owed] = (await listed(operators)).map(({ incidentId }) => `/incidents/${incidentId}`);

    expect(await shown(operators, blocked!)).toContain('Retry 1 lane now');
    operators.kicks = 0;
    const retried = await operators.ask(`${blocked}/retry`, {
      form: { next: `/platform/event-bus${blocked}` },
      accept: BROWSER,
    });
    expect([retried.status, retried.headers.get('location')]).toEqual([303, `/platform/event-bus${blocked}`]);
    expect(operators.kicks).toBe(1);
    expect(decodeURIComponent(retried.headers.get('set-cookie')!)).toContain('Retried: 1 lane due now.');
    await drainLive(bus.db, [ledger()]);
    expect(await shown(operators, blocked!)).toContain(': over.');

    const [, preview] = /href="([^"]*\/replay\?[^"]*)"/.exec(
      (await operators.ask(owed!, { accept: BROWSER })).text,
    )!;
    const path = preview!.replaceAll('&amp;', '&').replace('/platform/event-bus', '');
    const { text } = await operators.ask(path, { accept: BROWSER });
    const fields = Object.fromEntries(
      Array.from(text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g), ([, name, value]) => [
        name!,
        value!,
      ]),
    );
    expect(fields).toMatchObject({ expectedCount: '7' });
    const replayed = await operators.ask('/replay', {
      form: { ...fields, reason: 'it is back' },
      accept: BROWSER,
    });
    expect([replayed.status, replayed.headers.get('location')]).toEqual([303, `/platform/event-bus${owed}`]);
    expect(await shown(operators, owed!)).toContain('its dead letters are being delivered again');
    expect((await operators.ask(owed!)).json).toMatchObject({ state: 'owed', owed: 0 });
    await drainLive(bus.db, [ledger()]);
    expect(await shown(operators, owed!)).toContain(': over.');
    expect((await operators.ask(owed!)).json).toMatchObject({
      state: 'closed',
      actions: [{ action: 'replay', replayId: fields['replayId'] }],
    });
    expect(await shown(operators, '')).toContain('All quiet');
  });

  test('of several causes leads to all that is wrong with its subscriber, from each of their pages', async ({
    bus,
    operators,
  }) => {
    const failAs = (code: string, message: string) => () => {
      throw Object.assign(new Error(message), { code });
    };
    await emitPayments(bus.db, 1, 1, { orderingKey: 'venue 1' });
    await drainLive(bus.db, [ledger(failAs('http_500', 'the subscriber answered 500: licence expired'))]);
    await listed(operators);
    await emitPayments(bus.db, 2, 2, { orderingKey: 'venue 2' });
    await drainLive(bus.db, [ledger(failAs('http_410', 'the subscriber answered 410: account closed'))]);
    const ids = (await listed(operators)).map(({ incidentId }) => incidentId);
    expect(ids).toHaveLength(2);
    for (const id of ids) {
      const path = `/incidents/${id}`;
      const { text } = await operators.ask(path, { accept: BROWSER });
      const [, all] = /href="\/platform\/event-bus(\/incidents\?\S+)">all incidents of ledger</.exec(text)!;
      const list = await operators.ask(all!, { accept: BROWSER });
      expect(await shown(operators, all!)).toMatch(/ 500: licence expired .* 410: account closed /);
      for (const one of ids) expect(list.text).toContain(`href="/platform/event-bus/incidents/${one}"`);
    }
  });

  test('is told from the others of its subscription by its heading, its tab and its link', async ({
    bus,
    operators,
  }) => {
    const person = 'kari.lunde@example.no';
    for (const [index, words] of [
      'licence expired',
      `no account for ${person}, ${'a'.repeat(80)}`,
    ].entries()) {
      await emitPayments(bus.db, index + 1, index + 1, { orderingKey: `venue ${index}` });
      const failing = ledger(() => {
        throw Object.assign(new Error(`the subscriber answered 500: ${words}`), { code: 'http_500' });
      });
      await drainLive(bus.db, [failing]);
      await listed(operators);
    }
    const ids = (await listed(operators)).map(({ incidentId }) => incidentId);
    expect(ids).toHaveLength(2);
    const list = (await operators.ask('/incidents', { accept: BROWSER })).text;
    const told = await Promise.all(
      ids.map(async (id) => {
        const { text } = await operators.ask(`/incidents/${id}`, { accept: BROWSER });
        const link = new RegExp(
          `<a class="t" href="/platform/event-bus/incidents/${id}" aria-label="([^"]*)"`,
        );
        return [/<title>([^<]*)/, /<h1[^>]*>([^]*?)<\/h1>/]
          .map((pattern) => pattern.exec(text)![1]!.replaceAll(/<[^>]*>/g, ''))
          .concat(link.exec(list)![1]!);
      }),
    );
    for (const place of [0, 1, 2]) {
      const [licence, account] = told
        .map((one) => one[place]!)
        .toSorted((one, other) => one.length - other.length);
      expect(licence).toContain('500: licence expired');
      expect(account).toMatch(/500: no account for .*a…/);
      expect(account).not.toContain(person);
    }
  });

  test('is acknowledged with a note that every list shows, and not once it is closed', async ({
    bus,
    operators,
  }) => {
    await operators.held(2);
    const id = await onlyIncident(operators);
    const json = { note: 'the supplier is told' };
    const { status, json: answer } = await operators.ask(`/incidents/${id}/acknowledge`, { json });
    expect([status, answer]).toMatchObject([
      200,
      {
        state: 'happening',
        acknowledged: { by: 'kari@solvik.example.no', note: 'the supplier is told' },
      },
    ]);
    expect(await shown(operators, '/incidents')).toContain('the supplier is told');
    expect(await shown(operators, '')).toContain('the supplier is told');
    expect(
      await rows(bus.db, 'select action, reason, incident_id::text as id from operator_actions'),
    ).toEqual([{ action: 'acknowledge', reason: 'the supplier is told', id }]);
    await operators.ask(`/incidents/${id}/retry`, { json: {} });
    await drainLive(bus.db, [ledger()]);
    await listed(operators);
    expect((await operators.ask(`/incidents/${id}/acknowledge`, { json })).json).toMatchObject({
      status: 409,
      code: 'incident_closed',
    });
  });

  test('says before a retry which attempt it is, and what it costs if that fails', async ({ operators }) => {
    await operators.held(2);
    expect(await shown(operators, `/incidents/${await onlyIncident(operators)}`)).toContain(
      'A retry is attempt 2 of 5; if it fails, the next wait is 5 min.',
    );
    expect(await shown(operators, '/topics/payment.captured')).toContain(
      'Retry: attempt 2 of 5; if it fails, the next wait is 5 min',
    );
  });

  test('of a subscription that this release does not deliver offers no retry, and refuses one', async ({
    bus,
    operators,
  }) => {
    const [first] = await operators.held(2);
    operators.attached = [];
    const id = await onlyIncident(operators);
    const page = await shown(operators, `/incidents/${id}`);
    expect(page).toContain('Attach 1 lane blocked. ledger is not attached to payment.captured');
    expect(page).not.toContain('Retry 1 lane');
    await renameLanes(bus.db, 'ledger', 'postcards');
    await rows(bus.db, "update incidents set subscriber = 'postcards' where subscriber = 'ledger'");
    const renamed = first!.replace('ledger', 'postcards');
    const settle = 'Retire…';
    for (const path of [`/incidents/${id}`, `/dead-letters/${renamed}`, '/topics/payment.captured']) {
      const { text } = await operators.ask(path, { accept: BROWSER });
      expect([path, text.includes(settle), text.includes('/retry"')]).toEqual([path, true, false]);
    }
    for (const path of [`/incidents/${id}/retry`, `/deliveries/${renamed}/retry`]) {
      expect((await operators.ask(path, { json: {} })).json).toMatchObject({
        status: 409,
        code: 'no_such_subscription',
      });
    }
  });

  test('is dismissed with a reason, and its dead letters say who dismissed them and why', async ({
    operators,
  }) => {
    const ids = await operators.died(3);
    const id = await onlyIncident(operators);
    const dismissed = await operators.ask(`/incidents/${id}/dismiss`, { json: { reason: 'test data' } });
    expect(dismissed.json).toEqual({ incidentId: id, dismissed: 3, left: 0 });
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ total: 0, totalInAll: 0, items: [] });
    expect((await operators.ask(`/incidents/${id}`)).json).toMatchObject({
      state: 'closed',
      owed: 0,
    });
    const page = await shown(operators, `/dead-letters/${ids[0]}`);
    expect(page).toContain('dismissed');
    expect(page).toMatch(/Dismissed by \S+ test data/);
    expect(await shown(operators, '/replays')).toContain('test data');
    expect(
      (await operators.ask(`/incidents/${id}/dismiss`, { json: { reason: 'again' } })).json,
    ).toMatchObject({
      dismissed: 0,
    });
  });

  test('that is closed dismisses nothing of the one that came after it', async ({ bus, operators }) => {
    await operators.died(3);
    const earlier = await onlyIncident(operators);
    const path = `/incidents/${earlier}/dismiss`;
    await operators.ask(path, { json: { reason: 'test data' } });
    expect(await listed(operators)).toMatchObject([{ state: 'closed' }]);
    await rows(bus.db, `update incidents set closed_at = closed_at - interval '1 hour'`);
    await operators.died(2);
    expect(await listed(operators)).toMatchObject([{ state: 'owed', owed: 2 }, { incidentId: earlier }]);
    expect((await operators.ask(path, { json: { reason: 'again' } })).json).toEqual({
      incidentId: earlier,
      dismissed: 0,
      left: 0,
    });
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ total: 2 });
  });

  test('dismisses the dead letters that its page showed, and none that died or left since', async ({
    operators,
  }) => {
    const [first] = await operators.died(3);
    const path = `/incidents/${await onlyIncident(operators)}`;
    const form = { ...(await dismissFields(operators, path)), reason: 'test data' };
    await operators.died(2);
    await operators.ask('/dismiss', { json: { deliveryIds: [first], reason: 'booked' } });
    const refused = await operators.ask(`${path}/dismiss`, { form });
    expect(refused.json).toMatchObject({
      status: 409,
      code: 'count_changed',
      detail: expect.stringMatching(
        /^Nothing was dismissed: 2 deliveries match, not 3\. Preview it again\. See what was done: \/platform\/event-bus\/incidents\//,
      ),
    });
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ total: 4 });

    const again = await dismissFields(operators, path);
    expect(again).toMatchObject({ expectedCount: '4' });
    await operators.died(1);
    const { json } = await operators.ask(`${path}/dismiss`, {
      form: { ...form, ...again },
      accept: 'application/json',
    });
    expect(json).toMatchObject({ dismissed: 4, left: 0 });
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ total: 1 });
  });

  test('shows no buttons without the scope', async ({ operators }) => {
    await operators.held(1);
    const id = await onlyIncident(operators);
    const scope = 'event-bus:read';
    const { text } = await operators.ask(`/incidents/${id}`, { accept: BROWSER, scope });
    expect(text).not.toMatch(/<button[^>]*>(Retry|Acknowledge|Dismiss)/);
    expect(text).toContain('needs the scope');
  });

  test('is listed, however many others are live', async ({ bus, operators }) => {
    const kinds = numbers(1, 502).map((number) => `kind ${number}`);
    await bus.db.transaction(async (tx) => {
      // Nothing of this fails: a watch would close them.
      await tx.execute(sql`select pg_advisory_xact_lock(${WATCH_LOCK}, 0)`);
      await rows(
        bus.db,
        `insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, closed_at,
           blocked_lanes, waiting, owed)
         select gen_random_uuid(), 'payment.captured', 'ledger', kind, '', case
             when number > 501 then 'closed' when number % 2 = 0 then 'owed' else 'happening' end, 'opened', now(),
           now(), case when number > 501 then now() end, 0, number / 100, number / 10
         from jsonb_array_elements_text($1::text::jsonb) with ordinality as given (kind, number)`,
        [JSON.stringify(kinds)],
      );
      const listed: string[] = [];
      const states: string[] = [];
      let cursor: string | null = '';
      do {
        const { json } = await operators.ask(`/incidents?limit=100${cursor && `&cursor=${cursor}`}`);
        const items = json['items'] as (Item & { readonly lastError: { readonly kind: string } })[];
        listed.push(...items.map(({ lastError }) => lastError.kind));
        states.push(...items.map(({ state }) => state));
        cursor = json['nextCursor'] as string | null;
      } while (cursor !== null);
      expect(listed.toSorted()).toEqual(kinds.toSorted());
      expect(states).toEqual(states.toSorted((one, other) => ORDER.indexOf(one) - ORDER.indexOf(other)));
    });
  });

  test('is listed by its state, topic and subscriber, closed ones page by page', async ({
    bus,
    operators,
  }) => {
    await rows(
      bus.db,
      `insert into incidents (id, topic, subscriber, kind, message, state, change, opened_at, changed_at, closed_at,
         blocked_lanes, waiting, owed)
       select gen_random_uuid(), 'payment.captured', 'audit', 'kind ' || number, '', 'closed', 'closed', now(), now(),
         now() - number * interval '1 hour', 0, 0, 0 from generate_series(1, 5) as number`,
    );
    await operators.held(1);
    const first = (await operators.ask('/incidents?limit=3')).json as { items: Item[]; nextCursor: string };
    expect(first.items.map(({ state }) => state)).toEqual(['happening', 'closed', 'closed']);
    const second = await operators.ask(`/incidents?limit=3&cursor=${first.nextCursor}`);
    expect(
      (second.json['items'] as { lastError: { kind: string } }[]).map(({ lastError }) => lastError.kind),
    ).toEqual(['kind 3', 'kind 4', 'kind 5']);
    expect(second.json['nextCursor']).toBeNull();
    expect((await operators.ask('/incidents?state=closed&subscriber=ledger')).json['items']).toEqual([]);
    expect(
      (await operators.ask('/incidents?state=happening&topic=payment.captured')).json['items'],
    ).toHaveLength(1);
  });
});
