import { describe, expect } from 'vitest';

import { NotDelivered } from '../../lib/bus/subscribers/outcome.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, numbers, rows } from './bus.ts';
import { deliveriesOf, statesOf } from './records.ts';

const absent = () => {
  throw new NotDelivered('unreachable', 'nobody is there');
};

describe('a subscriber that nobody finds', () => {
  test('uses up one attempt of each delivery; then it is silent, one lane probes, and all follow in order', async ({
    bus: { db },
    handed,
    ledger,
  }) => {
    let isDown = true;
    const waiting = ledger(() => isDown && absent(), { outage: 'wait' });
    for (const number of numbers(1, 6))
      await emitPayments(db, number, number, { orderingKey: `booking ${number % 3}` });
    expect(await drain(db, [waiting])).toMatchObject({ failed: 3, delivered: 0 });
    expect(await rows(db, 'select from outages')).toEqual([]);
    // Nobody was answered since: it is no fault of the event.
    await drain(db, [waiting], { now: START + MINUTE });
    const [outage] = await rows<{ kind: string; next: number }>(
      db,
      `select kind, (extract(epoch from next_probe_at) * 1000)::float8 as next from outages`,
    );
    expect(outage).toEqual({ kind: 'unreachable', next: START + 2 * MINUTE });
    handed.length = 0;
    // One a probe, at the first minute, five minutes later, and every five from then on.
    const probesAt: number[] = [];
    for (const minute of numbers(2, 24)) {
      await drain(db, [waiting], { now: START + minute * MINUTE });
      if (handed.length > 0) probesAt.push(minute);
      expect(handed.length).toBeLessThanOrEqual(1);
      handed.length = 0;
    }
    expect(probesAt).toEqual([2, 7, 12, 17, 22]);
    expect((await deliveriesOf(db, 'ledger')).map(({ attempts }) => attempts).toSorted()).toEqual([
      0, 0, 0, 1, 1, 1,
    ]);
    isDown = false;
    await drain(db, [waiting], { now: START + HOUR });
    expect(handed.toSorted((one, other) => one - other)).toEqual(numbers(1, 6));
    for (const number of numbers(1, 3))
      expect(handed.indexOf(number)).toBeLessThan(handed.indexOf(number + 3));
    expect(await rows(db, 'select from outages')).toEqual([]);
    expect(await statesOf(db)).toEqual(Array(6).fill('delivered'));
    expect(await contradictions(db)).toEqual([]);
  });

  test('is charged where it has answered somebody since', async ({ bus: { db }, ledger }) => {
    const [failing, answered] = ['booking 1', 'booking 2'];
    const waiting = ledger((number) => number === 1 && absent(), { outage: 'wait' });
    await emitPayments(db, 1, 1, { orderingKey: failing });
    await drain(db, [waiting]);
    await emitPayments(db, 2, 2, { orderingKey: answered });
    await drain(db, [waiting], { now: START + 1000 });
    await drain(db, [waiting], { now: START + MINUTE });
    expect(await rows(db, 'select from outages')).toEqual([]);
    const [first] = await deliveriesOf(db, 'ledger');
    expect(first).toMatchObject({ state: 'failing', attempts: 2 });
  });
});
