import { LANES_COUNTED } from '../../components/incidents/halts.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../platform/time.ts';

/** A number with its thousands separated: `1,204`. */
export function count(number: number): string {
  return number.toLocaleString('en-GB');
}

/** With a capital first letter: `retry` as `Retry`. */
export function capitalize(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A number and its noun: `1 dead letter`, `1,204 dead letters`. */
export function quantity(number: number, one: string, many = pluralOf(one)): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Says how many attempts of a delivery have failed: `2 of 5 attempts`. A release before may have allowed more. */
export function attemptsWords(attempts: number, most: number | null): string {
  if (attempts === 0) return 'not attempted yet';
  if (most === null) return quantity(attempts, 'attempt');
  return `${count(attempts)} of ${quantity(Math.max(attempts, most), 'attempt')}`;
}

/** The beginning of a sentence: `1 delivery waits`, `1,204 deliveries wait`. */
export function deliveriesWait(number: number): string {
  return `${quantity(number, 'delivery')} ${number === 1 ? 'waits' : 'wait'}`;
}

/** A number, of which no more are counted than so many; by default of lanes: `12`, `2,000+`. */
export function countUpTo(number: number, most = LANES_COUNTED): string {
  return number < most ? count(number) : `${count(number)}+`;
}

/** Numbers with their words, without zeros: `2 waiting`. */
export function numbers(of: readonly (readonly [number: number, words: string])[]): readonly string[] {
  return of.flatMap(([number, words]) => (number === 0 ? [] : [`${count(number)} ${words}`]));
}

/** The same with its noun: `1 lane`, `2,000+ lanes`. */
export function quantityOfLanes(number: number): string {
  return `${countUpTo(number)} ${number === 1 ? 'lane' : 'lanes'}`;
}

/** Names in a sentence: `a`, `a and b`, `a, b and c`. */
export function joinNames(words: readonly string[]): string {
  return new Intl.ListFormat('en-GB', { type: 'conjunction' }).format(words);
}

/** Says how many error groups stand in a list with commas: `one error`, `3 errors`. */
export function groupWords(groups: string): string {
  const number = groups.split(',').length;
  return number === 1 ? 'one error' : `${count(number)} errors`;
}

/** Shortens a text that is too long for its place. */
export function truncate(length: number, text: string): string {
  return text.length > length ? `${text.slice(0, length).trimEnd().toWellFormed()}…` : text;
}

/** Shortens an id to its first 13 characters: those of an event id are its time. */
export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 13)}…` : id;
}

function pluralOf(one: string): string {
  return one.endsWith('y') ? `${one.slice(0, -1)}ies` : `${one}s`;
}

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
  return html`<time datetime="${instant}" title="${fullText(instant)}">${timeText(instant, now)}</time>`;
}

/** `time` as plain text. */
export function timeText(instant: string, now: string): string {
  const before = day(instant, now);
  return before === '' ? timeOfDay(instant) : `${before} ${clock(instant)}${shown.suffix}`;
}

/** The time of day, to the second. */
export function timeOfDay(instant: string): string {
  return clock(instant, 'seconds') + shown.suffix;
}

/** The weekday and the time of day, also for today: `Sat 14:00`. */
export function weekdayAndTime(instant: string): string {
  return `${partsOf(instant).weekday} ${clock(instant)}`;
}

/** How long ago, in its largest unit: `27 s ago`. */
export function ago(instant: string, now: string): string {
  const ms = Date.parse(now) - Date.parse(instant);
  if (ms < SECOND) return 'just now';
  const [number, unit] = duration(Math.floor(ms / SECOND) * SECOND).split(' ');
  return `${number} ${unit} ago`;
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
