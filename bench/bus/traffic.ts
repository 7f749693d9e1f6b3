import type { TopicName } from '../../lib/catalog/catalog.ts';
import type { Contender } from './contender.ts';
import { withSubscribers } from './workload.ts';

// Steady traffic: events emitted at an even pace, each in a transaction of its own, and when each was handled. Ours is
// kicked after each commit, peers are notified by theirs.

export interface Traffic {
  /** That events are emitted to, in turns. */
  readonly topics: readonly TopicName[];
  /** Whose subscribers are attached; without it those of `topics`. */
  readonly attached?: readonly TopicName[];
  readonly perSecond: number;
  readonly seconds: number;
}

/** What became of it. */
export interface Handled {
  /** Milliseconds from when a commit was sent until a handler was called, for each delivery, in the order of the commits. */
  readonly times: readonly number[];
  /** Deliveries that were not handled a second after the last event was due. */
  readonly behind: number;
  /** Those that were not handled even when they had been waited for. */
  readonly lost: number;
}

type Seen = readonly (readonly [key: string | number, atMs: number])[];

const WARM_UP_EVENTS = 40;

/** As long as those who are behind may take to get through. */
const PATIENCE_MS = 15_000;

/** Has connections do small rounds, as those of a process that has been up for a while. */
export async function warmUp(contenders: readonly Contender[], topics: readonly TopicName[]): Promise<void> {
  for (const contender of contenders) {
    await send([contender], { topics, perSecond: WARM_UP_EVENTS, seconds: 1 });
  }
}

/** @param contenders one, or several processes of the same that share the traffic between them. */
export async function send(contenders: readonly Contender[], traffic: Traffic): Promise<Handled> {
  const { topics, attached = topics, perSecond, seconds } = traffic;
  await Promise.all(
    contenders.map((contender) => contender.call('listen', { topics: withSubscribers(attached) })),
  );
  const each = Math.round((perSecond * seconds) / contenders.length);
  const order = { count: each, perSecond: perSecond / contenders.length, topics: withSubscribers(topics) };
  const startedAt = performance.now();
  const sends = await Promise.all(
    contenders.map((contender) => contender.call<{ sent: Seen }>('send', order)),
  );
  const expected = expectedOf(traffic, each) * contenders.length;
  const missing = async (untilMs: number) => {
    for (;;) {
      const seen = await Promise.all(contenders.map((contender) => contender.call<number>('seen')));
      const left = expected - seen.reduce((total, count) => total + count, 0);
      if (left === 0 || performance.now() > untilMs) return left;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const dueAt = startedAt + seconds * 1000;
  // Who could not even emit in time is behind with what it should have emitted.
  const isLate = performance.now() > dueAt + 1000;
  const behind = await missing(dueAt + 1000);
  const lost = behind > 0 ? await missing(performance.now() + PATIENCE_MS) : 0;
  const listened = await Promise.all(
    contenders.map((contender) => contender.call<{ handled: Seen }>('quiet')),
  );
  const committedAt = new Map(sends.flatMap(({ sent }) => sent));
  const times = listened
    .flatMap(({ handled }) => handled)
    // Not those that an earlier run left behind.
    .filter(([key]) => committedAt.has(key))
    .map(([key, at]) => ({ sentAt: committedAt.get(key)!, ms: at - committedAt.get(key)! }))
    .toSorted((one, other) => one.sentAt - other.sentAt)
    .map(({ ms }) => ms);
  return { times, behind: isLate ? Math.max(1, behind) : behind, lost };
}

/** How many deliveries so many events of these topics become. */
function expectedOf({ topics }: Traffic, events: number): number {
  const fanOuts = withSubscribers(topics).map(({ subscribers }) => subscribers.length);
  return Array.from({ length: events }, (_, index) => fanOuts[index % fanOuts.length]!).reduce(
    (total, fanOut) => total + fanOut,
    0,
  );
}
