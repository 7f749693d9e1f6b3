import { truncate } from './words.ts';

// The log can't be erased, so it has operators by their ids. What the directory calls them stands in a table that can,
// and is put beside the id where it is shown.

/** What the directory calls operators, by their ids. */
export type OperatorNames = ReadonlyMap<string, string>;

/** For a terminal, which draws fields that have the id alone, and for a page that could not read the names. */
export const NO_NAMES: OperatorNames = new Map();

/** Of an id, enough to tell two people of the same name apart. Ids that begin alike are shown as far as they differ. */
const ID_LENGTH = 4;

/** Says who acted: `Kari Nordmann (3f9f…)`, or the id as it is where no name is known. */
export function operatorText(id: string, names: OperatorNames): string {
  const name = names.get(id);
  if (name === undefined) return id;
  const namesakes = [...names].flatMap(([other, called]) => (called === name && other !== id ? [other] : []));
  let length = ID_LENGTH;
  while (length < id.length && namesakes.some((other) => other.startsWith(id.slice(0, length)))) length += 1;
  return `${name} (${truncate(length, id)})`;
}

/** Says the same where the name was read with the id. */
export function namedOperator(id: string, name: string | null): string {
  return operatorText(id, name === null ? NO_NAMES : new Map([[id, name]]));
}

/** More people than act here: every page reads them all. */
const MOST_NAMES = 1000;

/** The SQL of all names as one object, which `namesIn` takes. */
export const OPERATOR_NAMES = `(
    select coalesce(json_object_agg(subject, name), '{}')
    from (select subject, name from operator_names order by seen_at desc limit ${MOST_NAMES}) as seen
  )`;

export function namesIn(found: Readonly<Record<string, string>>): OperatorNames {
  return new Map(Object.entries(found));
}

/** The SQL of the name that belongs to an id, or null. */
export function operatorNameSql(id: string): string {
  return `(select name from operator_names where subject = ${id})`;
}
