import { byTopic } from '../kit/filters.ts';
import type { Filter } from '../kit/filters.ts';
import { age, dayAndMonth, duration, weekdayAndTime } from '../kit/instants.ts';
import { select } from '../kit/select.ts';
import { percentage } from '../kit/words.ts';
import { spans } from './read.ts';
import type { HealthInterval, Span, Times } from './read.ts';

const bySpan: Filter = {
  shape: spans.optional(),
  option: { value: '<hours|days>', help: 'the last 48 hours (default) or the last 30 days' },
  field: (name, span) =>
    select('Period', name, span, [
      ['', 'Last 48 hours'],
      ['days', 'Last 30 days'],
    ]),
};

export const healthFilters = { topic: byTopic, span: bySpan };

/** An interval's name: `Sat 14:00` for an hour, `21 Nov` for a day. */
export function intervalWords(startsAt: string, span: Span): string {
  return span === 'hours' ? weekdayAndTime(startsAt) : dayAndMonth(startsAt);
}

/** The length of a span: `the last 48 hours`. */
export function spanWords(span: Span): string {
  return span === 'hours' ? 'the last 48 hours' : 'the last 30 days';
}

/** A measured time: `<1 ms`, `38 ms`, `1.8 s`. */
export function timeWords(ms: number): string {
  return ms < 1 ? '<1 ms' : duration(ms);
}

export function timesWords(times: Times): string {
  return times === null ? '–' : `${timeWords(times.p50)} · ${timeWords(times.p95)}`;
}

export function ageWords(seconds: number | null): string {
  return seconds === null ? 'none' : age(seconds);
}

/** Whether there is anything to show of an interval. */
export function isEmpty({ delivered, failedAttempts, replays, handlerMs, ...rest }: HealthInterval): boolean {
  const counts = [delivered, failedAttempts, rest.deadLettered, replays.delivered, replays.deadLettered];
  return counts.every((number) => number === 0) && handlerMs === null && rest.backlogAgeSeconds === null;
}

/** The share of delivered ones among those delivered and dead-lettered: ` (99.6 %)`. */
export function shareWords(delivered: number, deadLettered: number): string {
  const ended = delivered + deadLettered;
  return ended === 0 ? '' : ` (${percentage(delivered / ended)})`;
}
