import { readFileSync } from 'node:fs';

import * as z from 'zod';

import { topics } from '../../../lib/bus/catalog/catalog.ts';
import * as values from '../../../lib/bus/catalog/values.ts';

/**
 * Writes above each topic of the catalog's declaration, and above each field of its payload, what editors show on hover:
 * its meaning and an example. The compiler declares the catalog as one inferred type, which has no comments.
 *
 * @param declaration the text of `catalog.d.ts`: one property a line.
 */
export function withComments(declaration: string): string {
  const rows = new Map<string, Row>(topics());
  const path: string[] = [];
  const lines = declaration.split('\n').flatMap((line) => {
    const [, indent = '', name = ''] = /^( +)'?([\w.]+)'?\??: /.exec(line) ?? [];
    if (line.trimStart().startsWith('}')) path.pop();
    const [, topic = name, ...fields] = [...path, name];
    const row = name === '' ? undefined : rows.get(topic);
    if (line.endsWith('{')) path.push(name);
    const comment = row === undefined ? null : commentOf(row, fields);
    return comment === null ? line : [...comment.map((said) => indent + said), line];
  });
  return lines.join('\n');
}

type Row = ReturnType<typeof topics>[number][1];

function commentOf(row: Row, fields: readonly string[]): readonly string[] | null {
  if (fields.length === 0) return comment([row.description, partiesOf(row)], row.example);
  const schemas = fields.reduce<readonly z.ZodType[]>(
    (outer, field) =>
      layersOf(outer.at(-1) instanceof z.ZodObject ? fieldOf(outer.at(-1)!, field) : undefined),
    layersOf(row.payload),
  );
  if (schemas.length === 0) return null;
  const isPersonal = schemas.some((schema) => z.globalRegistry.get(schema)?.['personal'] === true);
  const meaning = schemas.map((schema) => MEANINGS.get(schema)).find((one) => one !== undefined);
  return comment(
    [...(meaning === undefined ? [] : [meaning]), ...(isPersonal ? ['Personal data.'] : [])],
    fields.reduce<unknown>(exampleOf, row.example),
  );
}

function partiesOf({ producer, subscribers, version, orderedBy }: Row): string {
  const order = orderedBy === undefined ? 'in one order' : `in order for each \`${orderedBy}\``;
  return `Version ${version}. Emitted by ${producer}, received by ${subscribers.join(', ')}, ${order}.`;
}

function comment(sentences: readonly string[], example: unknown): readonly string[] {
  const shown = example === undefined ? [] : `@example ${JSON.stringify(example, null, 2)}`.split('\n');
  const lines = [...sentences, ...shown].map((line) => ` * ${line.replaceAll('*/', '* /')}`);
  return ['/**', ...lines, ' */'];
}

/** A schema and those inside it, down to the object, the text or the number whose fields or values it has. */
function layersOf(schema: z.ZodType | undefined): readonly z.ZodType[] {
  if (schema === undefined) return [];
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable)
    return [schema, ...layersOf(schema.unwrap() as z.ZodType)];
  return schema instanceof z.ZodArray ? [schema, ...layersOf(schema.element as z.ZodType)] : [schema];
}

function fieldOf(schema: z.ZodType, name: string): z.ZodType | undefined {
  return schema instanceof z.ZodObject ? (schema.shape as Record<string, z.ZodType>)[name] : undefined;
}

function exampleOf(outer: unknown, field: string): unknown {
  const one: unknown = Array.isArray(outer) ? outer[0] : outer;
  return typeof one === 'object' && one !== null ? Reflect.get(one, field) : undefined;
}

/** The comment of each value in `values.ts`. */
const MEANINGS = new Map<unknown, string>(
  Array.from(
    readFileSync(new URL('../../../lib/bus/catalog/values.ts', import.meta.url), 'utf8').matchAll(
      /\/\*\* ([^\n]*) \*\/\nexport const (\w+)/g,
    ),
    ([, said, name]) => [Reflect.get(values, name!) as unknown, said!],
  ),
);
