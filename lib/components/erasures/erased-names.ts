import type { ErasedName } from '../../../drizzle/schema.ts';
import { looksLikeId } from '../../bus/catalog/marks.ts';
import type { NamingField } from './person.ts';

/** The names in an event that has one of those that are looked for. */
export interface NamedEvent {
  readonly fields: readonly (Pick<NamingField, 'isPersonal' | 'isOther'> & { readonly text: string })[];
}

/** Enough for any person. An address that so many names lead to is not one person's. */
const MOST_NAMES = 50;

/** Makes the names that an operator asks for. */
export function askedNames(subjects: readonly string[]): ErasedName[] {
  return subjects.map((text) => ({ text, origin: 'asked', isPersonal: !looksLikeId(text) }));
}

/** The names that are looked for: those of this person and of nobody else. */
export function soughtNames(names: readonly ErasedName[]): string[] {
  return names.flatMap(({ text, origin }) => (origin === 'asked' || origin === 'linked' ? [text] : []));
}

/**
 * Adds the names that events have beside those which are looked for. Only personal data is looked for in its turn: it
 * names the person wherever it stands. Of an address that someone with another id has too, it stops.
 */
export function withNamesOf(names: readonly ErasedName[], events: readonly NamedEvent[]): ErasedName[] {
  const known = new Map(withMarks(names, events).map((name) => [name.text, name]));
  const add = (text: string, origin: ErasedName['origin'], isPersonal: boolean) => {
    if (!known.has(text) && known.size < MOST_NAMES) known.set(text, { text, origin, isPersonal });
  };
  for (const { fields } of events) {
    const own = fields.filter(({ isOther }) => !isOther);
    const found = own.flatMap(({ text }) => find(known, text) ?? []);
    const isAsked = found.some(({ origin }) => origin === 'asked');
    const ids = own.filter(({ isPersonal }) => !isPersonal).map(({ text }) => text);
    const isKnownId = ids.some((text) => ['asked', 'beside'].includes(known.get(text)?.origin ?? ''));
    if (isAsked) for (const text of ids) add(text, 'beside', false);
    else if (ids.length > 0 && !isKnownId && hasIds(known)) {
      for (const name of found)
        if (name.origin === 'linked') known.set(name.text, { ...name, origin: 'shared' });
      continue;
    }
    if (!found.some(({ origin }) => origin === 'asked' || origin === 'linked')) continue;
    for (const { text, isPersonal } of own) if (isPersonal && !find(known, text)) add(text, 'linked', true);
  }
  return [...known.values()];
}

/**
 * Says with which names to read all events once more, after they have been read with some and more were found.
 *
 * A name that turned out to be shared may have led to other names before: these are forgotten, and sought again without it.
 *
 * @returns null where nothing more is to be found.
 */
export function namesOfNextPass(
  before: readonly ErasedName[],
  after: readonly ErasedName[],
): ErasedName[] | null {
  const shared = (names: readonly ErasedName[]) => names.filter(({ origin }) => origin === 'shared').length;
  if (shared(after) > shared(before)) return after.filter(({ origin }) => origin !== 'linked');
  return after.length > before.length ? [...after] : null;
}

/** Notes which of the names are personal data, for the catalog says so of a field that they stand in. */
export function withMarks(names: readonly ErasedName[], events: readonly NamedEvent[]): ErasedName[] {
  const known = new Map(names.map((name) => [name.text, name]));
  for (const { text, isPersonal } of events.flatMap(({ fields }) => fields)) {
    const name = isPersonal ? find(known, text) : undefined;
    if (name) known.set(name.text, { ...name, isPersonal });
  }
  return [...known.values()];
}

/** Writes a name so that it stays in the log: an id as it is, personal data by its first letter. */
export function maskedName({ text, isPersonal }: Pick<ErasedName, 'text' | 'isPersonal'>): string {
  if (!isPersonal && looksLikeId(text)) return text;
  return `${String.fromCodePoint(text.codePointAt(0) ?? 0)}…${text.includes('@') ? '@…' : ''}`;
}

/** Addresses are the same in any case. */
function find(known: ReadonlyMap<string, ErasedName>, text: string): ErasedName | undefined {
  const exact = known.get(text);
  if (exact || !text.includes('@')) return exact;
  const lower = text.toLowerCase();
  return [...known.values()].find((name) => name.text.toLowerCase() === lower);
}

function hasIds(known: ReadonlyMap<string, ErasedName>): boolean {
  return [...known.values()].some(
    ({ origin, isPersonal }) => (origin === 'asked' || origin === 'beside') && !isPersonal,
  );
}
