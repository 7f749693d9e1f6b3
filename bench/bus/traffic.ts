import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { clock, until } from '../peers/serve.mjs';
import type { Contender } from './contender.ts';
import { withSubscribers } from './workload.ts';

// Steady traffic: events emitted at an even pace, each in a transaction of its own. Ours is kicked after each commit, the
// peers are notified by Postgres.

export interface Traffic {
  /** Topics to emit to, in turn. */
  readonly topics: readonly TopicName[];
  /** Topics whose subscribers are attached; by default `topics`. */
  readonly attached?: readonly TopicName[];
  readonly perSecond: number;
  readonly seconds: number;
}

/** The result. */
export interface Handled {
  /** Milliseconds from sending the commit to the call of the handler, for each delivery, in the order of the commits. */
  readonly times: readonly number[];
  /** Deliveries not handled a second after the last event was due. */
  readonly behind: number;
  /** Deliveries never handled, even after a wait. */
  readonly lost: number;
}

type Seen = readonly (readonly [key: string | number, atMs: number])[];

const WARM_UP_EVENTS = 40;

const GRACE_MS = 1000;

/** The longest wait for contenders that are behind. */
const PATIENCE_MS = 15_000;

/** Warms connections by small rounds, like those of a process that has run for a while. */
export async function warmUp(contenders: readonly Contender[], topics: readonly TopicName[]): Promise<void> {
  for (const contender of contenders) {
    await send([contender], { topics, perSecond: WARM_UP_EVENTS, seconds: 1 });
  }
}

/** Measures traffic. @param contenders one, or several processes of one contender that share the traffic. */
export async function send(contenders: readonly Contender[], traffic: Traffic): Promise<Handled> {
  const { topics, attached = topics, perSecond, seconds } = traffic;
  await Promise.all(
    contenders.map((contender) => contender.call('listen', { topics: withSubscribers(attached) })),
  );
  const each = Math.round((perSecond * seconds) / contenders.length);
  const order = (turn: number) => ({
    count: each,
    perSecond: perSecond / contenders.length,
    // Their paces together are even.
    afterMs: (turn * 1000) / perSecond,
    topics: withSubscribers(topics),
  });
  const dueAt = clock() + seconds * 1000;
  const sends = await Promise.all(
    contenders.map((contender, turn) => contender.call<{ sent: Seen }>('send', order(turn))),
  );
  const expected = expectedOf(traffic, each) * contenders.length;
  const patientUntil = Math.max(clock(), dueAt) + PATIENCE_MS;
  await until(async () => {
    const seen = await Promise.all(contenders.map((contender) => contender.call<number>('seen')));
    return seen.reduce((total, count) => total + count, 0) >= expected || clock() > patientUntil;
  });
  const listened = await Promise.all(
    contenders.map((contender) => contender.call<{ handled: Seen }>('quiet')),
  );
  const committedAt = new Map(sends.flatMap(({ sent }) => sent));
  const handled = listened
    .flatMap(({ handled }) => handled)
    // Leaves out those of an earlier run.
    .filter(([key]) => committedAt.has(key))
    .map(([key, at]) => ({ sentAt: committedAt.get(key)!, at }))
    .toSorted((one, other) => one.sentAt - other.sentAt);
  return {
    times: handled.map(({ sentAt, at }) => at - sentAt),
    behind: expected - handled.filter(({ at }) => at <= dueAt + GRACE_MS).length,
    lost: expected - handled.length,
  };
}

/** The number of deliveries of so many events of these topics. */
function expectedOf({ topics }: Traffic, events: number): number {
  const counts = withSubscribers(topics).map(({ subscribers }) => subscribers.length);
  return Array.from({ length: events }, (_, index) => counts[index % counts.length]!).reduce(
    (total, count) => total + count,
    0,
  );
}
