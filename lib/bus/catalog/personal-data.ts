import { catalog, isTopicName } from './catalog.ts';
import type { TopicName } from './catalog.ts';
import { ERASED, ERASED_EMAIL, looksLikeId, ruleOf } from './marks.ts';
import type { Rule } from './marks.ts';
import { fieldsInOrder } from './schema-order.ts';
import { SMOKE_TEST } from './smoke-test.ts';

/** A payload as people without the reveal scope see it. */
export interface HiddenPayload {
  /** A copy with `[hidden]` or `[hidden: e-mail]` in place of each hidden value, its fields in the schema's order. */
  readonly payload: unknown;
  readonly hidden: readonly HiddenValue[];
  /** Whether this release knows the payload's version, and the payload fits its schema. */
  readonly isValid: boolean;
}

interface HiddenValue {
  /** JSON Pointer (RFC 6901). */
  readonly pointer: string;
  /** The kind of data, where the schema names one. */
  readonly kind: string | null;
}

/** Copies a payload without its personal data, and without fields that its schema does not name. */
export function withoutPersonalData(topic: TopicName, payload: object): Record<string, unknown> {
  const kept = redact(ruleOf(topic, catalog[topic].version), payload, '', () => undefined);
  return isRecord(kept) ? kept : {};
}

/**
 * Hides the personal data of a payload, and every field that its schema does not name.
 *
 * @param topic the event's topic. If this catalog lacks it, everything is hidden.
 * @param version the payload's version. If it is newer than this catalog's, everything is hidden.
 */
export function hidePersonalData(topic: string, payload: unknown, version: number): HiddenPayload {
  // It names nobody, and nobody else may emit it.
  if (topic === SMOKE_TEST.topic) return { payload, hidden: [], isValid: true };
  const hidden: HiddenValue[] = [];
  const rule = ruleOf(topic, version);
  const shown = redact(rule, payload, '', (_, pointer, kind) => {
    hidden.push({ pointer, kind });
    return kind ? `[hidden: ${kind}]` : HIDDEN;
  });
  const isValid = rule !== null && isTopicName(topic) && catalog[topic].payload.safeParse(payload).success;
  return { payload: shown, hidden, isValid };
}

/** Copies a payload with null in place of what people without the reveal scope don't see. */
export function shownOf(topic: string, payload: unknown, version: number): unknown {
  return redact(ruleOf(topic, version), payload, '', () => null);
}

/**
 * Copies a payload with its personal data overwritten, so that it still fits its topic's schema if it did before.
 * Optional values, and fields that the schema does not name, are left out.
 *
 * @param topic the event's topic. If this catalog lacks it, or the payload is newer, all texts but ids are overwritten.
 * @returns the payload, and its personal texts as they were.
 */
export function erasePersonalData(
  topic: string,
  payload: unknown,
  version: number,
): { readonly payload: unknown; readonly texts: readonly string[] } {
  const texts: string[] = [];
  const rule = ruleOf(topic, version);
  const erased = redact(rule, payload, '', (value, _pointer, _kind, instead) => {
    collectTexts(value, texts);
    return rule === null ? withoutTexts(value) : instead;
  });
  return { payload: erased, texts };
}

/** Overwrites all that is no id, where nothing is known about the schema. */
function withoutTexts(value: unknown): unknown {
  if (typeof value === 'string') return looksLikeId(value) ? value : ERASED;
  if (typeof value === 'number') return Math.abs(value) < SMALLEST_NUMBER ? value : 0;
  if (Array.isArray(value)) return value.map(withoutTexts);
  if (!isRecord(value)) return value;
  const named = Object.entries(value).filter(([name]) => FIELD_NAME.test(name));
  return Object.fromEntries(named.map(([name, inner]) => [name, withoutTexts(inner)]));
}

/** Lists the personal texts of a payload, which an error message must not repeat. */
export function personalTexts(topic: string, payload: unknown, version: number): string[] {
  const texts: string[] = [];
  redact(ruleOf(topic, version), payload, '', (value) => collectTexts(value, texts));
  return texts;
}

const HIDDEN = '[hidden]';

/** Writes the placeholder of a hidden value; undefined leaves the value out. @param erased as in `Rule`. */
type Hide = (value: unknown, pointer: string, kind: string | null, erased?: unknown) => unknown;

function redact(rule: Rule | null, value: unknown, pointer: string, hide: Hide): unknown {
  // It says nothing about anybody, and operators should see that it was erased.
  if (value === ERASED || value === ERASED_EMAIL) return value;
  if (rule === null) return hide(value, pointer, null);
  if (rule.is === 'hidden') return hide(value, pointer, rule.kind, rule.erased);
  if (value === null) return null;
  if (rule.is === 'shown') return rule.fits(value) ? value : hide(value, pointer, null, rule.erased);
  if (rule.is === 'one of') {
    // Where several options fit, prefer one that hides the value.
    const fitting = rule.options.filter(({ fits }) => fits(value)).map((option) => option.rule);
    return redact(fitting.find(({ is }) => is === 'hidden') ?? fitting[0] ?? null, value, pointer, hide);
  }
  if (rule.is === 'list') {
    if (!Array.isArray(value)) return hide(value, pointer, null);
    return value
      .map((item, index) => redact(rule.items[index] ?? rule.rest, item, `${pointer}/${index}`, hide))
      .filter((item) => item !== undefined);
  }
  return isRecord(value) ? redactObject(rule, value, pointer, hide) : hide(value, pointer, null);
}

function redactObject(
  { fields, entries }: Rule & { is: 'object' },
  value: Record<string, unknown>,
  pointer: string,
  hide: Hide,
): unknown {
  const shown: [string, unknown][] = [];
  const unnamed: [string, unknown][] = [];
  for (const [name, inner] of fieldsInOrder(fields, value)) {
    const rule = fields.get(name) ?? (entries && isShown(entries.key, name) ? entries.value : undefined);
    if (rule) shown.push([name, redact(rule, inner, `${pointer}/${escapePointer(name)}`, hide)]);
    else unnamed.push([name, inner]);
  }
  // A field that the schema does not name may hold anything, and so may its name.
  if (unnamed.length > 0)
    shown.push([HIDDEN, hide(Object.fromEntries(unnamed), `${pointer}/${HIDDEN}`, null)]);
  return Object.fromEntries(shown.filter(([, inner]) => inner !== undefined));
}

function isShown(rule: Rule, value: unknown): boolean {
  return redact(rule, value, '', () => undefined) !== undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Numbers with fewer digits are counts, years or statuses. */
const SMALLEST_NUMBER = 100_000;

/** The name of a field, not of a person. */
const FIELD_NAME = /^[a-z][\w.-]*$/;

/** Adds to a list, since a payload may have more texts than a call can have arguments. */
function collectTexts(value: unknown, texts: string[]): void {
  if (typeof value === 'string') texts.push(value);
  if (typeof value === 'number' && Math.abs(value) >= SMALLEST_NUMBER) texts.push(String(value));
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value))
    for (const name of Object.keys(value)) if (!FIELD_NAME.test(name)) texts.push(name);
  for (const inner of Object.values(value)) collectTexts(inner, texts);
}
