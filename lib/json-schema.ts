import * as z from 'zod';

export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** OpenAPI 3.1 speaks the first, AsyncAPI 3.0 the second. */
export type Dialect = 'draft-2020-12' | 'draft-07';

/**
 * Writes a zod schema as JSON Schema: what may be sent, before defaults and transforms.
 *
 * Nothing forbids more fields than it names, since readers must pass over those that they don't know. A schema with an
 * `id` in its `meta` comes as a reference to `#/$defs/<id>`.
 *
 * @throws Error for a type that JSON has not, such as a date.
 */
export function jsonSchemaOf(schema: z.ZodType, dialect: Dialect): JsonSchema {
  const { $schema: _, ...written } = z.toJSONSchema(schema, {
    io: 'input',
    target: dialect,
    override: ({ jsonSchema }) => tidy(jsonSchema),
  });
  return written;
}

/** Takes out what says nothing to a reader, and puts in what zod has no word for. */
function tidy(schema: JsonSchema): void {
  if (schema.format === 'date-time') {
    // Three hundred characters that say what the format says, and that it is in UTC.
    schema.pattern = 'Z$';
  } else if (schema.format === 'date' || schema.format === 'uuid') {
    delete schema.pattern;
  } else if (schema.format === 'email') {
    // `email` is ASCII alone, and municipal domains are not.
    schema.format = 'idn-email';
  }
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if ('personal' in schema) {
    if (schema['personal']) schema['x-personal-data'] = true;
    delete schema['personal'];
  }
}
