import { isDeepStrictEqual } from 'node:util';

import * as z from 'zod';

import { jsonSchemaOf } from '../../json-schema.ts';
import type { JsonSchema } from '../../json-schema.ts';

/** Writes schemas for OpenAPI, and collects the named ones for its components. */
export class SchemaWriter {
  readonly #named = new Map<string, JsonSchema>();

  /**
   * Writes a schema; a named one as a reference.
   *
   * @throws Error when two schemas have the same name.
   */
  write(schema: z.ZodType): JsonSchema {
    // Wrapped in another schema, since the outermost is never written as a reference.
    const { properties = {}, $defs = {} } = jsonSchemaOf(z.object({ schema }), 'draft-2020-12');
    for (const [name, written] of Object.entries($defs)) this.#keep(name, toComponents(written));
    return toComponents(properties['schema']);
  }

  /** The named schemas, sorted by name. */
  components(): Readonly<Record<string, JsonSchema>> {
    return Object.fromEntries([...this.#named].toSorted(([one], [other]) => one.localeCompare(other)));
  }

  #keep(name: string, schema: JsonSchema): void {
    const known = this.#named.get(name);
    if (known && !isDeepStrictEqual(known, schema))
      throw new Error(`two different schemas have the name ${name}`);
    this.#named.set(name, schema);
  }
}

/** Points a schema's references to OpenAPI's components. */
function toComponents(schema: unknown): JsonSchema {
  const text = JSON.stringify(schema).replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/');
  return z.custom<JsonSchema>().parse(JSON.parse(text));
}
