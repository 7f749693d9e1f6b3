import { LANES_COUNTED } from '../../components/incidents/halts.ts';

/** A number with its thousands separated: `1,204`. */
export function count(number: number): string {
  return number.toLocaleString('en-GB');
}

/** The same for what may be words already. */
export function numberText(number: number | string): string {
  return typeof number === 'number' ? count(number) : number;
}

/** A share as a percentage, rounded down, so that 100 % means all: `99.6 %`. */
export function percentage(share: number): string {
  return `${Math.floor(share * 1000) / 10} %`;
}

/** With a capital first letter: `retry` as `Retry`. */
export function capitalize(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A number and its noun: `1 dead letter`, `1,204 dead letters`. */
export function quantity(number: number, one: string, many = pluralOf(one)): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Says how many attempts of a delivery have failed: `2 of 5`. A release before may have allowed more. */
export function attemptsOf(attempts: number, most: number | null): string {
  return most === null ? count(attempts) : `${count(attempts)} of ${count(Math.max(attempts, most))}`;
}

/** The same in a sentence: `2 of 5 attempts`. */
export function attemptsWords(attempts: number, most: number | null): string {
  if (attempts === 0) return 'not attempted yet';
  return `${attemptsOf(attempts, most)} ${(most ?? attempts) === 1 ? 'attempt' : 'attempts'}`;
}

/** The beginning of a sentence: `1 delivery waits`, `1,204 deliveries wait`. */
export function deliveriesWait(number: number): string {
  return `${quantity(number, 'delivery')} ${number === 1 ? 'waits' : 'wait'}`;
}

/** A number of lanes, of which no more are counted than some thousand: `12`, `2,000+`. */
export function countOfLanes(number: number): string {
  return number < LANES_COUNTED ? count(number) : `${count(number)}+`;
}

/** Numbers with their words, without zeros: `2 waiting`. */
export function numbers(of: readonly (readonly [number: number, words: string])[]): readonly string[] {
  return of.flatMap(([number, words]) => (number === 0 ? [] : [`${count(number)} ${words}`]));
}

/** The same with its noun: `1 lane`, `2,000+ lanes`. */
export function quantityOfLanes(number: number): string {
  return `${countOfLanes(number)} ${number === 1 ? 'lane' : 'lanes'}`;
}

/** Names in a sentence: `a`, `a and b`, `a, b and c`. */
export function joinNames(words: readonly string[]): string {
  return new Intl.ListFormat('en-GB', { type: 'conjunction' }).format(words);
}

/** A period as the address has it, in words: `24h` as `last 24 hours`, `1h` as `last hour`. */
export function lastPeriod(since: string): string {
  const [, number, unit] = /^(\d+)([smhdw])$/.exec(since) ?? [];
  if (number === undefined || unit === undefined) return `last ${since}`;
  return number === '1' ? `last ${UNITS[unit]}` : `last ${quantity(Number(number), UNITS[unit] ?? unit)}`;
}

const UNITS: Readonly<Record<string, string>> = {
  s: 'second',
  m: 'minute',
  h: 'hour',
  d: 'day',
  w: 'week',
};

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
