import type { OutageVersion } from '../history.ts';
import { deliveryIdOf, grouped } from '../reading.ts';
import type { Call, Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/** A claim that began before an outage was committed does not know of it, and notes its probe before its claim. */
const TURN_MS = 1000;

/** How a relay names an attempt that found nobody there. */
const ABSENT: ReadonlySet<string | undefined> = new Set(['unreachable', 'timeout']);

interface Outage {
  readonly subscriber: string;
  readonly openedAt: number;
  readonly endedAt: number;
  readonly probes: readonly number[];
}

/** Promise 11. */
export function* waitedOut(read: Reading): Generator<Violation> {
  const claimedAt = new Map<string, number>();
  for (const { token, at } of read.history.lanes)
    if (token !== null && !claimedAt.has(token)) claimedAt.set(token, at);
  for (const outage of outagesOf(read.history.outages)) {
    const probed = new Map<number, Call[]>();
    for (const call of read.calls) {
      const { subscriber, tag, eventId, t } = call.start;
      if (subscriber !== outage.subscriber) continue;
      const lease = read.lease(call, t);
      if (!lease || lease.isOver) continue;
      const at = claimedAt.get(lease.claim.token ?? '') ?? lease.claim.at;
      if (at <= read.soonAfter(outage.openedAt, TURN_MS) || at >= outage.endedAt) continue;
      const about = { eventId, subscriber };
      const probe = outage.probes.findLast(
        (one) => one - TURN_MS <= at && at <= read.soonAfter(one, TURN_MS),
      );
      if (probe === undefined) {
        const what = `${subscriber} was handed ${tag} in an outage, and not as a probe`;
        yield { rule: 'outage', what, about, t };
        continue;
      }
      const others = probed.get(probe) ?? [];
      probed.set(probe, [...others, call]);
      if (others.length > 0) {
        const what = `${subscriber} was handed ${tag} by a probe that had handed it ${others[0]!.start.tag}`;
        yield { rule: 'outage', what, about, t };
      }
      yield* withoutAttempt(call, read);
    }
  }
}

/** A probe that found nobody there is no attempt of its event. */
function* withoutAttempt({ start, end }: Call, read: Reading): Generator<Violation> {
  const { eventId, subscriber, tag, t } = start;
  const { versions = [] } = read.deliveries.get(deliveryIdOf(start)) ?? {};
  if (!end || end.end === 'ok') return;
  const version = versions.find(({ at }) => at >= end.t);
  const last = version?.log.at(-1);
  if (!version || last?.outcome !== 'failed' || !ABSENT.has(last.kind)) return;
  if (version.attempts !== start.attempt) return;
  const what = `a probe with ${tag} used up attempt ${start.attempt}`;
  yield { rule: 'outage', what, about: { eventId, subscriber }, t };
}

function outagesOf(versions: readonly OutageVersion[]): Outage[] {
  return [...grouped(versions, ({ subscriber }) => subscriber).values()].flatMap((ofOne) =>
    [...new Set(ofOne.map(({ openedAt }) => openedAt))].map((openedAt) => {
      const ofThis = ofOne.filter((version) => version.openedAt === openedAt);
      return {
        subscriber: ofThis[0]!.subscriber,
        // As it was committed, or a little before.
        openedAt: ofThis[0]!.at,
        endedAt: ofThis.find(({ isGone }) => isGone)?.at ?? Infinity,
        probes: ofThis.flatMap(({ probedAt }) => (probedAt === null ? [] : [probedAt])),
      };
    }),
  );
}
