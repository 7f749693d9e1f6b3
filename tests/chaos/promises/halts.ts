import { grouped } from '../reading.ts';
import type { DeliveryHistory, Reading } from '../reading.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/** Promise 10. */
export function* halted(read: Reading): Generator<Violation> {
  for (const strand of grouped(read.deliveries.values(), (delivery) => delivery.strand).values()) {
    for (const dead of strand) {
      if (dead.limits.afterDeadLetter !== 'halt') continue;
      for (const [from, to] of timesDead(dead)) {
        for (const later of strand.filter(({ position }) => position > dead.position))
          yield* escaping(later, dead, { from, to }, read);
      }
    }
  }
}

function* escaping(
  { calls, eventId, laneId, limits }: DeliveryHistory,
  dead: DeliveryHistory,
  { from, to }: { readonly from: number; readonly to: number },
  read: Reading,
): Generator<Violation> {
  for (const call of calls) {
    const { t, tag } = call.start;
    // Whose lease is over is stopped when it settles.
    if (t <= from + ROUNDING_MS || t >= to || (read.lease(call, t)?.isOver ?? true)) continue;
    const what = `${limits.name} was handed ${tag} behind the dead letter ${dead.id}, which halts it`;
    yield { rule: 'halt', what, about: { eventId, laneId, subscriber: limits.name }, t };
  }
}

/** The spans in which a delivery was a dead letter that nobody had replayed or dismissed. */
function timesDead({ versions }: DeliveryHistory): readonly (readonly [from: number, to: number])[] {
  return versions.flatMap((version, index) => {
    const isDead = version.state === 'dead_lettered' && version.dismissedAt === null;
    if (!isDead || versions[index - 1]?.state === 'dead_lettered') return [];
    const end = versions
      .slice(index + 1)
      .find(({ state, dismissedAt }) => state !== 'dead_lettered' || dismissedAt !== null);
    return [[version.at, end?.at ?? Infinity] as const];
  });
}
