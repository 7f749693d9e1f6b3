import { describe, expect } from 'vitest';

import { claimAlerts } from '../../lib/components/alerts/claim-alerts.ts';
import { incidentMessage } from '../../lib/components/alerts/message.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { sentenceOf } from '../../lib/console/incidents/incident.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { START, drain, emitPayments, rows } from '../support/bus.ts';
import { deliveriesOf, statesOf } from '../support/records.ts';
import { SECRET } from '../support/receive.ts';

const after = (ms: number) => new Date(START + ms);

async function watched(db: Database, at: Date) {
  await watchIncidents(db, at);
  return await rows<{ kind: string; state: string; message: string }>(
    db,
    'select topic, subscriber, kind, state, message, blocked_lanes as lanes, waiting::int from incidents order by id',
  );
}

/** The ledger elsewhere, whose package is too old until it is not: it answers as `postbud/receive` does. */
function ledgerElsewhere() {
  const component = { isTooOld: true };
  const remote = {
    name: 'ledger',
    url: 'https://ledger.example.no',
    secret: SECRET,
    isBatch: false,
    outage: 'wait',
  };
  const attached = remoteSubscriber(remote as Parameters<typeof remoteSubscriber>[0], async () => {
    if (!component.isTooOld) return new Response(null, { status: 204 });
    const detail = 'Install a newer postbud package: payment.captured is version 1, this one reads up to 0.';
    const body = { type: 'about:blank', status: 503, code: 'newer_version', detail };
    return Response.json(body, { status: 503, headers: { 'retry-after': '60' } });
  });
  return { component, attached };
}

describe('a component elsewhere whose package is older than a payload', () => {
  test.for([
    [undefined, 1],
    ['booking 1', 1],
  ] as const)(
    'is an incident after a minute, with ordering key %s, uses up no attempt, and is over when it is updated',
    async ([orderingKey, lanes], { bus }) => {
      const { component, attached } = ledgerElsewhere();
      await emitPayments(bus.db, 1, 3, orderingKey === undefined ? {} : { orderingKey });
      await drain(bus.db, [attached]);
      expect(await watched(bus.db, after(30 * SECOND))).toEqual([]);
      await drain(bus.db, [attached], { now: START + MINUTE });
      expect(await watched(bus.db, after(MINUTE + SECOND))).toEqual([
        {
          topic: 'payment.captured',
          subscriber: 'ledger',
          kind: 'newer_version',
          state: 'happening',
          message: 'payment.captured is version 1; install a newer postbud package where ledger runs',
          lanes,
          waiting: 3,
        },
      ]);
      expect((await deliveriesOf(bus.db, 'ledger'))[0]).toMatchObject({
        state: 'pending',
        attempts: 0,
        log: [
          { outcome: 'waited', kind: 'newer_version', answer: expect.stringContaining('Install') as string },
          { outcome: 'waited', kind: 'newer_version' },
        ],
      });
      component.isTooOld = false;
      await drain(bus.db, [attached], { now: START + 2 * MINUTE });
      expect(new Set(await statesOf(bus.db))).toEqual(new Set(['delivered']));
      expect(await watched(bus.db, after(2 * MINUTE))).toMatchObject([{ state: 'closed' }]);
    },
  );

  test('is told of in words that say what to install', async ({ bus }) => {
    const { attached } = ledgerElsewhere();
    await emitPayments(bus.db, 1, 2);
    await drain(bus.db, [attached]);
    const [incident] = await watched(bus.db, after(MINUTE));
    const facts = {
      topic: 'payment.captured',
      subscriber: 'ledger',
      haltedLanes: 0,
      blockedLanes: 1,
      owed: 0,
    };
    const lastError = { kind: incident!.kind, message: incident!.message };
    expect(sentenceOf({ ...facts, state: 'happening', lastError, waiting: 2 })).toBe(
      'ledger cannot read newer payloads on payment.captured: 1 lane is blocked, 2 deliveries wait.',
    );
    const claimed = await claimAlerts(bus.db, 'webhook', after(MINUTE));
    const origin = { environment: 'Production', publicUrl: 'https://bus.example.no' };
    expect(incidentMessage(claimed!.incidents, origin).entries[0]!.text).toBe(
      'ledger cannot read payloads: payment.captured is version 1; install a newer postbud package where ledger runs. 1 lane blocked, 2 deliveries waiting, without using up attempts.',
    );
  });
});
