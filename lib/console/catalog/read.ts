import * as z from 'zod';

import { topics } from '../../bus/catalog/catalog.ts';
import type { Topic } from '../../bus/catalog/topic.ts';
import * as shape from '../kit/shapes.ts';
import { subscriptionFields, subscriptionsIn } from '../kit/subscription.ts';
import type { Attachments } from '../kit/subscription.ts';

export const catalogView = z
  .object({
    topics: z.array(
      z
        .object({
          topic: shape.topic,
          producer: z.string(),
          subscribers: z.array(
            z.object({ subscriber: z.string(), attached: z.boolean(), ...subscriptionFields }),
          ),
          description: z.string(),
          version: z.int().positive(),
          listed: z
            .boolean()
            .meta({ description: 'Whether the platform owner defines the topic; we define the others.' }),
          orderedBy: shape.orderedBy,
          person: z.array(z.string()).meta({
            description:
              'The fields that name the person whose personal data the payload holds; an erasure finds its events by them.',
          }),
          fields: z.array(
            z.object({
              path: z.string().meta({ description: 'Dotted; `[]` stands for the items of a list.' }),
              type: z.string().meta({ description: 'The type in words, for example `list of string`.' }),
              isRequired: z.boolean(),
              isPersonal: z.boolean(),
            }),
          ),
          example: z.unknown(),
        })
        .meta({ id: 'CatalogTopic' }),
    ),
  })
  .meta({ id: 'Catalog', description: 'The topics of this release.' });
export type CatalogView = z.output<typeof catalogView>;
export type CatalogTopic = CatalogView['topics'][number];
export type CatalogField = CatalogTopic['fields'][number];

/** Describes every topic and its subscriptions, as they are attached in this process. */
export function describeCatalog(attachments: Attachments): CatalogView {
  const subscriptionOf = subscriptionsIn(attachments);
  const described = topics().map(([topic, row]) => ({
    topic,
    producer: row.producer,
    subscribers: row.subscribers.map((subscriber) => {
      const subscription = subscriptionOf(topic, subscriber);
      return { subscriber, attached: subscription.place !== 'unattached', ...subscription };
    }),
    description: row.description,
    version: row.version,
    listed: row.listed,
    orderedBy: row.orderedBy ?? null,
    person: [...(row.person ?? []), ...(row.otherPeople ?? [])],
    fields: fieldsOf(schemaOf(row)),
    example: row.example,
  }));
  return { topics: described };
}

/** The part of a JSON Schema that the page shows. */
interface Schema {
  /** A list if a field may be null and has no rule of its own. */
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: string | number | boolean;
  readonly anyOf?: readonly Schema[];
  readonly personal?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
}

function schemaOf(row: Topic): Schema {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a JSON Schema with our mark, which zod copies
  return z.toJSONSchema(row.payload, { io: 'input', unrepresentable: 'any' }) as Schema;
}

function fieldsOf({ properties = {}, required = [] }: Schema, above = ''): CatalogField[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const path = above + name;
    const field: CatalogField = {
      path,
      type: typeInWords(schema),
      isRequired: required.includes(name),
      isPersonal: schema.personal === true,
    };
    const inner = schema.items ?? schema;
    return [field, ...fieldsOf(inner, `${path}${schema.items ? '[]' : ''}.`)];
  });
}

function typeInWords({ type, format, enum: values, const: constant, anyOf, items }: Schema): string {
  if (values) return `one of ${values.join(', ')}`;
  if (constant !== undefined) return String(constant);
  if (anyOf) return anyOf.map(typeInWords).join(' or ');
  if (items) return `list of ${typeInWords(items)}`;
  if (format === 'date-time') return 'instant';
  return format ?? [type ?? 'anything'].flat().join(' or ');
}
