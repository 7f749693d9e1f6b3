import * as z from 'zod';

import { catalog, isTopicName } from './catalog.ts';
import type { TopicName } from './catalog.ts';
import { knownSpans } from './known-texts.ts';
import { patternSpans } from './personal-patterns.ts';
import { readable } from './readable.ts';
import type { Span } from './readable.ts';

/** What may be told of a payload to someone who may not see personal data. */
export interface HiddenPayload {
  /** A copy with a placeholder, `[hidden]` or `[hidden: e-mail]`, for each value that is hidden. */
  readonly payload: unknown;
  readonly hidden: readonly HiddenValue[];
  /** Whether the payload fits its topic's schema. Of one that does not, only ids and instants are told. */
  readonly isValid: boolean;
}

interface HiddenValue {
  /** JSON Pointer (RFC 6901). */
  readonly pointer: string;
  /** What it is, where the schema says so. */
  readonly kind: string | null;
}

/** A JSON Schema, as far as it says where personal data is: a mark on a value, on its fields, or on its items. */
interface Marks {
  readonly personal?: boolean;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Marks>>;
  readonly additionalProperties?: boolean | Marks;
  readonly items?: Marks;
}

const marksByTopic = new Map<TopicName, Marks>();

/** Copies a payload without the fields that the topic's schema marks as personal data. */
export function withoutPersonalData(topic: TopicName, payload: object): Record<string, unknown> {
  return stripObject(marksOf(topic), payload);
}

/**
 * Hides the personal data of a payload: what the schema marks, and what the schema does not know.
 *
 * @param topic the event's; one that is not in this catalog has no schema that a payload could fit.
 */
export function hidePersonalData(topic: string, payload: unknown): HiddenPayload {
  const hidden: HiddenValue[] = [];
  if (!isTopicName(topic) || !catalog[topic].payload.safeParse(payload).success) {
    return { payload: hideUnknown(payload, '', '', hidden), hidden, isValid: false };
  }
  return { payload: hide(marksOf(topic), payload, '', hidden), hidden, isValid: true };
}

/** The texts in a payload that are personal data: what an error's message must not repeat. */
export function personalTexts(topic: string, payload: unknown): string[] {
  const { hidden } = hidePersonalData(topic, payload);
  return hidden.flatMap(({ pointer }) => textsIn(valueAt(payload, pointer)));
}

/**
 * Takes personal data out of a text that someone else wrote, such as an error's message, in whatever case, spacing and
 * encoding it stands there.
 *
 * @param known personal data that may stand there. What looks like an e-mail address, a national id, a telephone number,
 *   an account or a card is taken out whatever it is.
 */
export function maskPersonalData(text: string, known: readonly string[]): string {
  const message = readable(text);
  const spans = [...patternSpans(message.text), ...knownSpans(message.text, known)];
  const places = spans.map(({ start, end }) => ({
    start: message.starts[start] ?? 0,
    end: message.ends[end - 1] ?? text.length,
  }));
  return replaced(text, places);
}

const HIDDEN = '[hidden]';

function replaced(text: string, places: readonly Span[]): string {
  let masked = '';
  let from = 0;
  for (const { start, end } of places.toSorted((one, other) => one.start - other.start)) {
    if (start >= from) masked += text.slice(from, start) + HIDDEN;
    from = Math.max(from, end);
  }
  return masked + text.slice(from);
}

function marksOf(topic: TopicName): Marks {
  const known = marksByTopic.get(topic);
  if (known) return known;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a JSON Schema with our mark, which zod copies
  const marks = z.toJSONSchema(catalog[topic].payload, { io: 'input', unrepresentable: 'any' }) as Marks;
  marksByTopic.set(topic, marks);
  return marks;
}

function strip(marks: Marks | undefined, value: unknown): unknown {
  if (!marks || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => strip(marks.items, item));
  return stripObject(marks, value);
}

function stripObject(marks: Marks, value: object): Record<string, unknown> {
  const kept = Object.entries(value).filter(([name]) => !propertyOf(marks, name)?.personal);
  return Object.fromEntries(kept.map(([name, inner]) => [name, strip(propertyOf(marks, name), inner)]));
}

function hide(marks: Marks | undefined, value: unknown, pointer: string, hidden: HiddenValue[]): unknown {
  // What the schema does not name may be anything.
  if (!marks || marks.personal) return placeholder(pointer, kindOf(marks), hidden);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value))
    return value.map((item, index) => hide(marks.items, item, `${pointer}/${index}`, hidden));
  const others = typeof marks.additionalProperties === 'object' ? marks.additionalProperties : undefined;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      hide(propertyOf(marks, name) ?? others, inner, `${pointer}/${escaped(name)}`, hidden),
    ]),
  );
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

/** Ids of the platform's own kind, which are no national ids: those are eleven digits. */
const ID = /^(?!\d{11}$)[\w.:-]{1,64}$/;

function hideUnknown(value: unknown, name: string, pointer: string, hidden: HiddenValue[]): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) => hideUnknown(item, name, `${pointer}/${index}`, hidden));
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([inner, item]) => [
        inner,
        hideUnknown(item, inner, `${pointer}/${escaped(inner)}`, hidden),
      ]),
    );
  }
  const isTold =
    value === null ||
    (typeof value === 'string' && (INSTANT.test(value) || (/(^id|Id)$/.test(name) && ID.test(value))));
  return isTold ? value : placeholder(pointer, null, hidden);
}

function placeholder(pointer: string, kind: string | null, hidden: HiddenValue[]): string {
  hidden.push({ pointer, kind });
  return kind ? `[hidden: ${kind}]` : '[hidden]';
}

function kindOf(marks: Marks | undefined): string | null {
  return marks?.format === 'email' ? 'e-mail' : null;
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function valueAt(payload: unknown, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>(
      (value, step) => (typeof value === 'object' && value !== null ? Reflect.get(value, step) : undefined),
      payload,
    );
}

/** Fewer digits are a count, a year or a status. */
const SMALLEST_NUMBER = 100_000;

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return Math.abs(value) < SMALLEST_NUMBER ? [] : [String(value)];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** A payload may name a field as every object names something of its own, such as `constructor`. */
function propertyOf({ properties = {} }: Marks, name: string): Marks | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}
