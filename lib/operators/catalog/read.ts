import * as z from 'zod';

import { catalog } from '../../catalog/catalog.ts';
import type { Topic } from '../../catalog/topic.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';

/** The catalog as a page and as JSON. */
export interface CatalogView {
  readonly topics: readonly CatalogTopic[];
}

export interface CatalogTopic {
  readonly topic: string;
  readonly producer: string;
  readonly subscribers: readonly { readonly subscriber: string; readonly attached: boolean }[];
  readonly description: string;
  readonly version: number;
  /** Fixed by the platform's owner; the others are ours. */
  readonly listed: boolean;
  /** Null where the lane is the whole topic. */
  readonly orderedBy: string | null;
  readonly fields: readonly CatalogField[];
  readonly example: unknown;
}

export interface CatalogField {
  /** Dotted; `[]` stands for the items of a list. */
  readonly path: string;
  /** In words, for example `string`, `integer`, `one of cardpayments, walletpayments`. */
  readonly type: string;
  readonly isRequired: boolean;
  readonly isPersonal: boolean;
}

/** Describes every topic, with who is attached in this process. */
export function describeCatalog(attached: readonly AttachedSubscriber[]): CatalogView {
  const handled = new Set(
    attached.flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
  const topics = Object.entries<Topic>(catalog).map(([topic, row]) => ({
    topic,
    producer: row.producer,
    subscribers: row.subscribers.map((subscriber) => ({
      subscriber,
      attached: handled.has(`${topic} ${subscriber}`),
    })),
    description: row.description,
    version: row.version,
    listed: row.listed,
    orderedBy: row.orderedBy ?? null,
    fields: fieldsOf(schemaOf(row)),
    example: row.example,
  }));
  return { topics };
}

/** The part of a JSON Schema that the page tells of. */
interface Schema {
  /** Several where a field may be null and has no rule of its own. */
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
