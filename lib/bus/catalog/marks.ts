import * as z from 'zod';

import { catalog, isTopicName } from './catalog.ts';

/** The parts of a value that people without the reveal scope may see, compiled from its schema. */
export type Rule =
  | {
      readonly is: 'hidden';
      readonly because: 'personal' | 'undecided';
      readonly kind: string | null;
      /** What fits the schema once the value is erased; undefined where it may be left out. */
      readonly erased: unknown;
    }
  | { readonly is: 'shown'; readonly fits: (value: unknown) => boolean; readonly erased: unknown }
  | {
      readonly is: 'object';
      readonly fields: ReadonlyMap<string, Rule>;
      /** The keys and values of a record. */
      readonly entries: { readonly key: Rule; readonly value: Rule } | null;
    }
  | { readonly is: 'list'; readonly items: readonly Rule[]; readonly rest: Rule | null }
  | { readonly is: 'one of'; readonly options: readonly Option[] };

interface Option {
  readonly rule: Rule;
  readonly fits: (value: unknown) => boolean;
}

const ruleByTopic = new Map<string, Rule>();

/**
 * Finds the rule for a topic's payloads, compiled once per topic.
 *
 * @param version the version of the payload.
 * @returns null where this release has no rule: its catalog lacks the topic, or the payload is newer.
 */
export function ruleOf(topic: string, version: number): Rule | null {
  if (!isTopicName(topic) || version > catalog[topic].version) return null;
  const known = ruleByTopic.get(topic);
  if (known) return known;
  const rule = compile(catalog[topic].payload);
  ruleByTopic.set(topic, rule);
  return rule;
}

/**
 * Compiles the rule for the values of a schema.
 *
 * It shows values that cannot identify a person (numbers, enums, dates), and texts that the schema marks as codes if
 * they look like one. It hides values marked as personal and values without a mark.
 */
export function compile(schema: z.core.$ZodType): Rule {
  const mark = z.globalRegistry.get(schema)?.['personal'];
  const fits = (value: unknown) => z.safeParse(schema, value).success;
  if (mark === true)
    return { is: 'hidden', because: 'personal', kind: kindOf(schema), erased: erasedOf(fits) };
  if (isWrapper(schema)) {
    const rule = compile(schema.unwrap());
    return rule.is === 'hidden' || rule.is === 'shown' ? { ...rule, erased: erasedOf(fits) } : rule;
  }
  if (schema instanceof z.ZodPipe) return compile(schema.in);
  if (schema instanceof z.ZodObject) {
    const shape: Readonly<Record<string, z.core.$ZodType>> = schema.shape;
    const fields = new Map(Object.entries(shape).map(([name, inner]) => [name, compile(inner)]));
    return { is: 'object', fields, entries: null };
  }
  if (schema instanceof z.ZodRecord) {
    const entries = { key: compile(schema.keyType), value: compile(schema.valueType) };
    return { is: 'object', fields: new Map(), entries };
  }
  if (schema instanceof z.ZodArray) return { is: 'list', items: [], rest: compile(schema.element) };
  if (schema instanceof z.ZodTuple) {
    const { items, rest } = schema.def;
    return { is: 'list', items: items.map(compile), rest: rest ? compile(rest) : null };
  }
  if (schema instanceof z.ZodUnion) {
    const options = schema.options.map((option) => ({
      rule: compile(option),
      fits: (value: unknown) => z.safeParse(option, value).success,
    }));
    return { is: 'one of', options };
  }
  const erased = erasedOf(fits);
  if (isClosed(schema)) return { is: 'shown', fits, erased };
  if (mark === false) return { is: 'shown', fits: (value) => looksLikeCode(value) && fits(value), erased };
  return { is: 'hidden', because: 'undecided', kind: null, erased };
}

/** The texts that erased values become: they identify nobody. `.invalid` belongs to nobody (RFC 2606). */
export const ERASED = 'erased';
export const ERASED_EMAIL = 'erased@erased.invalid';

/** Finds what an erased value becomes: the first of these that the schema takes. */
function erasedOf(fits: (value: unknown) => boolean): unknown {
  return [undefined, null, ERASED, ERASED_EMAIL, {}, [], 0].find(fits);
}

type Wrapper =
  | z.ZodOptional
  | z.ZodNullable
  | z.ZodNonOptional
  | z.ZodDefault
  | z.ZodPrefault
  | z.ZodReadonly
  | z.ZodCatch;

function isWrapper(schema: z.core.$ZodType): schema is Wrapper {
  return (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodNonOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodReadonly ||
    schema instanceof z.ZodCatch
  );
}

/** Text formats that leave no room for free text. */
const CLOSED_FORMATS: ReadonlySet<string> = new Set(['date', 'datetime', 'time', 'duration', 'uuid', 'guid']);

function isClosed(schema: z.core.$ZodType): boolean {
  if (schema instanceof z.ZodStringFormat || schema instanceof z.ZodString)
    return CLOSED_FORMATS.has(schema.format ?? '');
  return (
    schema instanceof z.ZodEnum ||
    schema instanceof z.ZodLiteral ||
    schema instanceof z.ZodNumber ||
    schema instanceof z.ZodBoolean ||
    schema instanceof z.ZodNull
  );
}

/** A single word without an `@`. */
const CODE = /^[\p{L}\p{N}_.:/+=~?#&-]+$/u;

/** A national id of eleven digits or a telephone number with its plus, also after a label such as `fnr:` or `tel:`. */
const OF_A_PERSON = /^(?:\p{L}+[:=])?(?:(?:\d{2}[.-]?){3}\d{3}[.-]?\d{2}|\+\d(?:[.-]?\d){6,14})$/u;

function looksLikeCode(value: unknown): boolean {
  // NFKC finds full-width digits too.
  return typeof value === 'string' && CODE.test(value) && !OF_A_PERSON.test(value.normalize('NFKC'));
}

/** Whether a text looks like an id where no schema says so: a code with a letter and a digit. */
export function looksLikeId(text: string): boolean {
  return looksLikeCode(text) && /\p{L}/u.test(text) && /\p{N}/u.test(text);
}

function kindOf(schema: z.core.$ZodType): string | null {
  if (isWrapper(schema)) return kindOf(schema.unwrap());
  return schema instanceof z.ZodStringFormat && schema.format === 'email' ? 'e-mail' : null;
}
