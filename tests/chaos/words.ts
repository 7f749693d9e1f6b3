import { DAY } from '../../lib/platform/time.ts';
import type { Fall } from './campaign.ts';
import type { DeliveryVersion, History, LaneVersion, LogEntry, TimerVersion } from './history.ts';
import { PROMISES, RULES } from './promises/promises.ts';
import type { Violation } from './promises/promises.ts';

/** The most lines of a report; a longer one is harder to read. */
const LINES = 70;
const OTHERS = 6;

/** Reports the first violation of a run, the others in short, and the events that led to the first. */
export function inWords({ history, found }: Fall): string {
  const [first, ...others] = found;
  const promise = RULES[first.rule];
  return [
    `BROKEN: promise ${promise}, ${PROMISES[promise]}.`,
    '',
    `  ${inShort(history, first)}`,
    ...(others.length === 0 ? [] : ['', 'Also in this run:', '']),
    ...others.slice(0, OTHERS).map((other) => `  ${RULES[other.rule]}  ${inShort(history, other)}`),
    ...(others.length > OTHERS ? [`     and ${others.length - OTHERS} more`] : []),
    '',
    "What led to it, by the run's own clock, which the run moves forward:",
    '',
    ...linesAbout(history, first),
  ].join('\n');
}

/** One violation in one line. */
export function inShort(history: History, { what, about }: Violation): string {
  const { eventId } = about;
  if (eventId === undefined) return what;
  const tag = history.emits.find(({ id }) => id === eventId)?.tag ?? eventId;
  const topic = history.events.find(({ id }) => id === eventId)?.topic;
  return `${tag}${topic === undefined ? '' : ` of ${topic}`}: ${what}`;
}

/** What happened to the lane and the event of a violation, up to it. */
function linesAbout(history: History, { about, t }: Violation): string[] {
  const lanes = new Map(history.lanes.map(({ id, subscriber: of }) => [id, of]));
  const isAbout = ({ eventId, laneId: id }: DeliveryVersion) =>
    eventId === about.eventId && (about.subscriber === undefined || lanes.get(id) === about.subscriber);
  const laneId = about.laneId ?? history.deliveries.find(isAbout)?.laneId;
  const isMeant = (of: { readonly laneId?: string; readonly eventId: string }) =>
    of.laneId === laneId || of.eventId === about.eventId;
  const write = new Writer(history);
  const inLane = new Set(history.deliveries.filter(isMeant).map(({ eventId }) => eventId));
  const subscriber = about.subscriber ?? history.lanes.find(({ id }) => id === laneId)?.subscriber;
  const calls = new Map(
    history.log.flatMap((entry) => (entry.k === 'start' ? [[`${entry.relay} ${entry.n}`, entry]] : [])),
  );
  const lines = [
    ...history.log.flatMap((entry) => {
      const call = entry.k === 'end' ? calls.get(`${entry.relay} ${entry.n}`) : entry;
      return call?.k === 'start' && !(call.subscriber === subscriber && inLane.has(call.eventId))
        ? []
        : [{ at: entry.t, text: write.entry(entry, call) }];
    }),
    ...history.lanes
      .filter(({ id }) => id === laneId)
      .map((lane) => ({ at: lane.at, text: write.lane(lane) })),
    ...history.timers
      .filter(({ id }) => id === about.eventId || inLane.has(id))
      .map((timer) => ({ at: timer.at, text: write.timer(timer) })),
    ...history.events
      .filter(({ id }) => inLane.has(id))
      .map(({ id, createdAt }) => ({ at: Date.parse(createdAt), text: write.event(id) })),
    ...history.deliveries.filter(isMeant).map((one) => ({ at: one.at, text: write.delivery(one) })),
  ].toSorted((one, other) => one.at - other.at);
  const end = t === undefined ? lines.length : lines.findLastIndex(({ at }) => at <= t + 1) + 3;
  const begin = Math.max(0, end - LINES);
  return [
    ...(begin > 0 ? [`  … ${begin} earlier lines`] : []),
    ...lines.slice(begin, end).map(({ at, text }) => `  ${write.instant(at)}  ${text}`),
  ];
}

/** Writes what happened, with times since the start and events by their tags. */
class Writer {
  readonly #beganAt: number;
  readonly #tags: ReadonlyMap<string, string>;

  constructor({ log, lanes, events, emits }: History) {
    this.#beganAt = Math.min(
      ...log.map(({ t }) => t),
      ...lanes.map(({ at }) => at),
      ...events.map(({ createdAt }) => Date.parse(createdAt)),
    );
    this.#tags = new Map(emits.map(({ id, tag }) => [id, tag]));
  }

  /** `days+hh:mm:ss.mmm` */
  instant(at: number): string {
    const ms = Math.max(0, Math.round(at - this.#beganAt));
    const days = Math.trunc(ms / DAY);
    return `${days === 0 ? '  ' : `${days}+`}${new Date(ms % DAY).toISOString().slice(11, 23)}`;
  }

  event(id: string): string {
    return `${this.#tags.get(id) ?? id} is created, in a transaction that commits later`;
  }

  timer({ by, id, timerKey, dueAt, isGone }: TimerVersion): string {
    const which = `the timer of ${this.#tags.get(id) ?? id}${timerKey === null ? '' : ` (${timerKey})`}`;
    return isGone
      ? `${by} deletes ${which}`
      : `${by} writes ${which}: due at ${this.instant(dueAt).trim()}, in a transaction that commits later`;
  }

  entry(entry: LogEntry, call: LogEntry | undefined): string {
    const { relay } = entry;
    switch (entry.k) {
      case 'start': {
        const { subscriber, tag, attempt, replayed, plan } = entry;
        const which = `attempt ${attempt}${replayed ? ' since its replay' : ''}`;
        return `${relay} calls ${subscriber} with ${tag} (${which}), which ${plan}`;
      }
      case 'end': {
        const of = call?.k === 'start' ? `${call.subscriber} with ${call.tag}` : 'a handler';
        return `${relay}: ${of} ${entry.end}${entry.ms === undefined ? '' : ` ${entry.ms} ms`}`;
      }
      case 'fault':
        return `*** ${relay} ${entry.fault}${entry.ms === undefined ? '' : ` by ${entry.ms} ms`}`.replace(
          '  ',
          ' ',
        );
      case 'error':
        return `*** ${relay} meets an error: ${entry.code} ${entry.message}`.replace('  ', ' ');
    }
  }

  lane({ by, id, head, token, dueAt, carefulTo }: LaneVersion): string {
    const held =
      token === null ? 'free' : `held with ${token.slice(0, 4)} until ${this.instant(dueAt ?? 0).trim()}`;
    const careful = (carefulTo ?? 0) > head ? `, one by one up to ${carefulTo}` : '';
    return `${by} writes to the journal of lane ${id}: ${held}, head ${head}${careful}`;
  }

  delivery(delivery: DeliveryVersion): string {
    const { by, eventId, laneId, position, state, attempts, replays, nextAttemptAt, log } = delivery;
    const last = log.at(-1);
    return [
      `${by}: ${this.#tags.get(eventId) ?? eventId} is ${state} at ${position} in lane ${laneId}`,
      ...(attempts > 0 ? [`attempts ${attempts}`] : []),
      ...(replays > 0 ? [`replays ${replays}`] : []),
      ...(nextAttemptAt === null ? [] : [`next at ${this.instant(nextAttemptAt).trim()}`]),
      ...(last ? [`last ${last.outcome}${last.kind === undefined ? '' : ` (${last.kind})`}`] : []),
    ].join(', ');
  }
}
