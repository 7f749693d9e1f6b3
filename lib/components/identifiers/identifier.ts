import { hash } from 'node:crypto';

import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import type { Topic } from '../../bus/catalog/topic.ts';
import { shownOf } from '../../bus/catalog/personal-data.ts';

const SHORTEST = 4;
const LONGEST = 255;

/** An amount, a word or a name is none of these; `pi_3Qx`, `bkg-48190` and UUIDs are. */
const LIKE_AN_ID = /^(?=.*[\p{N}_:/])\S+$/u;

const DATE = /^\d{4}-\d{2}-\d{2}(?:[T ][\d:.,]+(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/** An e-mail address, a Norwegian national id, which has eleven digits, or a telephone number. */
const OF_A_PERSON = /@|^(?:\d{6} ?\d{5}|\+[\d ]+)$/;

/** Whether operators may find events by a text at all, as a key or in a payload: not by what can only be personal. */
export function isSearchable(text: string): boolean {
  return !OF_A_PERSON.test(text.normalize('NFKC'));
}

/** Whether a text of a payload looks like an id, by which operators may find its event. */
export function isIdentifier(text: string): boolean {
  return (
    text.length >= SHORTEST &&
    text.length <= LONGEST &&
    LIKE_AN_ID.test(text) &&
    !DATE.test(text) &&
    isSearchable(text)
  );
}

/** A payload with what the catalog says of it. */
export interface Described {
  readonly topic: string;
  readonly version: number;
  readonly payload: unknown;
}

/** A text in a payload, with its JSON Pointer (RFC 6901). */
export interface Leaf {
  readonly pointer: string;
  readonly text: string;
}

/**
 * Lists the ids of a payload: the texts that look like one, of the fields that the catalog does not mark as personal, and
 * of those that it declares as ids in a provider's body.
 */
export function idsIn(described: Described): Leaf[] {
  const { topic, payload, version } = described;
  const ids = [...leavesOf(shownOf(topic, payload, version)), ...declaredIn(described)];
  return ids.filter(({ text }) => isIdentifier(text));
}

function declaredIn({ topic, payload, version }: Described): Leaf[] {
  if (!isTopicName(topic) || version > catalog[topic].version) return [];
  const { ids = [] }: Topic = catalog[topic];
  return ids.flatMap((path) => {
    const steps = path.split('.');
    const text = steps.reduce<unknown>(fieldOf, payload);
    return typeof text === 'string' ? [{ pointer: `/${steps.join('/')}`, text }] : [];
  });
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined;
}

/** Lists the texts of a payload, however deep. */
function leavesOf(value: unknown, pointer = ''): Leaf[] {
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
export function identifiersOf(id: string, keys: Keys, described: Described): ReadonlySet<string> {
  const { correlationId, causationId, orderingKey, dedupeKey } = keys;
  const named = [correlationId, causationId, orderingKey, dedupeKey].filter((key) => key !== null);
  const found = new Set(named.filter(isSearchable));
  for (const { text } of idsIn(described)) found.add(text);
  found.delete('');
  found.delete(id);
  return found;
}

/** Hashes an identifier to 32 bits. By MD5, which is the same in every release and everywhere. */
export function hashOf(identifier: string): number {
  return hash('md5', identifier, 'buffer').readInt32BE(0);
}
