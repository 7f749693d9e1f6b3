import { hash } from 'node:crypto';

const SHORTEST = 4;
const LONGEST = 255;

/** An amount, a word or a name is none of these; `pi_3Qx`, `bkg-48190` and UUIDs are. */
const LIKE_AN_ID = /^(?=.*[\p{N}_:/])[^\s@]+$/u;

const DATE = /^\d{4}-\d{2}-\d{2}(?:[T ][\d:.,]+(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/** A Norwegian national id, which also has eleven digits, or a telephone number. */
const OF_A_PERSON = /^(?:\d{11}|\+\d+)$/;

/** Whether a text of a payload looks like an id, by which operators may find its event. */
export function isIdentifier(text: string): boolean {
  return (
    text.length >= SHORTEST &&
    text.length <= LONGEST &&
    LIKE_AN_ID.test(text) &&
    !DATE.test(text) &&
    !OF_A_PERSON.test(text)
  );
}

/** A text in a payload, with its JSON Pointer (RFC 6901). */
export interface Leaf {
  readonly pointer: string;
  readonly text: string;
}

/** Lists the texts of a payload, however deep. */
export function leavesOf(value: unknown, pointer = ''): Leaf[] {
  if (typeof value === 'string') return [{ pointer, text: value }];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    leavesOf(inner, `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
}

/** The fields by which an event is found, beside the ids in its payload. */
export interface Keys {
  readonly correlationId: string | null;
  readonly causationId: string | null;
  readonly orderingKey: string;
  readonly dedupeKey: string | null;
}

/** Lists what an event is found by. Its own id is left out, since the event is found by that anyway. */
export function identifiersOf(id: string, keys: Keys, payload: unknown): ReadonlySet<string> {
  const { correlationId, causationId, orderingKey, dedupeKey } = keys;
  const named = [correlationId, causationId, orderingKey, dedupeKey].filter((key) => key !== null);
  const found = new Set([...named, ...textsIn(payload)]);
  found.delete('');
  found.delete(id);
  return found;
}

/** As `leavesOf`, without the pointers, which take most of its time. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return isIdentifier(value) ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}

/** Hashes an identifier to 32 bits. By MD5, which is the same in every release and everywhere. */
export function hashOf(identifier: string): number {
  return hash('md5', identifier, 'buffer').readInt32BE(0);
}
