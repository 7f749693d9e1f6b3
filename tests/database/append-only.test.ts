import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { pause } from '../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { audit } from '../../lib/components/audit.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { payloadOf, rows, emitAlone } from '../support/bus.ts';
import { createDatabase } from '../support/postgres.ts';

describe.each([
  ['Postgres', async () => await connect(await createDatabase(inject('postgresUrl')))],
  ['the embedded database', async () => await connect('memory://')],
])('on %s', (_, open) => {
  let connection: Connection;
  beforeAll(async () => {
    connection = await open();
    const { db } = connection;
    await migrate(db);
    // One row in each, written by those who write them.
    await emitAlone(db, 'user.signed_in', payloadOf('user.signed_in'));
    await relay({ db, subscribers: [audit], until: Date.now() + 5000 });
    await replay(db, { topic: 'user.signed_in', since: '1h' }, 'kari');
    await pause(db, { subscriber: 'ledger', topic: null }, 'kari', 'moving house');
  });
  afterAll(() => connection.close());

  test.each([
    ['audit_log', 'topic'],
    ['replays', 'requested_by'],
    ['operator_actions', 'operator'],
  ])('%s can be added to, and neither changed, nor deleted from, nor truncated', async (table, column) => {
    const { db } = connection;
    const kept = await rows(db, `select * from ${table}`);
    expect(kept).toHaveLength(1);
    for (const statement of [
      `update ${table} set ${column} = 'ola'`,
      `delete from ${table}`,
      `TRUNCATE ${table}`,
      `TRUNCATE pauses, ${table} cascade`,
      `insert into ${table} select * from ${table} on conflict (${table === 'audit_log' ? 'event_id' : 'id'})
       do update set ${column} = 'ola'`,
    ]) {
      const refused = rows(db, statement).catch((error: Error) => error);
      expect(await refused, statement).toMatchObject({
        message: `${table} is append-only: write a new row instead`,
      });
    }
    expect(await rows(db, `select * from ${table}`)).toEqual(kept);
  });
});
