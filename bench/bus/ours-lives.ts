import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { advanceBackfills, backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { driverOf, run } from '../../lib/platform/db/statement.ts';
import { DAY, MINUTE, sleep } from '../../lib/platform/time.ts';

// A subscriber that joins late, and one that is down for half a day.

export const joining = { topic: 'payment.captured', subscriber: 'ledger' } as const satisfies {
  topic: TopicName;
  subscriber: string;
};

/** Takes the joining subscriber off the events that wait for their places, and delivers them to the others. */
export async function withoutJoining(db: Database): Promise<void> {
  const { topic, subscriber } = joining;
  await run(driverOf(db), {
    text: `with marker as (
        update awaiting set subscribers = array_remove(subscribers, $2)
        where topic = $1 returning event_id
      )
      update events set subscribers = array_remove(subscribers, $2) from marker where id = event_id`,
    values: [topic, subscriber],
  });
  const others = catalog[topic].subscribers.filter((name) => name !== subscriber);
  const subscribers = others.map((name) => attach(name, { [topic]: () => undefined }));
  await relay({ db, subscribers, until: Date.now() + 10 * MINUTE });
}

/** Backfills the joining subscriber and delivers what is written, in order. @param perMinute null: at once. */
export async function backfillJoining(db: Database, { perMinute }: { perMinute: number | null }) {
  const { topic, subscriber } = joining;
  let last = 0;
  let delivered = 0;
  let outOfOrder = 0;
  const attached = attach(subscriber, {
    [topic]: async ({ seq }: { seq: number }) => {
      if (seq <= last) outOfOrder += 1;
      last = seq;
      delivered += 1;
    },
  });
  const startedAt = performance.now();
  const elapsedMs = () => performance.now() - startedAt;
  let writtenInMs = 0;
  const filling = (async () => {
    const { matched } = await backfill(db, {
      topic,
      subscriber,
      since: new Date(Date.now() - DAY),
      by: 'bench',
      perMinute,
    });
    // As the cron does.
    for (let inMs = perMinute === null ? null : 0; inMs !== null;) {
      await sleep(Math.max(inMs, 100));
      inMs = await advanceBackfills(db, Date.now() + 200);
    }
    writtenInMs = elapsedMs();
    return matched;
  })();
  let written = Infinity;
  const relaying = (async () => {
    while (delivered < written) {
      await relay({ db, subscribers: [attached], until: Date.now() + 10 * MINUTE });
      await sleep(5);
    }
  })();
  written = await filling;
  await relaying;
  return { written, writtenInMs, deliveredInMs: elapsedMs(), outOfOrder };
}

interface Outage {
  readonly keys: number;
  readonly waits: boolean;
}

const DOWN_MINUTES = 12 * 60;

/** Lets a subscriber be down for twelve hours of a clock of its own, a look each minute, and then deliver. */
export async function standOutage(db: Database, { keys, waits }: Outage) {
  const { topic, subscriber } = joining;
  let isDown = true;
  let calls = 0;
  const last = new Map<string, number>();
  let outOfOrder = 0;
  const attached = attach(
    subscriber,
    {
      [topic]: async ({ orderingKey, seq }: { orderingKey: string; seq: number }) => {
        calls += 1;
        if (isDown) throw Object.assign(new Error('nobody is there'), { code: 'unreachable' });
        if (seq <= (last.get(orderingKey) ?? 0)) outOfOrder += 1;
        last.set(orderingKey, seq);
      },
    },
    { outage: waits ? 'wait' : 'off' },
  );
  const drainAt = (minute: number) =>
    relay({
      db,
      subscribers: [attached],
      until: Date.now() + 10 * MINUTE,
      now: Date.now() + minute * MINUTE,
    });
  let deadLettered = 0;
  let whenDown = 0;
  for (let minute = 1; minute <= DOWN_MINUTES; minute += 1) {
    deadLettered += (await drainAt(minute)).deadLettered;
    if (minute === 1) whenDown = calls;
  }
  const attempts = calls;
  isDown = false;
  const startedAt = performance.now();
  // At the next probe, or retry, at the latest.
  const { delivered } = await drainAt(DOWN_MINUTES + 6 * 60);
  return { keys, attempts, whenDown, deadLettered, delivered, ms: performance.now() - startedAt, outOfOrder };
}
