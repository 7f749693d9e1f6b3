import { isDeepStrictEqual } from 'node:util';

import { MOST_ITEMS } from '../../bus/catalog/values.ts';
import type { JsonSchema } from '../../platform/json-schema.ts';

/**
 * The side that a change of a payload's schema breaks.
 *
 * - `subscribers`: code written for the older schema receives values that it did not allow, or misses fields. A wider
 *   schema does this: a field removed or no longer required, another type, a new value of an enumeration, a looser limit.
 * - `stored events`: an event of the older schema does not fit the newer one. It may be on its way, may be replayed in a
 *   year, and instances with the older code emit more of them until they end. A narrower schema does this: a new required
 *   field, a value removed from an enumeration, a tighter limit.
 *
 * So within a version a payload may only gain optional fields and descriptions. Any other change needs a new version,
 * which tells subscribers the two apart.
 */
type Broken = 'subscribers' | 'stored events';

/** An incompatible change. */
export interface Break {
  /** A JSON Pointer to the field in the payload; `/*` stands for the items of a list and for fields of any name. */
  readonly pointer: string;
  /** For example `was removed`. */
  readonly what: string;
  readonly broken: Broken;
}

/** Finds what a change of a payload's schema breaks. @returns an empty list for a compatible change. */
export function breaksBetween(was: JsonSchema, is: JsonSchema, pointer = ''): readonly Break[] {
  const [older, newer] = [alternativesOf(was), alternativesOf(is)];
  const gone = older.filter((one) => !newer.some((other) => isSame(one, other)));
  const added = newer.filter((one) => !older.some((other) => isSame(one, other)));
  const [before, after] = [gone[0], added[0]];
  if (gone.length === 1 && added.length === 1 && before && after) return rulesBroken(before, after, pointer);
  return [
    ...added.map((one) => widened(pointer, `may now be ${inWords(one)}`)),
    ...gone.map((one) => narrowed(pointer, `may no longer be ${inWords(one)}`)),
  ];
}

const widened = (pointer: string, what: string): Break => ({ pointer, what, broken: 'subscribers' });
const narrowed = (pointer: string, what: string): Break => ({ pointer, what, broken: 'stored events' });

/** Lists the alternatives of a schema: a nullable field has two, a field with a list of types has one for each. */
function alternativesOf(schema: JsonSchema): readonly JsonSchema[] {
  const { anyOf, oneOf, type } = schema;
  const alternatives = anyOf ?? oneOf;
  if (alternatives) return alternatives.flatMap((one) => alternativesOf(one));
  return Array.isArray(type) ? type.map((one) => ({ ...schema, type: one })) : [schema];
}

/** Keywords for people: they do not decide which values fit. */
const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', 'x-personal-data'];

function isSame(one: JsonSchema, other: JsonSchema): boolean {
  return isDeepStrictEqual(withoutAnnotations(one), withoutAnnotations(other));
}

function withoutAnnotations(value: unknown, isFields = false): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutAnnotations(item));
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => isFields || !ANNOTATIONS.includes(name));
  // A field may itself be called `title`.
  return Object.fromEntries(
    kept.map(([name, member]) => [name, withoutAnnotations(member, !isFields && name === 'properties')]),
  );
}

/** Raising a lower bound tightens it; raising an upper bound loosens it. */
const LOWER = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'];
const UPPER = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'];

/** Rules without an order: with another value they admit some values and refuse others. */
const EXACT = ['format', 'pattern', 'multipleOf', 'uniqueItems'];

const COMPARED = new Set([
  'type',
  'enum',
  'const',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'propertyNames',
  ...LOWER,
  ...UPPER,
  ...EXACT,
  ...ANNOTATIONS,
]);

function rulesBroken(was: JsonSchema, is: JsonSchema, pointer: string): readonly Break[] {
  return [
    ...typeBroken(was, is, pointer),
    ...valuesBroken(was, is, pointer),
    ...boundsBroken(was, is, pointer),
    ...exactBroken(was, is, pointer),
    ...fieldsBroken(was, is, pointer),
    ...othersBroken(was, is, pointer),
    ...innerBroken(was.items, is.items, `${pointer}/*`),
    ...innerBroken(was.propertyNames, is.propertyNames, `${pointer}/*`),
    ...innerBroken(was.additionalProperties, is.additionalProperties, `${pointer}/*`),
  ];
}

function typeBroken({ type: was }: JsonSchema, { type: is }: JsonSchema, pointer: string): readonly Break[] {
  if (was === is) return [];
  const [older = 'of any type', newer = 'of any type'] = [was?.toString(), is?.toString()];
  const what = `is now ${newer}, was ${older}`;
  if (is === undefined || (was === 'integer' && is === 'number')) return [widened(pointer, what)];
  if (was === undefined || (was === 'number' && is === 'integer')) return [narrowed(pointer, what)];
  return [widened(pointer, what), narrowed(pointer, what)];
}

function valuesBroken(was: JsonSchema, is: JsonSchema, pointer: string): readonly Break[] {
  const [older, newer] = [valuesOf(was), valuesOf(is)];
  if (!older && !newer) return [];
  if (!newer) return [widened(pointer, 'may now have any value')];
  if (!older) return [narrowed(pointer, `must now be one of ${listed(newer)}`)];
  const added = newer.filter((value) => !older.includes(value));
  const gone = older.filter((value) => !newer.includes(value));
  return [
    ...(added.length > 0 ? [widened(pointer, `may now be ${listed(added)}`)] : []),
    ...(gone.length > 0 ? [narrowed(pointer, `may no longer be ${listed(gone)}`)] : []),
  ];
}

function valuesOf(schema: JsonSchema): readonly unknown[] | undefined {
  return 'const' in schema ? [schema.const] : schema.enum;
}

function boundsBroken(was: JsonSchema, is: JsonSchema, pointer: string): readonly Break[] {
  const broken = (name: string, sign: 1 | -1) => {
    const none = -sign * Infinity;
    const [older, newer] = [numberOr(was[name], none), numberOr(is[name], none)];
    if (older === newer) return [];
    // Lists of earlier releases had no bound, and none came near this one.
    if (name === 'maxItems' && older === Infinity && newer >= MOST_ITEMS) return [];
    const what = `has ${name} ${boundInWords(newer)}, had ${boundInWords(older)}`;
    return [sign * newer > sign * older ? narrowed(pointer, what) : widened(pointer, what)];
  };
  return [...LOWER.flatMap((name) => broken(name, 1)), ...UPPER.flatMap((name) => broken(name, -1))];
}

const numberOr = (value: unknown, none: number) => (typeof value === 'number' ? value : none);
const boundInWords = (bound: number) => (Number.isFinite(bound) ? `${bound}` : 'none');

function exactBroken(was: JsonSchema, is: JsonSchema, pointer: string): readonly Break[] {
  return EXACT.flatMap((name) => {
    const [older, newer] = [was[name], is[name]];
    if (isDeepStrictEqual(older, newer)) return [];
    if (newer === undefined) return [widened(pointer, `no longer has ${name} ${json(older)}`)];
    if (older === undefined) return [narrowed(pointer, `now has ${name} ${json(newer)}`)];
    const what = `has ${name} ${json(newer)}, had ${json(older)}`;
    return [widened(pointer, what), narrowed(pointer, what)];
  });
}

function fieldsBroken(was: JsonSchema, is: JsonSchema, pointer: string): readonly Break[] {
  const [older, newer] = [was.properties ?? {}, is.properties ?? {}];
  const names = new Set([...Object.keys(older), ...Object.keys(newer)]);
  return [...names].flatMap((name) => {
    const at = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const [before, after] = [older[name], newer[name]];
    const [wasRequired, isRequired] = [was, is].map(({ required = [] }) => required.includes(name));
    if (after === undefined) return [widened(at, 'was removed')];
    if (before === undefined) {
      if (isRequired) return [narrowed(at, 'is new and required')];
      // Where any field was allowed, older events may have another kind of value under this name.
      return was.additionalProperties === undefined
        ? []
        : [narrowed(at, 'now has a rule, had none of its own')];
    }
    return [
      ...(wasRequired && !isRequired ? [widened(at, 'is no longer required')] : []),
      ...(isRequired && !wasRequired ? [narrowed(at, 'is now required')] : []),
      ...innerBroken(before, after, at),
    ];
  });
}

type Inner = JsonSchema[keyof JsonSchema];

/** A schema within a schema may be `true`, `false` or undefined, which means `true`. */
function innerBroken(was: Inner, is: Inner, pointer: string): readonly Break[] {
  const [older, newer] = [schemaOf(was), schemaOf(is)];
  if (isDeepStrictEqual(older, newer)) return [];
  if (newer === false) return [narrowed(pointer, 'is no longer accepted')];
  if (older === false) return [widened(pointer, 'is now accepted')];
  return breaksBetween(older, newer, pointer);
}

function schemaOf(inner: Inner): JsonSchema | false {
  if (inner === false) return false;
  return isSchema(inner) ? inner : {};
}

function isSchema(inner: unknown): inner is JsonSchema {
  return typeof inner === 'object' && inner !== null && !Array.isArray(inner);
}

/** Keywords without a rule here count as breaking both sides, until someone writes their rule. */
function othersBroken(was: JsonSchema, is: JsonSchema, pointer: string): readonly Break[] {
  const names = new Set([...Object.keys(was), ...Object.keys(is)]);
  return [...names].flatMap((name) => {
    const isTuple = name === 'items' && (Array.isArray(was.items) || Array.isArray(is.items));
    if ((COMPARED.has(name) && !isTuple) || isDeepStrictEqual(was[name], is[name])) return [];
    const what = `has another ${name}, which has no rule of comparison yet`;
    return [widened(pointer, what), narrowed(pointer, what)];
  });
}

function inWords(schema: JsonSchema): string {
  const values = valuesOf(schema);
  return values ? listed(values) : (schema.type ?? json(schema)).toString();
}

const json = (value: unknown) => JSON.stringify(value);
const listed = (values: readonly unknown[]) => values.map(json).join(', ');
