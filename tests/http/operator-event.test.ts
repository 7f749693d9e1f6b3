import { describe, expect } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { drainLive, payloadOf, rows, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { BROWSER, HOME, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

// Why a delivery waits, and what led to an event, is proven in tests/database/operators-event.

/** The event of a delivery of the ledger. */
async function eventOf(bus: Bus, deliveryId: string): Promise<string> {
  return (await deliveriesOf(bus.db)).find(({ id }) => id === deliveryId)!.eventId;
}

/** The page of an event, without its markup and with single spaces. */
async function wordsOf(operators: Operators, eventId: string, scope?: string): Promise<string> {
  const { text } = await operators.ask(`/events/${eventId}`, {
    accept: BROWSER,
    ...(scope !== undefined && { scope }),
  });
  const [, main = ''] = /<main[^>]*>([^]*)<\/main>/.exec(text) ?? [];
  return main.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');
}

describe('the page of an event', () => {
  test('says first why it is not delivered, and links the event in front', async ({ bus, operators }) => {
    const [first, second] = await operators.held(2);
    const eventId = await eventOf(bus, second!);
    const { json } = await operators.ask(`/events/${eventId}`);
    expect(json).toMatchObject({
      event: { eventId, topic: 'payment.captured', state: 'pending' },
      verdict: expect.stringContaining('Not delivered to ledger: behind '),
      deliveries: expect.arrayContaining([
        expect.objectContaining({ subscriber: 'ledger', why: expect.objectContaining({ code: 'behind' }) }),
      ]),
      causes: [],
      effects: [],
    });
    const { text } = await operators.ask(`/events/${eventId}`, { accept: BROWSER });
    const front = await eventOf(bus, first!);
    const alert = /<div class="alert[^]*?<\/div>/.exec(text)![0];
    expect(alert).toContain(`href="/platform/event-bus/events/${front}"`);
    expect(text).toContain(`href="/platform/event-bus/events/${front}#to-ledger"`);
    expect(text).toContain(`href="/platform/event-bus/dead-letters/${second}"`);
    expect(text).toContain('href="/platform/event-bus/topics/payment.captured"');
  });

  test('has the buttons that its deliveries allow', async ({ bus, operators }) => {
    const [first, second] = await operators.held(2);
    const failing = await eventOf(bus, first!);
    expect(await wordsOf(operators, failing)).toMatch(/Retry now .*Skip…/);
    expect(await wordsOf(operators, await eventOf(bus, second!))).not.toMatch(/Retry now|Skip…/);
    const readOnly = await wordsOf(operators, failing, 'event-bus:read');
    expect(readOnly).not.toMatch(/Retry now|Skip…/);
    expect(readOnly).toContain('Acting needs the scope event-bus:replay');
    await pause(bus.db, { subscriber: 'ledger', topic: null }, 'ola', 'moving house');
    const paused = await wordsOf(operators, failing);
    expect(paused).toMatch(/Paused by ola since .*: moving house\./);
    expect(paused).toMatch(/Resume ledger/);
  });

  test('offers a replay of a dead letter and of a delivered event', async ({ bus, operators }) => {
    const [dead] = await operators.died(1);
    const { text } = await operators.ask(`/events/${await eventOf(bus, dead!)}`, { accept: BROWSER });
    expect(text).toContain(`/replay?deliveryIds=${dead}"`);
    const { id } = await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'));
    await drainLive(bus.db, operators.attached);
    expect((await operators.ask(`/events/${id}`, { accept: BROWSER })).text).toMatch(
      /\/replay\?deliveryIds=[\da-f-]{36}\.ledger&amp;include=all"/,
    );
  });

  test('comes back to itself after an action', async ({ bus, operators }) => {
    const [first] = await operators.held(1);
    const path = `/platform/event-bus/events/${await eventOf(bus, first!)}`;
    const { text } = await operators.ask(path.replace('/platform/event-bus', ''), { accept: BROWSER });
    expect(text).toContain(`<input type="hidden" name="next" value="${path}" />`);
  });
});

describe('an unknown event', () => {
  test.for([
    '019c7f3e-0000-7000-8000-000000000000',
    'evt_1Qx%2B2',
    '019c7f3e-0000-7000-8000-000000000000.ledger',
  ])('is a 404 that says what was looked for, and leads to the search: %s', async (id, { operators }) => {
    const written = decodeURIComponent(id);
    const { status, json } = await operators.ask(`/events/${id}`);
    expect([status, json['code']]).toEqual([404, 'not_found']);
    expect(json['detail']).toBe(
      `Unknown event, or one that is no longer kept. Its id is a UUID. A search finds events by other ids too: delivery, correlation and webhook ids, keys, and ids in payloads.`,
    );
    const page = await operators.ask(`/events/${id}`, { accept: BROWSER });
    expect(page.status).toBe(404);
    expect(page.text).toContain(`href="/platform/event-bus/events?q=${encodeURIComponent(written)}"`);
    expect(page.text).toContain(`Search all events for “${written}”`);
  });

  test('is no error of ours with a malformed escape', async ({ operators }) => {
    expect((await operators.ask('/events/%ZZ', { accept: BROWSER })).status).toBe(404);
  });
});

describe('personal data', () => {
  const payload = payloadOf('user.profile.updated', { name: 'Kari Kanarifugl', email: 'kari@example.no' });

  test('is hidden on the page of an event, and shown to an operator who says why', async ({
    bus,
    operators,
  }) => {
    const { id } = await emitAlone(bus.db, 'user.profile.updated', payload);
    const hidden = await operators.ask(`/events/${id}`);
    expect(hidden.text).not.toMatch(/kanarifugl|kari@example/i);
    expect(hidden.json['event']).toMatchObject({ isRevealed: false, payload: { name: '[hidden]' } });
    const revealed = await operators.ask(`/events/${id}/reveal`, { json: { reason: 'the tenant asks' } });
    expect(revealed.json['event']).toMatchObject({ isRevealed: true, payload: { name: 'Kari Kanarifugl' } });
    expect(
      await rows(
        bus.db,
        'select operator, action, topic, delivery_id, event_id::text, reason from operator_actions',
      ),
    ).toEqual([
      {
        operator: 'kari@solvik.example.no',
        action: 'reveal',
        topic: 'user.profile.updated',
        delivery_id: null,
        event_id: id,
        reason: 'the tenant asks',
      },
    ]);
    const { text } = await operators.ask('/replays', { accept: BROWSER });
    expect(text).toContain(`href="/platform/event-bus/events/${id}"`);
  });

  test('leads to itself after a reveal, and shows the personal data to the same operator once more', async ({
    bus,
    operators,
  }) => {
    const { id } = await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'));
    const { status, headers } = await operators.ask(`/events/${id}/reveal`, {
      accept: BROWSER,
      form: { reason: 'the tenant asks' },
    });
    const [entry] = await rows<{ id: string }>(bus.db, 'select id from operator_actions');
    expect([status, headers.get('location')]).toEqual([303, `${HOME}/events/${id}?revealed=${entry!.id}`]);
    const isRevealed = async (query: string, scope?: string) => {
      const { json } = await operators.ask(`/events/${id}${query}`, scope === undefined ? {} : { scope });
      return json['event'];
    };
    expect(await isRevealed(`?revealed=${entry!.id}`)).toMatchObject({ isRevealed: true });
    expect(await isRevealed(`?revealed=${entry!.id}`, 'event-bus:read')).toMatchObject({ isRevealed: false });
    expect(await isRevealed('')).toMatchObject({ isRevealed: false, reveal: null });
    expect(await rows(bus.db, 'select from operator_actions')).toHaveLength(1);
  });

  test('in an error is hidden in the sentence too', async ({ bus, operators }) => {
    const { id } = await emitAlone(bus.db, 'user.profile.updated', payload);

    const failing = attach('audit', {
      'user.profile.updated': () => {
        throw new Error('no account of Kari Kanarifugl');
      },
    });
    operators.attached = [failing];
    await drainLive(bus.db, [failing]);
    const { text, json } = await operators.ask(`/events/${id}`);
    expect(json['verdict']).toContain('failed with Error: no account of [hidden]');
    expect(text).not.toMatch(/kanarifugl/i);
  });
});
