import { describe, expect } from 'vitest';

import { repair } from '../../lib/bus/deliveries/operations/repair.ts';
import { takeBackTimes } from '../../lib/bus/deliveries/take-back-times.ts';
import { claimAlerts } from '../../lib/components/alerts/claim-alerts.ts';
import { incidentMessage } from '../../lib/components/alerts/message.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { HOUR } from '../../lib/platform/time.ts';
import {
  contradictions,
  drain,
  drainLive,
  emitPayments,
  numbers,
  payloadOf,
  rows,
  emitAlone,
} from '../support/bus.ts';
import { statesOf } from '../support/records.ts';
import { deleteMarker, holdLanes, insertMarker, shiftCreation, spoilMarker } from '../support/scenes.ts';
import type { Bus } from '../support/bus.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER, test } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

const HOW = { by: 'kari', reason: 'case 4411' };

/** A marker as somebody may insert it who may write to the tables. */
const insertStrangeMarker = ({ db }: Bus) => insertMarker(db, 'payment.captured', '', ['ledger', null]);

const promises = async ({ db }: Bus) => (await examine(db)).findings.map(({ promise }) => promise);

const incidents = async (operators: Operators) =>
  (await operators.ask('/incidents')).json['items'] as Readonly<Record<string, unknown>>[];

/** What the open incident of the bus itself lists. */
const setAside = async (operators: Operators) => {
  const open = (await incidents(operators)).find(({ state }) => state === 'owed');
  const { json } = await operators.ask(`/incidents/${String(open?.['incidentId'])}`);
  return json['setAside'] as Readonly<Record<string, unknown> & { id: string }>[];
};

const shown = async (operators: Operators, path: string) =>
  (await operators.ask(path, { accept: BROWSER })).text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

describe('a row that the bus set aside', () => {
  test('is an incident of the bus, in every place’s own words, until an operator repairs it', async ({
    bus,
    operators,
  }) => {
    await insertStrangeMarker(bus);
    await drainLive(bus.db, [ledger()]);
    const sentence = 'The bus set aside 1 row of payment.captured that should not exist.';
    const [incident] = await incidents(operators);
    expect(incident).toMatchObject({
      state: 'owed',
      topic: 'payment.captured',
      subscriber: '',
      sentence,
      owed: 1,
      inCatalog: true,
      lastError: { kind: 'strange_row' },
    });
    expect(await shown(operators, '')).toContain(sentence);
    const page = await shown(operators, `/incidents/${String(incident!['incidentId'])}`);
    expect(page).toContain('Rows of payment.captured set aside');
    expect(page).toContain('A row that awaits a place, and has no event.');
    expect(page).toContain('Repair…');
    expect(page).not.toMatch(/Dead letters of|Retire|on payment\.captured/);
    const [row] = await setAside(operators);
    expect(row).toMatchObject({
      kind: 'unfit_marker',
      eventExists: false,
      error: expect.stringContaining('null value'),
    });
    expect(await promises(bus)).toEqual(['nothing is set aside that nobody has repaired']);

    const repaired = await operators.ask(`/set-aside/${row!.id}/repair`, {
      form: { reason: 'case 4411' },
      accept: BROWSER,
    });
    expect(repaired.status).toBe(303);
    expect(decodeURIComponent(repaired.headers.get('set-cookie')!)).toContain(
      `Repaired ${row!.id}. It is dismissed, and stays on record. Nothing is delivered.`,
    );
    expect(await incidents(operators)).toMatchObject([
      { state: 'closed', sentence: 'The bus had set rows of payment.captured aside. All are repaired.' },
    ]);
    const closed = await operators.ask(`/incidents/${String(incident!['incidentId'])}`);
    expect(closed.json).toMatchObject({ state: 'closed', setAside: [] });
    expect(await shown(operators, '/replays')).toContain('case 4411');
    expect(await rows(bus.db, 'select action, topic, reason from operator_actions')).toEqual([
      { action: 'repair', topic: 'payment.captured', reason: 'case 4411' },
    ]);
    expect(await promises(bus)).toEqual([]);
    const again = await operators.ask(`/set-aside/${row!.id}/repair`, { json: { reason: 'again' } });
    expect([again.status, again.json['code']]).toEqual([409, 'not_broken']);
  });

  test('is told of by alerts as a row of its topic, and not as a subscriber that fails', async ({
    bus,
    operators,
  }) => {
    await insertStrangeMarker(bus);
    await drainLive(bus.db, [ledger()]);
    const [incident] = await incidents(operators);
    const claimed = await claimAlerts(bus.db, 'webhook');
    const { subject, entries } = incidentMessage(claimed!.incidents, {
      environment: 'Production',
      publicUrl: '',
    });
    expect(subject).toMatch(/^Since .*: 1 row of payment\.captured set aside$/);
    expect(entries[0]!.text).toContain(`npx postbud incidents ${String(incident!['incidentId'])}`);
  });

  test('whose event exists is delivered in its place, if nothing newer has its place', async ({
    bus,
    handed,
    ledger: own,
    output,
  }) => {
    output.text();
    const [, second] = await emitPayments(bus.db, 1, 2);
    await spoilMarker(bus.db, second!);
    await drainLive(bus.db, [own()]);
    expect(await promises(bus)).toContain('every event has one place in the order, or awaits it');
    const [row] = await rows<{ id: string }>(bus.db, 'select id::text from set_aside');
    expect(await repair(bus.db, { id: row!.id, ...HOW })).toMatchObject({
      outcome: 'in_its_place',
      eventId: second,
    });
    await emitPayments(bus.db, 3, 3);
    await drainLive(bus.db, [own()]);
    expect(handed).toEqual(numbers(1, 3));
    expect(await promises(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('whose event exists is delivered as if recorded now, if something newer has its place', async ({
    bus,
    handed,
    ledger: own,
    output,
  }) => {
    output.text();
    const [first] = await emitPayments(bus.db, 1, 3);
    await spoilMarker(bus.db, first!);
    await drainLive(bus.db, [own()]);
    const [row] = await rows<{ id: string }>(bus.db, 'select id::text from set_aside');
    expect(await repair(bus.db, { id: row!.id, ...HOW })).toMatchObject({ outcome: 'late' });
    await drainLive(bus.db, [own()]);
    expect(handed).toEqual([2, 3, 1]);
    expect(await promises(bus)).toEqual([]);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

describe('an event that never got its place', () => {
  test('is given its marker by its id, once, and no other event is', async ({ bus, handed, ledger: own }) => {
    const [first] = await emitPayments(bus.db, 1, 2);
    await deleteMarker(bus.db, first);
    await drainLive(bus.db, [own()]);
    const { findings } = await examine(bus.db);
    expect(findings.map(({ examples }) => examples)).toEqual([[first]]);
    expect(await repair(bus.db, { id: first!, ...HOW })).toEqual({
      outcome: 'late',
      topic: 'payment.captured',
      eventId: first,
    });
    await expect(repair(bus.db, { id: first!, ...HOW })).rejects.toMatchObject({ code: 'not_broken' });
    await drainLive(bus.db, [own()]);
    expect(handed).toEqual([2, 1]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered']);
    await expect(repair(bus.db, { id: first!, ...HOW })).rejects.toMatchObject({ code: 'not_broken' });
    for (const id of ['019a0000-0000-7000-8000-000000000009', '12345'])
      await expect(repair(bus.db, { id, ...HOW })).rejects.toMatchObject({ code: 'not_found' });
    expect(await promises(bus)).toEqual([]);
  });
});

describe('a clock that was ahead', () => {
  test('is an incident until an operator takes note, and a finding while its times are there', async ({
    bus,
    operators,
  }) => {
    await emitPayments(bus.db, 1, 1);
    await shiftCreation(bus.db, '2 hours');
    expect(await promises(bus)).toEqual(['no time lies ahead of the database’s clock']);
    await takeBackTimes(bus.db);
    expect(await incidents(operators)).toMatchObject([
      {
        topic: null,
        subscriber: '',
        state: 'owed',
        outage: null,
        sentence: 'The database’s clock was ahead. The times that it left were taken back.',
      },
    ]);
    const [row] = await setAside(operators);
    await operators.ask(`/set-aside/${row!.id}/repair`, { json: { reason: 'ntp is back' } });
    expect(await incidents(operators)).toMatchObject([{ state: 'closed' }]);
    expect(await promises(bus)).toEqual([]);
  });

  test('has released timers too early: they are counted, said and found', async ({ bus, operators }) => {
    for (const at of ['90m', '1h', '1s'])
      await emitAlone(bus.db, 'payment.captured', payloadOf('payment.captured'), { at });
    const early = 'no timer was released before its time';
    expect(await promises(bus)).toEqual([]);
    await drain(bus.db, [], { now: Date.now() + 2 * HOUR });
    expect(await promises(bus)).toContain(early);
    await rows(bus.db, `update last_pass set at = clock_timestamp() + interval '2 hours'`);
    await takeBackTimes(bus.db);
    expect(await setAside(operators)).toMatchObject([
      { kind: 'clock_was_ahead', error: '2 timers were released before their time' },
    ]);
    await rows(bus.db, `update events set due_at = due_at - interval '3 hours'`);
    expect(await promises(bus)).not.toContain(early);
  });

  test('is found by a lane that is leased for longer than any lease', async ({ bus }) => {
    await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, []);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(Date.now() + 2 * HOUR) });
    expect(await promises(bus)).toEqual(['no time lies ahead of the database’s clock']);
  });
});
