import { KNOWING } from '../history.ts';
import type { Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/** Promise 13: neither by a replay that knows of the refusal, nor by one that does not. */
export function* refused(read: Reading): Generator<Violation> {
  for (const { limits, laneId, eventId, versions, calls } of read.deliveries.values()) {
    if (limits.onReplay !== 'refuse') continue;
    const about = { eventId, laneId, subscriber: limits.name };
    for (const { start } of calls) {
      if (!start.replayed) continue;
      const what = `${limits.name}, which refuses replays, was handed ${start.tag} after one`;
      yield { rule: 'refusal', what, about, t: start.t };
    }
    const last = versions.at(-1)!;
    if (!last.log.some(({ outcome, by }) => outcome === 'replayed' && by === KNOWING)) continue;
    const what = `a replay put it back for ${limits.name}, which refuses replays`;
    yield { rule: 'refusal', what, about, t: last.at };
  }
}
