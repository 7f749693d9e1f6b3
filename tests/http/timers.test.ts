import { describe, expect, vi } from 'vitest';

import { drain, payloadOf, rows, emitAlone } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { approved, batch, deployed } from '../support/posted-events.ts';

const HOURS_48 = { now: Date.now() + 48 * 3_600_000 };
const remind = (bookingId: string) => payloadOf('booking.reminder.due', { bookingId });

describe('an operator', () => {
  test('lists timers by topic and key, sees why one waits, and cancels it with a reason', async ({
    bus,
    postbud,
  }) => {
    for (const id of ['bkg_1', 'bkg_2'])
      await emitAlone(bus.db, 'booking.reminder.due', remind(id), { at: '24h', timerKey: id });
    await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'), { at: '1h' });
    const all = await postbud('timers --json');
    expect(all.json()).toMatchObject({ items: [{ topic: 'payment.captured' }, {}, {}], nextCursor: null });
    const one = await postbud('timers --topic booking.reminder.due --key bkg_2 --json');
    const { items } = one.json() as { items: { eventId: string; timerKey: string }[] };
    expect(items).toMatchObject([{ timerKey: 'bkg_2' }]);
    const { eventId } = items[0]!;
    expect((await postbud('timers', { columns: 80 })).out).toContain('bkg_2');
    const why = await postbud(`why ${eventId} --json`);
    expect(why.json()).toMatchObject({
      deliveries: [{ subscriber: 'notifications', why: { code: 'timer' } }],
    });
    expect((await postbud(`events bkg_2 --json`)).json()).toMatchObject({ items: [{ eventId }] });
    const cancelled = await postbud(`cancel-timer ${eventId} --reason tried`);
    expect([cancelled.code, cancelled.out]).toEqual([0, expect.stringContaining('will not happen')]);
    expect(await postbud(`cancel-timer ${eventId} --reason tried`)).toMatchObject({ code: 1 });
    expect(await rows(bus.db, 'select action, reason, event_id::text as id from operator_actions')).toEqual([
      { action: 'cancel_timer', reason: 'tried', id: eventId },
    ]);
    await drain(bus.db, [], HOURS_48);
    expect(
      await rows(bus.db, `select payload ->> 'bookingId' as id from events where topic like 'booking%'`),
    ).toEqual([{ id: 'bkg_1' }]);
  });

  test('lists as many timers as asked for, and is told of a topic that there is not', async ({
    bus,
    postbud,
  }) => {
    for (const id of Array.from({ length: 60 }, (_, index) => `bkg_${index}`))
      await emitAlone(bus.db, 'booking.reminder.due', remind(id), { at: '24h', timerKey: id });
    const first = await postbud('timers');
    expect([first.out.match(/bkg_\d+/g)!.length, first.out]).toEqual([
      40,
      expect.stringContaining('There are more: add --limit 100.'),
    ]);
    const all = await postbud('timers --limit 100 --json');
    expect(all.json()).toMatchObject({ items: Array.from({ length: 60 }, () => ({})), nextCursor: null });
    expect(await postbud('timers --key bkg_60')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^No timers match\. /),
    });
    expect(await postbud('timers --topic booking.reminder.duw')).toMatchObject({
      code: 2,
      err: expect.stringContaining('did you mean booking.reminder.due?'),
    });
  });

  test('repairs a timer that the catalog refused: it is released again', async ({ bus, postbud }) => {
    const { id } = await emitAlone(bus.db, 'booking.reminder.due', remind('bkg_1'), { at: '1h' });
    await rows(bus.db, `update timers set payload = '{}' where id = $1`, [id]);
    await drain(bus.db, [], HOURS_48);
    const [, incident] = /^ +([\da-f-]{36})$/m.exec((await postbud('incidents')).out)!;
    const listed = await postbud(`incidents ${incident}`);
    expect(listed.out.replaceAll(/\s+/g, ' ')).toContain('A timer that is due, and whose payload');
    const [, row] = /npx postbud repair (\d+) --reason/.exec(listed.out)!;
    const released = 'The timer is released when the relay next looks';
    const refused = await postbud(`repair ${row} --reason tried`);
    expect(refused.out.replaceAll(/\s+/g, ' ')).toContain(released);
    await drain(bus.db, [], HOURS_48);
    await rows(bus.db, 'update timers set payload = $2::jsonb where id = $1', [
      id,
      JSON.stringify(remind('bkg_1')),
    ]);
    const again = await postbud(`repair ${Number(row) + 1} --reason tried`);
    expect(again.out.replaceAll(/\s+/g, ' ')).toContain(released);
    await drain(bus.db, [], HOURS_48);
    expect(await rows(bus.db, 'select id::text from events')).toEqual([{ id }]);
  });
});

describe('POST /api/events', () => {
  test('sets, moves and cancels a timer, each once for its id', async ({ bus, onTestFinished }) => {
    onTestFinished(() => void vi.unstubAllEnvs());
    const endpoint = await deployed({ DATABASE_URL: bus.url });
    const post = async (...events: readonly unknown[]) => {
      const response = await endpoint.fetch(batch(events));
      const text = await response.text();
      expect(response.status, text).toBe(200);
      return JSON.parse(text) as { events: { eventId: string | null; duplicate: boolean }[] };
    };
    const set = approved('b-1', { at: '1h', timerkey: 'a' });
    const move = approved('b-2', { at: new Date(Date.now() + 3_600_000).toISOString(), timerkey: 'a' });
    const cancel = {
      specversion: '1.0',
      id: 'b-3',
      source: 'bookings',
      type: 'booking.approved',
      at: 'never',
      timerkey: 'a',
    };
    const again = approved('b-4', { at: '1h', timerkey: 'a' });
    const first = await post(set, move, cancel, again);
    expect(first.events.map(({ duplicate }) => duplicate)).toEqual([false, false, false, false]);
    expect(first.events[2]!.eventId).toBe(first.events[1]!.eventId);
    // The answer was lost: the whole request is sent again.
    const second = await post(set, move, cancel, again);
    expect(second.events).toEqual(first.events.map(({ ...event }) => ({ ...event, duplicate: true })));
    expect(await rows(bus.db, 'select id::text, dedupe_key from timers')).toEqual([
      { id: first.events[3]!.eventId, dedupe_key: 'b-4' },
    ]);
    expect(await post({ ...cancel, id: 'b-5', timerkey: 'b' })).toMatchObject({
      events: [{ eventId: null, duplicate: false }],
    });
    const wrong = await endpoint.fetch(
      batch([approved('b-6', { at: 'tomorrow' }), approved('b-7', { timerkey: 'a' })]),
    );
    expect(await wrong.json()).toMatchObject({
      code: 'validation_failed',
      issues: [
        { message: expect.stringContaining('expected an instant such as') as string },
        { message: 'expected with at' },
      ],
    });
  });
});
