import { stopReplay } from '../../lib/bus/deliveries/operations/paced-replay.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { createKick } from '../../lib/bus/relay/kick.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { keepStepping } from '../../lib/edge/cron/keep-stepping.ts';
import { steppedWork } from '../../lib/edge/cron/stepped-work.ts';
import { onDue } from '../../lib/platform/db/commits.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { sleep } from '../../lib/platform/time.ts';
import { joining } from './ours-lives.ts';

export interface PacedReplay {
  readonly deliveries: number;
  readonly perMinute: number;
  /** After this time it is stopped. */
  readonly seconds: number;
}

/** Replays delivered events at a pace, as an operator's request and the cron do, until all are delivered again. */
export async function replayPaced(db: Database, { deliveries, perMinute, seconds }: PacedReplay) {
  const { topic, subscriber } = joining;
  const startedAt = performance.now();
  let delivered = 0;
  const subscribers = [attach(subscriber, { [topic]: async () => void (delivered += 1) })];
  const lives: Promise<void>[] = [];
  const stopListening = onDue(
    db,
    createKick({
      db,
      subscribers,
      waitUntil: (life) => lives.push(life),
      onError: (error) => console.error(error),
    }),
  );
  const stopped = new AbortController();
  const stepping = steppedWork(subscribers).map((work) =>
    keepStepping(work, { db, until: Infinity, signal: stopped.signal }),
  );
  const request = { topic, subscriber, since: '1d', include: 'all', limit: deliveries, perMinute } as const;
  const { replayId, matched } = await replay(db, request, 'bench');
  while (delivered < matched && performance.now() - startedAt < seconds * 1000) await sleep(20);
  if (delivered < matched) await stopReplay(db, { replayId: replayId, by: 'bench', reason: 'measured' });
  const ms = performance.now() - startedAt;
  stopped.abort();
  stopListening();
  await Promise.all([...stepping, ...lives]);
  return { delivered, ms };
}
