import { ruleOf } from './marks.ts';
import type { Rule } from './marks.ts';

/**
 * Orders the fields of a payload as its schema names them. Fields that the schema does not name follow.
 *
 * The database keeps payloads as `jsonb`, which sorts the keys of an object by their length.
 *
 * @param version the payload's version. If it is newer than this catalog's, the payload is returned as it is.
 */
export function inSchemaOrder(topic: string, payload: unknown, version: number): unknown {
  return ordered(ruleOf(topic, version), payload);
}

/** Lists the fields of an object: first those that its schema names, in its order, then the others. */
export function fieldsInOrder(
  fields: ReadonlyMap<string, Rule>,
  value: object,
): readonly (readonly [name: string, inner: unknown])[] {
  const given = new Map<string, unknown>(Object.entries(value));
  const named = [...fields.keys()].filter((name) => given.has(name));
  const others = [...given.keys()].filter((name) => !fields.has(name));
  return [...named, ...others].map((name) => [name, given.get(name)]);
}

function ordered(rule: Rule | null, value: unknown): unknown {
  if (rule === null || typeof value !== 'object' || value === null) return value;
  if (rule.is === 'one of') {
    return ordered(rule.options.find(({ fits }) => fits(value))?.rule ?? null, value);
  }
  if (rule.is === 'list') {
    return Array.isArray(value)
      ? value.map((item, index) => ordered(rule.items[index] ?? rule.rest, item))
      : value;
  }
  if (rule.is !== 'object' || Array.isArray(value)) return value;
  const { fields, entries } = rule;
  return Object.fromEntries(
    fieldsInOrder(fields, value).map(([name, inner]) => [
      name,
      ordered(fields.get(name) ?? entries?.value ?? null, inner),
    ]),
  );
}
