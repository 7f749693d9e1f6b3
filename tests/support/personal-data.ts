import { z } from 'zod';

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';

/** A JSON Schema as far as it is walked here. */
interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly personal?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

export const TOPICS = topics().map(([topic]) => topic);

/** The topics with a field that their schema marks as personal. */
export const PERSONAL_TOPICS = TOPICS.filter((topic) =>
  JSON.stringify(schemaOf(topic)).includes('"personal":true'),
);

/**
 * Makes a payload of a topic: the example, with personal data in every field that the schema marks, also in those that
 * the example leaves out.
 *
 * @param dataOf makes a field's, by its schema.
 */
export function withPersonalData(topic: TopicName, dataOf: (field: Schema) => unknown): object {
  const fill = (schema: Schema, example: unknown): unknown => {
    if (schema.personal) return dataOf(schema);
    if (schema.items) {
      const items = Array.isArray(example) && example.length > 0 ? example : [undefined];
      return items.map((item) => fill(schema.items!, item));
    }
    if (!schema.properties) return example;
    const known = typeof example === 'object' && example !== null ? example : {};
    const fields = Object.entries(schema.properties).map(([name, inner]) => [
      name,
      fill(inner, Reflect.get(known, name)),
    ]);
    return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  };
  return fill(schemaOf(topic), catalog[topic].example) as object;
}

/** In each personal field of `canariesOf`. */
export const CANARY = /kanarifugl/i;

/** Makes a payload whose personal data is found wherever it comes to light. */
export const canariesOf = (topic: TopicName) =>
  withPersonalData(topic, ({ type, format }) => {
    if (type === 'object') return { deep: [{ er: 'Kanarifugl i buret' }] };
    return format === 'email' ? 'kanarifugl@bærum.example.no' : 'Kanarifugl Æsdal';
  });

function schemaOf(topic: TopicName): Schema {
  return z.toJSONSchema(catalog[topic].payload, { io: 'input', unrepresentable: 'any' }) as Schema;
}
