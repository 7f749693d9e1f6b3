import { DAY } from '../lib/time.ts';

const OSLO = 'Europe/Oslo';
const clock = new Intl.DateTimeFormat('en-GB', { timeZone: OSLO, timeStyle: 'medium' });
const clockToTheMinute = new Intl.DateTimeFormat('en-GB', { timeZone: OSLO, timeStyle: 'short' });
const weekday = new Intl.DateTimeFormat('en-GB', { timeZone: OSLO, weekday: 'short' });
const date = new Intl.DateTimeFormat('en-GB', { timeZone: OSLO, dateStyle: 'medium' });
/** Oslo's days are not the host's, nor always 24 hours: they are told apart by their names. */
const calendar = new Intl.DateTimeFormat('en-CA', { timeZone: OSLO });

/** In Oslo: `14:32:07` today, `Thu 14:32` within a week, `20 Nov 2026 14:32` before. */
export function when(instant: string, now: string): string {
  const at = new Date(instant);
  const days = Math.abs(midnight(now) - midnight(instant)) / DAY;
  if (days === 0) return clock.format(at);
  return `${(days < 7 ? weekday : date).format(at)} ${clockToTheMinute.format(at)}`;
}

/** The time of day in Oslo, to the second. */
export function timeOfDay(instant: string): string {
  return clock.format(new Date(instant));
}

/** Oslo's date as if it were one of UTC, whose days all have 24 hours. */
function midnight(instant: string): number {
  return Date.parse(`${calendar.format(new Date(instant))}T00:00:00Z`);
}
