import type { StoredEvent, TimerVersion } from '../history.ts';
import { grouped } from '../reading.ts';
import type { Reading } from '../reading.ts';
import { ROUNDING_MS } from './promises.ts';
import type { Violation } from './promises.ts';

/**
 * A release reads which timers are due, and then the clock for their events. Between the two are its pauses, and what
 * transactions let it wait for.
 */
const RELEASE_MS = 1000;

interface Timer {
  readonly id: string;
  readonly topic: string;
  readonly dueAt: number;
  /** What became of it; null while it is set. */
  readonly fate: 'released' | 'moved' | 'cancelled' | null;
}

interface Released extends Timer {
  readonly event: StoredEvent;
}

/** Promise 15. */
export function* timed(read: Reading): Generator<Violation> {
  const { events, timers: versions } = read.history;
  const timers = timersAmong(versions);
  const eventOf = new Map(events.map((event) => [event.id, event]));
  const released = timers.flatMap((timer): Released[] => {
    const event = eventOf.get(timer.id);
    return event ? [{ ...timer, event }] : [];
  });
  for (const timer of timers) yield* itsFate(timer, eventOf.has(timer.id));
  yield* releasedOnce(read, timers);
  for (const timer of released) yield* notBeforeItsTime(timer);
  for (const ofTopic of grouped(released, ({ topic }) => topic).values()) yield* byTime(ofTopic, read);
  yield* cancelledAsSaid(read);
}

function* itsFate({ id, fate }: Timer, hasHappened: boolean): Generator<Violation> {
  const about = { eventId: id };
  if (fate === null) yield { rule: 'timer', what: 'its timer is still set, long after its time', about };
  else if (fate === 'released' && !hasHappened)
    yield { rule: 'timer', what: 'its timer was released, and there is no event', about };
  else if (fate !== 'released' && hasHappened)
    yield { rule: 'timer', what: `its timer was ${fate}, and it happened all the same`, about };
}

/** An event of a timer has the id of that timer. */
function* releasedOnce({ history }: Reading, timers: readonly Timer[]): Generator<Violation> {
  const set = new Set(timers.map(({ id }) => id));
  for (const { id, dueAt } of history.events) {
    if (dueAt === null || set.has(id)) continue;
    yield { rule: 'timer', what: 'no timer was set for it', about: { eventId: id } };
  }
}

function* notBeforeItsTime({ id, dueAt, event }: Released): Generator<Violation> {
  const earlyMs = dueAt - Date.parse(event.createdAt);
  if (earlyMs <= ROUNDING_MS) return;
  yield {
    rule: 'timer',
    what: `it happened ${Math.round(earlyMs)} ms before its time`,
    about: { eventId: id },
    t: Date.parse(event.createdAt),
  };
}

/** Of a topic: one whose transaction had committed when a later one was released is released before it. */
function* byTime(timers: readonly Released[], read: Reading): Generator<Violation> {
  const setAt = new Map(read.history.emits.map(({ id, committedAt }) => [id, committedAt]));
  const byDue = timers.toSorted((one, other) => one.dueAt - other.dueAt);
  for (const [index, later] of byDue.entries()) {
    const t = Date.parse(later.event.createdAt);
    const passed = byDue.slice(0, index).find((earlier) => {
      const committedAt = setAt.get(earlier.id);
      return (
        earlier.dueAt < later.dueAt &&
        placeOf(earlier.event) > placeOf(later.event) &&
        committedAt !== undefined &&
        read.soonAfter(committedAt, RELEASE_MS) < t
      );
    });
    if (!passed) continue;
    const tag = read.history.emits.find(({ id }) => id === passed.id)?.tag ?? passed.id;
    const what = `it happened before ${tag}, whose time was ${Math.round(later.dueAt - passed.dueAt)} ms earlier`;
    yield { rule: 'timer', what, about: { eventId: later.id }, t };
  }
}

function placeOf({ createdAt, seq }: StoredEvent): string {
  return `${createdAt} ${String(seq).padStart(12, '0')}`;
}

/** Each cancellation that was answered with true, and committed, has deleted a timer. */
function* cancelledAsSaid({ history }: Reading): Generator<Violation> {
  const keyOf = (of: { readonly topic: string; readonly timerKey: string | null }) =>
    `${of.topic} ${of.timerKey}`;
  const deleted = grouped(
    history.timers.filter(({ isGone, by }) => isGone && !isOfRelease(by)),
    keyOf,
  );
  const said = history.cancels.filter(({ wasThere, fate }) => wasThere && fate === 'committed');
  for (const [key, cancels] of grouped(said, keyOf)) {
    const count = deleted.get(key)?.length ?? 0;
    if (count >= cancels.length) continue;
    const what = `timers of ${key} were cancelled ${cancels.length} times, and ${count} were deleted`;
    yield { rule: 'timer', what, about: {} };
  }
}

function isOfRelease(by: string): boolean {
  return by.startsWith('relay');
}

/** Versions of one key follow each other: whoever changes a timer has locked its row. */
function timersAmong(versions: readonly TimerVersion[]): readonly Timer[] {
  const timers = new Map<string, Timer>();
  const latest = new Map<string, string>();
  for (const { id, topic, timerKey, dueAt, by, isGone } of versions) {
    const key = timerKey === null ? id : `${topic} ${timerKey}`;
    const before = timers.get(latest.get(key) ?? '');
    if (before && before.id !== id) timers.set(before.id, { ...before, fate: 'moved' });
    const fate = isGone ? (isOfRelease(by) ? 'released' : 'cancelled') : null;
    timers.set(id, { id, topic, dueAt, fate });
    if (isGone) latest.delete(key);
    else latest.set(key, id);
  }
  return [...timers.values()];
}
