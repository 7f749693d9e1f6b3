import { describe, expect } from 'vitest';

import { connect } from '../../lib/platform/db/connect.ts';
import { rows } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { BROWSER, Operators, test as operatorTest } from '../support/operator-test.ts';

/** The operators' functions over sessions that may change nothing, as all are on a replica. */
const test = operatorTest.extend('replica', async ({ bus, operators }, { onCleanup }) => {
  const readOnly = new URL(bus.url);
  readOnly.searchParams.set('options', '-c default_transaction_read_only=on');
  const { db, close } = await connect(readOnly.href);
  onCleanup(close);
  // What a page finds there, the primary has written.
  await operators.died(1);
  await operators.ask('/incidents');
  return new Operators({ ...bus, db });
});

describe('the console of a replica', () => {
  test('reads each page', async ({ bus, replica }) => {
    const [{ event, delivery, incident }] = (await rows<{
      event: string;
      delivery: string;
      incident: string;
    }>(
      bus.db,
      `select (select id::text from events limit 1) as event, (select id::text from incidents limit 1) as incident,
         (select id from ${RECORDS} limit 1) as delivery`,
    )) as [{ event: string; delivery: string; incident: string }];
    const paths = [
      '',
      '/incidents',
      `/incidents/${incident}`,
      '/events',
      `/events/${event}`,
      '/dead-letters',
      `/dead-letters/${delivery}`,
      '/subscribers',
      '/subscribers/ledger',
      '/topics/payment.captured',
      '/replays',
      '/replays?only=backfills',
      '/webhooks',
      '/timers',
      '/doctor',
    ];
    const answers: [string, number][] = [];
    // One after another: 30 pages at once wait for ten connections, on a busy machine for longer than they may.
    for (const path of paths)
      for (const accept of [BROWSER, 'application/json'])
        answers.push([path, (await replica.ask(path, { accept })).status]);
    expect(answers.filter(([, status]) => status !== 200)).toEqual([]);
    expect((await replica.ask('/incidents')).text).toContain(incident);
  });

  test('refuses each action, and says where to act', async ({ replica }) => {
    const asked = await Promise.all([
      replica.ask('/replay', { json: { topic: 'payment.captured', since: '1h', reason: 'again' } }),
      replica.ask('/subscribers/ledger/pause', { json: { reason: 'maintenance' } }),
    ]);
    expect(asked.map(({ status, json }) => [status, json['code']])).toEqual(
      asked.map(() => [409, 'read_only']),
    );
    expect(asked[0].json['detail']).toContain('act in the console of the primary');
  });
});
