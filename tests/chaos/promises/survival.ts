import { GONE, KILLED } from '../history.ts';
import type { Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/** Postgres's `deadlock_detected`. */
const DEADLOCK = '40P01';

/** Promise 7. */
export function* withoutDeadlocks(read: Reading): Generator<Violation> {
  for (const entry of read.history.log) {
    if (entry.k === 'error' && entry.code === DEADLOCK)
      yield { rule: 'deadlock', what: `${entry.relay} was the victim of a deadlock`, about: {}, t: entry.t };
  }
  for (const { log, eventId, laneId, at } of read.history.deliveries) {
    if (log.at(-1)?.kind !== DEADLOCK) continue;
    const what = 'its handler was the victim of a deadlock';
    yield { rule: 'deadlock', what, about: { eventId, laneId }, t: at };
  }
}

/** Classes of SQLSTATE that say what a statement does wrong: with cardinality, data, integrity, syntax. A pooler may lose names (42P05). */
const OWN_FAULT = /^(?!42P05)(?:21|22|23|42)[0-9A-Z]{3}$/;

/** Promise 8: processes end when they are killed, or when a handler ends them. */
export function* survived(read: Reading): Generator<Violation> {
  const doomed = new Set<string>();
  for (const entry of read.history.log) {
    if (entry.k === 'error' && OWN_FAULT.test(entry.code)) {
      const what = `a turn of ${entry.relay} failed: ${entry.code} ${entry.message}`;
      yield { rule: 'survival', what, about: {}, t: entry.t };
    }
    if (entry.k === 'fault' && entry.fault === KILLED) doomed.add(entry.relay);
    if (entry.k === 'end' && entry.end === 'crashes') doomed.add(entry.relay);
    if (entry.k !== 'fault' || entry.fault !== GONE || doomed.has(entry.relay)) continue;
    const what = `the process of ${entry.relay} ended by itself`;
    yield { rule: 'survival', what, about: {}, t: entry.t };
  }
}
