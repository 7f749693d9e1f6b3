import { describe, expect } from 'vitest';

import { drainLive, emitPayments, rows } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import { relist } from '../support/scenes.ts';

const linesOf = (text: string) => text.split('\r\n').slice(0, -1);

describe('a list of the console as CSV', () => {
  test('has all that match, with the fields of the answer, by the address and by Accept', async ({
    operators,
  }) => {
    const ids = await operators.died(120, '=refused, "twice"');
    const file = await operators.ask('/dead-letters?subscriber=ledger&format=csv&limit=10', {
      accept: BROWSER,
    });
    expect([file.status, file.type]).toEqual([200, 'text/csv; charset=utf-8; header=present']);
    expect(file.headers.get('content-disposition')).toMatch(
      /^attachment; filename="dead-letters-\d{4}-\d\d-\d\d\.csv"$/,
    );
    expect(file.headers.get('link')).toBeNull();
    const [head, ...lines] = linesOf(file.text);
    expect(head).toMatch(
      /^deliveryId,eventId,topic,subscriber,.*lastError\.kind,lastError\.message,lastError\.group$/,
    );
    expect(lines).toHaveLength(120);
    expect(lines.map((line) => line.split(',')[0])).toEqual(ids.toReversed());
    expect(lines[0]).toContain(`"'=refused, ""twice"""`);
    const asked = await operators.ask('/dead-letters?subscriber=ledger', { accept: 'text/csv' });
    expect(asked.text).toBe(file.text);
    expect(linesOf((await operators.ask('/dead-letters?subscriber=audit&format=csv')).text)).toEqual([head]);
    const groups = await operators.ask('/dead-letters?format=csv&list=groups');
    expect(linesOf(groups.text)).toHaveLength(2);
    expect(linesOf(groups.text)[0]).toMatch(/^group,kind,message,topic,subscriber,count,/);
  });

  test('ends at 10,000 rows, says so in its name, and leads to the next', async ({ bus, operators }) => {
    await rows(
      bus.db,
      `insert into operator_actions (id, at, operator, action, reason)
       select gen_random_uuid(), clock_timestamp() - n * interval '1 second', 'kari', 'pause', 'n ' || n
       from generate_series(1, 10500) as n`,
    );
    const first = await operators.ask('/replays?format=csv');
    expect(linesOf(first.text)).toHaveLength(10_001);
    expect(first.headers.get('content-disposition')).toMatch(/-first-10000\.csv"$/);
    const [, next] = /^<\/platform\/event-bus(\/replays\?[^>]+)>; rel="next"$/.exec(
      first.headers.get('link')!,
    )!;
    const second = await operators.ask(next!);
    expect(linesOf(second.text)).toHaveLength(501);
    expect(second.headers.get('link')).toBeNull();
  });

  test('of an event has its deliveries, with why each of them waits', async ({ bus, operators }) => {
    await operators.held(1);
    const [event] = await rows<{ id: string }>(bus.db, 'select id::text from events');
    const [head, ...lines] = linesOf((await operators.ask(`/events/${event!.id}?format=csv`)).text);
    expect(head).toMatch(/^deliveryId,subscriber,state,.*failures,maxAttempts,.*why\.code,why\.text,/);
    expect(lines).toHaveLength(4);
    expect(lines.find((line) => line.includes(',ledger,failing,'))).toContain(',backoff,');
  });

  test.for(['lanes', 'halts', 'topics', 'deadLetters', 'groups', 'replays', 'others', 'actions'])(
    'of an incident has its %s',
    async (list, { operators }) => {
      await operators.held(2);
      const { json } = await operators.ask('/incidents');
      const [{ incidentId }] = json['items'] as [{ incidentId: string }];
      const file = await operators.ask(`/incidents/${incidentId}?format=csv&list=${list}`);
      const [head, ...lines] = linesOf(file.text);
      expect(head).toMatch(/^[\w.]+(,[\w.]+)+$/);
      expect(lines).toHaveLength(list === 'lanes' ? 1 : 0);
    },
  );

  test('is linked on its page, with the filters and from the beginning', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 1);
    await relist(bus.db, `'{ledger}'`);
    await drainLive(bus.db, [ledger()]);
    const { text } = await operators.ask('/events?state=delivered&limit=10', { accept: BROWSER });
    expect(text).toContain('href="/platform/event-bus/events?state=delivered&amp;format=csv"');
  });

  test('is linked only where it has rows, and each of several lists by its own name', async ({
    operators,
  }) => {
    const linksOf = async (path: string) => {
      const { text } = await operators.ask(path, { accept: BROWSER });
      return Array.from(text.matchAll(/href="[^"]*format=csv([^"]*)"/g), ([, rest]) => rest);
    };
    for (const path of ['/events', '/dead-letters', '/replays', '/subscribers/ledger/x'])
      expect([path, await linksOf(path)]).toEqual([path, []]);
    await operators.held(1);
    expect(await linksOf('/events')).toEqual(['']);
    expect(await linksOf('/dead-letters')).toEqual([]);
    expect(await linksOf('/subscribers/ledger')).toEqual([
      '',
      '&amp;list=heldLanes',
      '&amp;list=subscriptions',
    ]);
  });

  test.for([
    '',
    '/incidents',
    '/events',
    '/dead-letters',
    '/dead-letters?list=groups',
    '/replays',
    '/replays?list=replays',
    '/subscribers',
    '/erasures',
    '/catalog',
    '/tail',
    '/topics/payment.captured?list=heldLanes',
    '/topics/payment.captured?list=haltedLanes',
    '/topics/payment.captured?list=errors',
    '/subscribers/ledger?list=intervals',
    '/subscribers/ledger?list=heldLanes',
    '/doctor',
    '/smoke',
    '/smoke?list=webhooks',
    '/subscribers/ledger?list=actions',
  ])('is there for %j, with its columns', async (path, { operators }) => {
    const { status, text } = await operators.ask(path, { accept: 'text/csv' });
    expect([status, linesOf(text)[0]]).toEqual([200, expect.stringMatching(/^[\w.]+(,[\w.]+)+$/)]);
  });

  test('of an unknown list is refused with the known ones, and where there is no list CSV is not acceptable', async ({
    operators,
  }) => {
    const unknown = await operators.ask('/dead-letters?format=csv&list=letters');
    expect([unknown.status, unknown.json['detail']]).toEqual([
      400,
      'list: expected items or groups, got "letters"',
    ]);
    expect(
      (await operators.ask('/replay?topic=payment.captured&since=1h', { accept: 'text/csv' })).status,
    ).toBe(406);
    expect(
      (await operators.ask('/dead-letters', { accept: 'text/csv', scope: 'event-bus:replay' })).status,
    ).toBe(403);
  });
});
