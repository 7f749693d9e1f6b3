import * as z from 'zod';

export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** OpenAPI 3.1 uses the first, AsyncAPI 3.0 the second. */
export type Dialect = 'draft-2020-12' | 'draft-07';

/**
 * Writes a zod schema as JSON Schema, for values before defaults and transforms.
 *
 * It allows further fields, because readers must ignore fields that they don't know. A schema with an `id` in its `meta`
 * becomes a reference to `#/$defs/<id>`.
 *
 * @throws Error for a type that JSON lacks, such as a date.
 */
export function jsonSchemaOf(schema: z.ZodType, dialect: Dialect): JsonSchema {
  const { $schema: _, ...written } = z.toJSONSchema(schema, {
    io: 'input',
    target: dialect,
    override: ({ jsonSchema }) => tidy(jsonSchema),
  });
  return written;
}

/** Removes keywords that tell a reader nothing, and adds those that zod lacks. */
function tidy(schema: JsonSchema): void {
  if (schema.format === 'date-time') {
    // Zod's pattern has three hundred characters; the format says the same, but for UTC.
    schema.pattern = 'Z$';
  } else if (schema.format === 'date' || schema.format === 'uuid') {
    delete schema.pattern;
  } else if (schema.format === 'email') {
    // `email` allows ASCII only, but municipal domains have other letters.
    schema.format = 'idn-email';
  }
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if ('personal' in schema) {
    if (schema['personal']) schema['x-personal-data'] = true;
    delete schema['personal'];
  }
}
