import pg from 'pg';
import { describe, expect, onTestFinished, vi } from 'vitest';

import { skip } from '../../lib/bus/deliveries/operations/skip.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { attach, attachBatches } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent, PreviousEvent } from '../../lib/bus/subscribers/subscriber.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { test as busTest } from '../support/bus-test.ts';
import { START, contradictions, drain, emitPayments, rows, storeBacklog } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { explainAll, watch } from '../support/plans.ts';

/** What handlers learnt of the event before, as `number ← number`. */
type Learnt = (event: BusEvent, previous: PreviousEvent | null | undefined) => void;

const test = busTest
  .extend('learnt', (): { readonly of: string; readonly previous: PreviousEvent | null | undefined }[] => [])
  /** Attaches a ledger as if it were elsewhere. */
  .extend(
    'elsewhere',
    ({ learnt }) =>
      (isBatch = false, then: (event: BusEvent) => void = () => undefined): AttachedSubscriber[] => {
        const learn: Learnt = (event, previous) => {
          then(event);
          learnt.push({ of: event.id, previous });
        };
        return [
          isBatch
            ? attachBatches(
                'ledger',
                {
                  'payment.captured': (events, { previous }) => {
                    for (const [index, event] of events.entries()) learn(event, previous?.[index]);
                  },
                },
                { place: 'elsewhere' },
              )
            : attach(
                'ledger',
                { 'payment.captured': (event, { previous }) => learn(event, previous) },
                { place: 'elsewhere' },
              ),
        ];
      },
  );

const kept = (id: string | undefined) => ({ id, wasSkipped: false });

describe('the event before another one', () => {
  test.for([false, true])(
    'a handler elsewhere learns it, in batches: %s, and the first event has none',
    async (isBatch, { bus, elsewhere, learnt }) => {
      const ids = await emitPayments(bus.db, 1, 150);
      await drain(bus.db, elsewhere(isBatch));
      ids.push(...(await emitPayments(bus.db, 151, 152)));
      await drain(bus.db, elsewhere(isBatch));
      expect(learnt).toEqual(
        ids.map((of, index) => ({ of, previous: index === 0 ? null : kept(ids[index - 1]) })),
      );
    },
  );

  test('it is the one before of the same key, also where the key waited in a lane of its own', async ({
    bus,
    elsewhere,
    learnt,
  }) => {
    const keys = Array.from({ length: 12 }, (_, index) => `booking ${index}`);
    const of = new Map<string, string[]>(keys.map((key) => [key, []]));
    for (let round = 1; round <= 3; round += 1)
      for (const orderingKey of keys)
        of.get(orderingKey)!.push(...(await emitPayments(bus.db, round, round, { orderingKey })));
    let fails = true;
    const [, second] = of.get('booking 3')!;
    const failOnce = ({ id }: BusEvent) => {
      if (id !== second || !fails) return;
      fails = false;
      throw new Error('not yet');
    };
    await drain(bus.db, elsewhere(false, failOnce));
    expect(learnt).toHaveLength(34);
    await drain(bus.db, elsewhere(false, failOnce), { now: START + MINUTE });
    const found = new Map(learnt.map(({ of: id, previous }) => [id, previous]));
    expect(found.size).toBe(36);
    for (const ids of of.values())
      expect(ids.map((id) => found.get(id))).toEqual([null, kept(ids[0]), kept(ids[1])]);
    expect(await contradictions(bus.db)).toEqual([]);
  });

  test('it was given up in the same claim, or before', async ({ bus, elsewhere, learnt }) => {
    const ids = await emitPayments(bus.db, 1, 4);
    const refuse = ({ payload }: BusEvent) => {
      const { amountMinor } = payload as { amountMinor: number };
      if (amountMinor === 2) throw new PermanentError('no');
      if (amountMinor === 3) throw new Error('not yet');
    };
    await drain(bus.db, elsewhere(false, refuse));
    const [deliveryId] = (await deliveriesOf(bus.db, 'ledger')).flatMap(({ id, state }) =>
      state === 'failing' ? [id] : [],
    );
    await skip(bus.db, { deliveryId: deliveryId!, by: 'kari', reason: 'x', now: new Date(START) });
    await drain(bus.db, elsewhere(false));
    expect(learnt).toEqual([
      { of: ids[0], previous: null },
      { of: ids[3], previous: { id: ids[2], wasSkipped: true } },
    ]);
  });

  test('it is looked for once for each claimed lane, and not at all for handlers in process', async ({
    bus,
    elsewhere,
    ledger,
  }) => {
    const asks = async (subscribers: readonly AttachedSubscriber[]) => {
      const query = vi.spyOn(pg.Client.prototype, 'query');
      await drain(bus.db, subscribers);
      const names = query.mock.calls.map(([sent]) => (sent as unknown as { name?: string }).name ?? '');
      query.mockRestore();
      // Each has a hash of its text behind it.
      return names.filter((name) => name.startsWith('previous')).map((name) => name.replace(/_\w{8}$/, ''));
    };
    await emitPayments(bus.db, 1, 300);
    expect(await asks(elsewhere())).toEqual(['previous']);
    await emitPayments(bus.db, 1, 300, { orderingKey: 'solvik' });
    expect(await asks(elsewhere())).toEqual(['previous_of_keys']);
    await emitPayments(bus.db, 1, 300);
    expect(await asks([ledger()])).toEqual([]);
  });

  test('a lane whose neighbours could not be read is released, and no attempt is used up', async ({
    bus,
    elsewhere,
    learnt,
  }) => {
    const { query } = pg.Client.prototype as { query: (...sent: unknown[]) => unknown };
    let failures = 0;
    const failing = vi.spyOn(pg.Client.prototype as { query: typeof query }, 'query');
    onTestFinished(() => failing.mockRestore());
    failing.mockImplementation(function failOnce(this: unknown, ...sent) {
      const isAsked = (sent[0] as { name?: string }).name?.startsWith('previous') ?? false;
      if (!isAsked || failures > 0) return query.apply(this, sent);
      failures += 1;
      return (sent.at(-1) as (error: Error) => void)(new Error('Connection terminated unexpectedly'));
    });
    await emitPayments(bus.db, 1, 3);
    expect(await drain(bus.db, elsewhere())).toMatchObject({ delivered: 3, failed: 0 });
    expect([failures, learnt.length]).toEqual([1, 3]);
    expect((await deliveriesOf(bus.db, 'ledger')).map(({ attempts }) => attempts)).toEqual([1, 1, 1]);
  });

  test('it is found by an index, however many other deliveries there are, also by a plan that was made before', async ({
    bus,
    elsewhere,
  }) => {
    await explainAll(bus);
    // Statistics would have a table of few lanes scanned.
    for (const table of ['log', 'lanes'])
      await rows(bus.db, `alter table ${table} set (autovacuum_enabled = false)`);
    const connection = await watch(bus.url);
    const { db } = connection;
    const drained = () => relay({ db, subscribers: elsewhere(), until: Date.now() + MINUTE });
    // More runs than a statement is planned anew for.
    for (let round = 1; round <= 12; round += 1) {
      await emitPayments(db, round, round);
      await emitPayments(db, round, round, { orderingKey: 'key 7' });
      await drained();
    }
    await storeBacklog(db, 'payment.captured', 2000);
    await storeBacklog(db, 'payment.captured', 2000, 20);
    connection.takeWork();
    await drained();
    const work = [...connection.takeWork()].filter(([text]) => text.includes('as of, previous.position'));
    expect(work).toHaveLength(2);
    // Of each delivery: what is asked for, the row before it, the range of places that this is in, and their joins.
    for (const [, { rows: handled, scanned }] of work) {
      expect(handled).toBeLessThan(2000 * 12);
      expect(scanned).toEqual([]);
    }
    await connection.close();
  });
});
