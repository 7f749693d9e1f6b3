import { describe, expect } from 'vitest';

import { drainLive, emitPayments, storeBacklog } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import { relist } from '../support/scenes.ts';

const linesOf = (text: string) => text.split('\r\n').slice(0, -1);

describe('a list of the console as CSV', () => {
  test('has all that match, with the fields of the answer', async ({ operators }) => {
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
    const asked = await operators.ask('/dead-letters?subscriber=ledger&format=csv', { accept: 'text/csv' });
    expect(asked.text).toBe(file.text);
    expect(linesOf((await operators.ask('/dead-letters?subscriber=audit&format=csv')).text)).toEqual([head]);
  });

  test('ends at 10,000 rows, says so in its name, and leads to the next', async ({ bus, operators }) => {
    await storeBacklog(bus.db, 'payment.captured', 10_500);
    const first = await operators.ask('/events?format=csv');
    expect(linesOf(first.text)).toHaveLength(10_001);
    expect(first.headers.get('content-disposition')).toMatch(/-first-10000\.csv"$/);
    const [, next] = /^<\/platform\/event-bus(\/events\?[^>]+)>; rel="next"$/.exec(
      first.headers.get('link')!,
    )!;
    const second = await operators.ask(next!);
    expect(linesOf(second.text)).toHaveLength(501);
    expect(second.headers.get('link')).toBeNull();
  });

  test('is linked on its page, with the filters and from the beginning', async ({ bus, operators }) => {
    await emitPayments(bus.db, 1, 1);
    await relist(bus.db, `'{ledger}'`);
    await drainLive(bus.db, [ledger()]);
    const { text } = await operators.ask('/events?state=delivered&limit=10', { accept: BROWSER });
    expect(text).toContain('href="/platform/event-bus/events?state=delivered&amp;format=csv"');
  });

  test('is linked only where it has rows', async ({ operators }) => {
    const isLinked = async (path: string) =>
      (await operators.ask(path, { accept: BROWSER })).text.includes('format=csv');
    expect([await isLinked('/events'), await isLinked('/dead-letters')]).toEqual([false, false]);
    await operators.held(1);
    expect([await isLinked('/events'), await isLinked('/dead-letters')]).toEqual([true, false]);
  });

  test('is in the place of no other list, and needs the scope', async ({ operators }) => {
    for (const path of ['/incidents', '/replays', '/subscribers', '/replay?topic=payment.captured&since=1h'])
      expect([path, (await operators.ask(path, { accept: 'text/csv' })).status]).toEqual([path, 406]);
    expect((await operators.ask('/incidents?format=csv')).type).toBe('application/json');
    expect((await operators.ask('/dead-letters?format=csv', { scope: 'event-bus:replay' })).status).toBe(403);
  });
});
