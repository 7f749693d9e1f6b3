import { describe, expect } from 'vitest';

import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, drain, emitPayments, rows, START } from '../support/bus.ts';
import { statesOf } from '../support/records.ts';

// Both were found by the chaos runs.
describe('a key that leaves its shared lane', () => {
  test('returns for an event that was replayed while a later event of the key was being handled', async ({
    bus,
    handed,
    ledger,
  }) => {
    await emitPayments(bus.db, 1, 1, { orderingKey: 'a key' });
    await drain(bus.db, [
      ledger(() => {
        throw new PermanentError('never');
      }),
    ]);
    await emitPayments(bus.db, 2, 2, { orderingKey: 'a key' });
    handed.length = 0;
    let isReplayed = false;
    const replaying = ledger(async (number) => {
      if (number === 1 || isReplayed) return;
      isReplayed = true;
      await replay(bus.db, { topic: 'payment.captured', since: '1h' }, 'kari', new Date(START));
      throw new Error('not yet');
    });
    await drain(bus.db, [replaying]);
    expect(handed).toEqual([2, 1]);
    await drain(bus.db, [replaying], { now: START + MINUTE });
    expect(handed).toEqual([2, 1, 2]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered']);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('loses nothing when a suspended relay claims its own lane again', async ({ bus, handed, ledger }) => {
    await emitPayments(bus.db, 1, 2, { orderingKey: 'a key' });
    let now = START;
    const token = async () => (await rows<{ token: string }>(bus.db, TOKEN))[0]?.token;
    const suspended = ledger(async () => {
      if (handed.length > 1) return;
      const first = await token();
      now += MINUTE;
      while ((await token()) === first);
      // Until the relay knows it as well.
      for (let look = 0; look < 20; look += 1) await token();
    });
    await drain(bus.db, [suspended], { now: () => now });
    await drain(bus.db, [suspended], { now: now + 2 * MINUTE });
    expect(handed).toEqual([1, 1, 2]);
    expect(await statesOf(bus.db)).toEqual(['delivered', 'delivered']);
    expect(await contradictions(bus.db)).toEqual([]);
  });
});

const TOKEN = `select lease_token::text as token from lanes where subscriber = 'ledger' and home_id is null`;
