/** With thousands set apart: `1,204`. */
export function count(number: number): string {
  return number.toLocaleString('en-GB');
}

/** The number and what it counts: `1 dead letter`, `1,204 dead letters`. */
export function counted(number: number, one: string, many = pluralOf(one)): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(words: readonly string[]): string {
  return new Intl.ListFormat('en-GB', { type: 'conjunction' }).format(words);
}

/** The part of a long id that tells it apart on a screen: an event id's time. */
export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 13)}…` : id;
}

function pluralOf(one: string): string {
  return one.endsWith('y') ? `${one.slice(0, -1)}ies` : `${one}s`;
}
