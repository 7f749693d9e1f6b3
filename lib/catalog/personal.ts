import { z } from 'zod';

import { catalog } from './catalog.ts';
import type { TopicName } from './catalog.ts';

/** Where a payload holds personal data: a mark on the value itself, on its fields, or on its items. */
interface Marks {
  readonly personal?: boolean;
  readonly properties?: Readonly<Record<string, Marks>>;
  readonly items?: Marks;
}

const marksByTopic = new Map<TopicName, Marks>();

/** Copies a payload without the fields that the topic's schema marks as personal data. */
export function withoutPersonalData(topic: TopicName, payload: object): Record<string, unknown> {
  let marks = marksByTopic.get(topic);
  if (!marks) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a JSON Schema with our mark, which zod copies
    marks = z.toJSONSchema(catalog[topic].payload, { io: 'input', unrepresentable: 'any' }) as Marks;
    marksByTopic.set(topic, marks);
  }
  return stripObject(marks, payload);
}

function strip(marks: Marks | undefined, value: unknown): unknown {
  if (!marks || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => strip(marks.items, item));
  return stripObject(marks, value);
}

function stripObject(marks: Marks, value: object): Record<string, unknown> {
  const kept = Object.entries(value).filter(([name]) => !marks.properties?.[name]?.personal);
  return Object.fromEntries(kept.map(([name, inner]) => [name, strip(marks.properties?.[name], inner)]));
}
