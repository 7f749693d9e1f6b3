import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';

import { catalog } from '../../lib/catalog/catalog.ts';
import { connect } from '../../lib/db/connect.ts';
import type { Connection } from '../../lib/db/connect.ts';
import { CountChanged, replay } from '../../lib/deliveries/replay.ts';
import type { ReplayRequest } from '../../lib/deliveries/replay-request.ts';
import { emit } from '../../lib/outbox/emit.ts';
import { relay } from '../../lib/relay/relay.ts';
import { PermanentError } from '../../lib/subscribers/outcome.ts';
import { subscriber } from '../../lib/subscribers/subscriber.ts';
import { rows as rowsOf } from '../support/bus.ts';
import { createDatabase } from '../support/postgres.ts';

let connection: Connection;
beforeAll(async () => {
  connection = await connect(await createDatabase(inject('postgresUrl')));
});
afterAll(() => connection.close());

const rows = <Row>(text: string) => rowsOf<Row>(connection.db, text);
const soon = () => Date.now() + 45_000;
const payload = catalog['resource.published'].example;

/** What the subscribers were handed, oldest first: the number of the event in order of creation. */
let handed: number[];
let ids: string[];
let refuse: (index: number) => boolean;

const notifications = subscriber('notifications', {
  'resource.published': (event) => {
    const index = ids.indexOf(event.id);
    if (refuse(index)) throw new PermanentError(`refused ${index}`);
    handed.push(index);
  },
});

async function emitted(count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await connection.db.transaction(async (tx) =>
      ids.push((await emit(tx, 'resource.published', payload)).id),
    );
  }
}

const drain = () => relay({ db: connection.db, subscribers: [notifications], until: soon() });
const replayed = (request: Partial<ReplayRequest> = {}) =>
  replay(
    connection.db,
    { topic: 'resource.published', since: '1h', subscriber: 'notifications', ...request },
    'kari',
  );

beforeEach(async () => {
  await rows(
    'truncate events, awaiting_fan_out, lanes, deliveries, backlog, throughput, error_groups, replays',
  );
  handed = [];
  ids = [];
  refuse = () => false;
});

describe('rule 6: replay returns dead letters to pending, with fresh attempts, in their place', () => {
  it('delivers dead letters before all that is newer, in creation order, under the same event id', async () => {
    refuse = (index) => index === 1 || index === 3;
    await emitted(5);
    expect(await drain()).toMatchObject({ delivered: 3, deadLettered: 2 });
    await emitted(1);
    refuse = () => false;
    handed = [];
    expect(await replayed({ reason: 'mended' })).toMatchObject({ matched: 2, replayed: 2, since: '1h' });
    expect(await drain()).toMatchObject({ delivered: 3 });
    expect(handed).toEqual([1, 3, 5]);
    expect(await rows('select requested_by, reason, matched, replayed from replays')).toEqual([
      { requested_by: 'kari', reason: 'mended', matched: 2, replayed: 2 },
    ]);
  });

  it('keeps the history and begins the attempts anew', async () => {
    refuse = () => true;
    await emitted(1);
    await drain();
    await replayed();
    await drain();
    const [delivery] = await rows<{
      attempts: number;
      replays: number;
      log: { outcome: string; attempt: number }[];
    }>(
      `select attempts, replays, attempt_log as log from deliveries join lanes on lanes.id = lane_id
       where subscriber = 'notifications'`,
    );
    expect(delivery).toMatchObject({ attempts: 1, replays: 1 });
    expect(delivery!.log.map(({ outcome, attempt }) => `${outcome} ${attempt}`)).toEqual([
      'failed 1',
      'replayed 0',
      'failed 1',
    ]);
  });

  it('plays everything again with include all, delivered events included, and keeps the first delivery in the history', async () => {
    await emitted(4);
    await drain();
    expect(await replayed({ include: 'all' })).toMatchObject({ matched: 4, replayed: 4 });
    expect(await rows('select distinct state from events')).toEqual([{ state: 'pending' }]);
    await drain();
    expect(handed).toEqual([0, 1, 2, 3, 0, 1, 2, 3]);
    const logs = await rows<{ log: { outcome: string }[] }>(
      'select attempt_log as log from deliveries where attempt_log is not null',
    );
    expect(logs.map(({ log }) => log.map(({ outcome }) => outcome))).toEqual(
      Array.from({ length: 4 }, () => ['delivered', 'replayed']),
    );
  });

  it('replays once when two operators ask at the same moment', async () => {
    refuse = () => true;
    await emitted(20);
    await drain();
    const both = await Promise.all([replayed(), replayed()]);
    expect(both[0].replayed + both[1].replayed).toBe(20);
    refuse = () => false;
    await drain();
    expect(handed).toEqual(Array.from({ length: 20 }, (_, index) => index));
  });

  it('loses nothing and keeps the order when it races relays that hold the lane', async () => {
    refuse = (index) => index % 3 === 0;
    await emitted(60);
    await drain();
    refuse = () => false;
    handed = [];
    await emitted(40);
    const [, first, second] = await Promise.all([drain(), replayed(), replayed({ since: '2h' })]);
    await drain();
    expect(first.replayed + second.replayed).toBe(20);
    expect(handed.toSorted((a, b) => a - b)).toEqual([
      ...Array.from({ length: 20 }, (_, index) => index * 3),
      ...Array.from({ length: 40 }, (_, index) => 60 + index),
    ]);
    expect(
      await rows(`select count(*)::int as open from deliveries join lanes on lanes.id = lane_id
      where subscriber = 'notifications' and state <> 'delivered'`),
    ).toEqual([{ open: 0 }]);
  });

  it('matches by the time of death, in a window', async () => {
    refuse = () => true;
    await emitted(2);
    await drain();
    const inTwoHours = new Date(Date.now() + 2 * 3_600_000);
    const at = (request: ReplayRequest) => replay(connection.db, request, 'kari', inTwoHours);
    expect(await at({ topic: 'resource.published', since: '1h' })).toMatchObject({ matched: 0, replayed: 0 });
    expect(await at({ topic: 'resource.published', since: '3h', until: '150m', dryRun: true })).toMatchObject(
      { matched: 0 },
    );
    expect(await at({ topic: 'resource.published', since: '3h', until: '1h' })).toMatchObject({
      matched: 2,
      replayed: 2,
    });
  });

  it('counts without a change on a dry run, and refuses when the count has changed', async () => {
    refuse = () => true;
    await emitted(3);
    await drain();
    expect(await replayed({ dryRun: true })).toMatchObject({ replayId: null, matched: 3, replayed: 0 });
    await expect(replayed({ expectedCount: 2 })).rejects.toBeInstanceOf(CountChanged);
    expect(await rows('select id from replays')).toEqual([]);
    expect(await replayed({ expectedCount: 3, limit: 3 })).toMatchObject({ replayed: 3 });
  });

  it('takes the oldest up to a limit, or exactly the named deliveries', async () => {
    refuse = () => true;
    await emitted(4);
    await drain();
    const letters = await rows<{ id: string }>(
      `select lane_id || '-' || position as id from deliveries where dead_lettered_at is not null order by position`,
    );
    expect(await replayed({ limit: 1 })).toMatchObject({ matched: 1, replayed: 1 });
    expect(await replayed({ deliveryIds: [letters[3]!.id] })).toMatchObject({ matched: 1, replayed: 1 });
    refuse = () => false;
    await drain();
    expect(handed).toEqual([0, 3]);
  });

  it.each(['24', '-1h', '1y', '9999999h', '', '1.5h', '0h', '1 h'])(
    'says what to write instead of since %j',
    async (since) => {
      await expect(replayed({ since })).rejects.toThrow(/expected a time span such as/);
    },
  );
});
