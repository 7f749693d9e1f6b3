import { randomUUID } from 'node:crypto';

import { SECOND, sleep } from '../../../lib/platform/time.ts';
import { payloadOf } from '../../support/bus.ts';
import { spoilMarker } from '../../support/scenes.ts';
import { opened } from '../produce.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** Point 11. */
export const strangeRows: readonly Surrounding[] = [
  {
    name: 'marker-without-an-event',
    point: 11,
    inCi: false,
    play: (scene) => withRow(scene, insertMarker),
  },
  {
    name: 'marker-that-no-relay-places',
    point: 11,
    inCi: true,
    play: (scene) => withRow(scene, emitSpoilt),
  },
  { name: 'delivery-without-an-event', point: 11, inCi: true, play: (scene) => withRow(scene, deleteEvent) },
];

const TOPIC = 'payment.captured';

/** Does the damage. @returns the id of an event that cannot be delivered any more, if there is one. */
type Damage = (stage: Stage) => Promise<string | undefined>;

async function withRow({ arena, build }: Scene, damage: Damage): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 3, transactions: 20, handlersMs: [0, 30] }),
  });
  try {
    await Promise.all([stage.relay(), stage.relay()]);
    const produced = stage.produce();
    await stage.delivered(20);
    const id = await damage(stage);
    await produced;
    const left = await stage.rest(20 * SECOND, 'event_id in (select id from events)');
    await sleep(500);
    const told = await stage.incidents();
    const repaired = await repair(stage);
    const broken = [
      ...(left === 0 ? [] : [`${left} deliveries and markers of other events wait behind it`]),
      ...(told.length > 0 ? [] : ['no incident tells of it']),
      ...repaired,
      ...(await stage.broken(id === undefined ? {} : { except: id })),
    ];
    return { did: 'by hand, under load', broken };
  } finally {
    await stage.close();
  }
}

/** Repairs what was set aside. @returns what is not right afterwards. */
async function repair(stage: Stage): Promise<string[]> {
  const rows = await stage.sql<{ id: string }>('select id::text from set_aside where repaired_at is null');
  for (const { id } of rows)
    await stage.asOperator((db) =>
      stage.build.bus.repair(db, { id, by: 'an operator', reason: 'case 4411' }),
    );
  const left = await stage.rest(10 * SECOND, 'event_id in (select id from events)');
  const told = rows.length === 0 ? [] : await stage.incidents();
  return [
    ...(left === 0 ? [] : [`${left} deliveries and markers still wait after the repair`]),
    ...told.map(({ kind, message }) => `an incident is open after the repair: ${kind}, ${message}`),
  ];
}

async function insertMarker(stage: Stage): Promise<string> {
  const id = randomUUID();
  await stage.sql(
    `insert into awaiting (topic, created_at, seq, event_id, ordering_key, version, subscribers, bytes)
     values ($1, clock_timestamp(), 1, $2, 'key 1', 1, '{bookings,ledger,notifications,accounting}', 10)`,
    [TOPIC, id],
  );
  return id;
}

/** Emits an event whose marker no relay can place: the event is delivered once that is repaired. */
async function emitSpoilt(stage: Stage): Promise<undefined> {
  const tag = 'spoilt';
  const client = await opened(stage.url('producer'));
  await client.query('begin');
  const { id } = await stage.build.bus.emit(client, TOPIC, payloadOf(TOPIC, { intentId: tag }));
  await spoilMarker(client, id);
  await client.query('commit');
  await client.end();
  stage.emitted({ id, tag, fate: 'committed' });
}

/** Deletes the event of a delivery that waits. */
async function deleteEvent(stage: Stage): Promise<string> {
  // Else a relay may have read the event before it is gone.
  await stage.sql(
    `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
     values ('bookings', '', clock_timestamp(), 'an operator', 'case 4411')`,
  );
  for (;;) {
    const [gone] = await stage.sql<{ id: string }>(
      `delete from events where id = (
         select event_id from deliveries join lane_heads as lane on lane.id = deliveries.lane
         where state = 'pending' and lane.topic = $1 and lane.subscriber = 'bookings' and leased_until is null
         order by position desc limit 1
       ) returning id`,
      [TOPIC],
    );
    if (gone) {
      await stage.sql('delete from pauses');
      return gone.id;
    }
    await sleep(20);
  }
}
