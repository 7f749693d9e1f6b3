import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../platform/time.ts';

/**
 * Where times are shown. A server writes UTC, and the word with it: who reads a page without its script, an answer or a log
 * may be anywhere. The page's script writes them anew in the zone of the browser. A terminal has its own zone, and names it
 * once.
 */
interface Shown {
  readonly zone: string;
  /** After each time of day. */
  readonly suffix: string;
  readonly parts: Intl.DateTimeFormat;
  /** Its days are not the host's, and not always 24 hours long. */
  readonly calendar: Intl.DateTimeFormat;
}

function shownIn(zone: string, suffix: string): Shown {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  });
  return { zone, suffix, parts, calendar: new Intl.DateTimeFormat('en-CA', { timeZone: zone }) };
}

const AS_A_SERVER = shownIn('UTC', ' UTC');
let shown = AS_A_SERVER;

/** Shows all times of this process in a zone, without its name: a terminal has it below them. @param zone null: as a server. */
export function showTimesIn(zone: string | null): void {
  shown = zone === null ? AS_A_SERVER : shownIn(zone, '');
}

/** The zone of the times that this process shows, such as `Europe/Oslo`. */
export function shownZone(): string {
  return shown.zone;
}

/** The time of day, after its day where that is not today: `14:31:40 UTC`, `Wed 18:41 UTC`. */
export function time(instant: string, now: string): Html {
  return timeElement(instant, timeText(instant, now));
}

/** `time` as plain text. */
export function timeText(instant: string, now: string): string {
  return day(instant, now) === '' ? timeOfDay(instant) : shortText(instant, now);
}

/** The time of day, to the second. */
export function timeOfDay(instant: string): string {
  return clock(instant, 'seconds') + shown.suffix;
}

/** As `time` without seconds, for sentences: `since 04:36`. */
export function timeToMinute(instant: string, now: string): Html {
  return timeElement(instant, shortText(instant, now), 'minute');
}

/** As `time`, and how long ago below it. */
export function timeAndAgo(instant: string, now: string): Html {
  return html`${time(instant, now)}<span class="s">${ago(instant, now)}</span>`;
}

/** From the first instant to the last, without seconds: `04:38 – 07:55`, `Wed 18:41 – today 14:12`. */
export function span(from: string, to: string, now: string): Html {
  const start = timeToMinute(from, now);
  if (shortText(from, now) === shortText(to, now)) return start;
  if (day(to, now) === day(from, now))
    return html`${start} – ${timeElement(to, clock(to) + shown.suffix, 'clock')}`;
  return html`${start} – ${day(to, now) === '' && 'today '}${timeToMinute(to, now)}`;
}

/** The weekday and the time of day, also for today: `Sat 14:00`. */
export function weekdayAndTime(instant: string): string {
  return `${partsOf(instant).weekday} ${clock(instant)}`;
}

/** The day and the month of a day that begins at midnight UTC, wherever it is shown: `21 Nov`. */
export function dayAndMonth(instant: string): string {
  return new Date(instant).toLocaleDateString('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short' });
}

/** How long ago, in its largest unit: `27 s ago`. */
export function ago(instant: string, now: string): string {
  const ms = Date.parse(now) - Date.parse(instant);
  return ms < SECOND ? 'just now' : `${largestUnit(ms)} ago`;
}

/** How long until then, exactly: `in 3 min 8 s`. */
export function until(instant: string, now: string): string {
  const ms = Date.parse(instant) - Date.parse(now);
  return ms < SECOND ? 'now' : `in ${duration(ms)}`;
}

/** In its two largest units: `41 s`, `3 min 8 s`, `6 h 36 min`, `2 d 4 h`; below 10 s with tenths: `1.8 s`. */
export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND && ms % SECOND !== 0) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return pair(ms, MINUTE, 'min', SECOND, 's');
  if (ms < DAY) return pair(ms, HOUR, 'h', MINUTE, 'min');
  return pair(ms, DAY, 'd', HOUR, 'h');
}

/** Whole seconds as a duration: `3 s`, `7 min 11 s`. */
export function age(seconds: number): string {
  return seconds < 1 ? '0 s' : duration(Math.floor(seconds) * SECOND);
}

function pair(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`;
}

function largestUnit(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** @param to what the script writes, where it is not the day, if another, and the time to the second. */
function timeElement(instant: string, text: string, to?: 'minute' | 'clock'): Html {
  return html`<time
    datetime="${instant}"
    ${to !== undefined && html` data-to="${to}"`}
    title="${fullText(instant)}"
    >${text}</time
  >`;
}

function shortText(instant: string, now: string): string {
  return `${day(instant, now)} ${clock(instant)}${shown.suffix}`.trimStart();
}

function fullText(instant: string): string {
  const { weekday, day: date, month, year } = partsOf(instant);
  return `${weekday} ${date} ${month} ${year}, ${clock(instant, 'seconds')}, ${shown.zone}`;
}

function clock(instant: string, to: 'minutes' | 'seconds' = 'minutes'): string {
  const { hour, minute, second } = partsOf(instant);
  return to === 'seconds' ? `${hour}:${minute}:${second}` : `${hour}:${minute}`;
}

/** Empty for today; the weekday within a week; else the date. */
function day(instant: string, now: string): string {
  const days = (midnight(now) - midnight(instant)) / DAY;
  const { weekday, day: date, month, year } = partsOf(instant);
  if (days === 0) return '';
  return Math.abs(days) < 7 ? `${weekday}` : `${date} ${month} ${year}`;
}

/** The instant's date at midnight UTC: days of UTC all have 24 hours. */
function midnight(instant: string): number {
  return Date.parse(`${shown.calendar.format(new Date(instant))}T00:00:00Z`);
}

function partsOf(instant: string): Partial<Record<Intl.DateTimeFormatPartTypes, string>> {
  return Object.fromEntries(
    shown.parts.formatToParts(new Date(instant)).map(({ type, value }) => [type, value]),
  );
}
