import { randomUUID } from 'node:crypto';

import { SECOND, sleep } from '../../../lib/time.ts';
import { Stage, traffic } from './stage.ts';
import type { Outcome, Scene, Surrounding } from './surrounding.ts';

/** Point 11. */
export const strangeRows: readonly Surrounding[] = [
  {
    name: 'marker-without-an-event',
    point: 11,
    inCi: true,
    play: (scene) => withRow(scene, (stage) => insertMarker(stage)),
  },
  {
    name: 'marker-that-no-fan-out-takes',
    point: 11,
    inCi: true,
    play: (scene) => withRow(scene, (stage) => insertMarker(stage, '{bookings,NULL}')),
  },
  { name: 'delivery-without-an-event', point: 11, inCi: true, play: (scene) => withRow(scene, deleteEvent) },
];

const TOPIC = 'payment.captured';

async function withRow({ arena, build }: Scene, insert: (stage: Stage) => Promise<string>): Promise<Outcome> {
  const stage = await Stage.open(arena, build, {
    traffic: traffic({ producers: 3, transactions: 20, handlersMs: [0, 30] }),
  });
  try {
    await Promise.all([stage.relay(), stage.relay()]);
    const produced = stage.produce();
    await stage.delivered(20);
    const id = await insert(stage);
    await produced;
    const left = await stage.rest(20 * SECOND, 'event_id in (select id from events)');
    await sleep(500);
    const told = await stage.incidents();
    const broken = [
      ...(left === 0 ? [] : [`${left} deliveries and markers of other events wait behind it`]),
      ...(told.length > 0 ? [] : ['no incident tells of it']),
      // Counts that the row contradicts are the doctor's to find.
      ...(await stage.broken({ except: id })).filter((what) => !what.startsWith('backlog: ')),
    ];
    return { did: 'by hand, under load', broken };
  } finally {
    await stage.close();
  }
}

const SUBSCRIBERS = '{bookings,ledger,notifications,accounting}';

async function insertMarker(stage: Stage, subscribers = SUBSCRIBERS): Promise<string> {
  const id = randomUUID();
  await stage.sql(
    `insert into awaiting_fan_out (topic, created_at, seq, event_id, ordering_key, open, subscribers, payload_bytes)
     values ($1, clock_timestamp(), 1, $2, 'key 1', 4, $3, 10)`,
    [TOPIC, id, subscribers],
  );
  return id;
}

/** Deletes the event of a delivery that waits. */
async function deleteEvent(stage: Stage): Promise<string> {
  for (;;) {
    const [gone] = await stage.sql<{ id: string }>(
      `delete from events where id = (
         select event_id from deliveries join lanes on lanes.id = lane_id
         where deliveries.state = 'pending' and topic = $1 order by position desc limit 1
       ) returning id`,
      [TOPIC],
    );
    if (gone) return gone.id;
  }
}
