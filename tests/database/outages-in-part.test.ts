import { describe, expect } from 'vitest';

import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, drain, payloadOf, rows, emitAlone } from '../support/bus.ts';

const ELSEWHERE = 'booking.approved';
const HERE = 'webhook.cardpayments.received';

const absent = () => {
  throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
};

const outages = (db: Database) => rows<{ subscriber: string }>(db, 'select subscriber from outages');

/** The two parts of payments: one elsewhere, which does not answer, and one in this process. */
function partsOf(handed: string[], outage: 'wait' | 'off' = 'wait') {
  const take = (event: { readonly topic: string }) => void handed.push(event.topic);
  return {
    absent: attach('payments', { [ELSEWHERE]: absent }, { place: 'elsewhere', outage }),
    elsewhere: attach('payments', { [ELSEWHERE]: take }, { place: 'elsewhere', outage }),
    here: attach('payments', { [HERE]: take }),
  };
}

/** Opens the outage of the part elsewhere: its first attempt counts, and the second finds that it is silent. */
async function openOutage(db: Database, parts: ReturnType<typeof partsOf>): Promise<void> {
  await emitAlone(db, ELSEWHERE, payloadOf(ELSEWHERE));
  for (const minutes of [0, 2, 10])
    await drain(db, [parts.absent, parts.here], { now: START + minutes * MINUTE });
  expect(await outages(db)).toEqual([{ subscriber: 'payments' }]);
}

describe('the outage of a part of a component', () => {
  test('leaves the part in this process going on, whose success does not end it', async ({ bus }) => {
    const handed: string[] = [];
    const parts = partsOf(handed);
    await openOutage(bus.db, parts);
    for (let number = 0; number < 3; number += 1) await emitAlone(bus.db, HERE, payloadOf(HERE));
    await drain(bus.db, [parts.absent, parts.here], { now: START + 10 * MINUTE });
    expect(handed).toEqual([HERE, HERE, HERE]);
    expect(await outages(bus.db)).toHaveLength(1);
    await drain(bus.db, [parts.elsewhere, parts.here], { now: START + 60 * MINUTE });
    expect(handed).toEqual([HERE, HERE, HERE, ELSEWHERE]);
    expect(await outages(bus.db)).toEqual([]);
  });

  test('holds nothing back once _OUTAGE=off, and the first answer ends it', async ({ bus }) => {
    const handed: string[] = [];
    await openOutage(bus.db, partsOf(handed));
    await emitAlone(bus.db, ELSEWHERE, payloadOf(ELSEWHERE));
    const off = partsOf(handed, 'off');
    await drain(bus.db, [off.elsewhere, off.here], { now: START + 60 * MINUTE });
    expect(handed).toEqual([ELSEWHERE, ELSEWHERE]);
    expect(await outages(bus.db)).toEqual([]);
  });
});
