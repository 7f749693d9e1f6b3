import { isDeepStrictEqual } from 'node:util';

import * as z from 'zod';

import { jsonSchemaOf } from '../../json-schema.ts';
import type { JsonSchema } from '../../json-schema.ts';

/** Writes schemas for OpenAPI, and keeps those that have a name for its components. */
export class SchemaWriter {
  readonly #named = new Map<string, JsonSchema>();

  /**
   * Writes a schema, or a reference to it if it has a name.
   *
   * @throws Error when two schemas have the same name.
   */
  write(schema: z.ZodType): JsonSchema {
    // Within another one, since the outermost is never written as a reference.
    const { properties = {}, $defs = {} } = jsonSchemaOf(z.object({ schema }), 'draft-2020-12');
    for (const [name, written] of Object.entries($defs)) this.#keep(name, moved(written));
    return moved(properties['schema']);
  }

  /** The schemas that have a name, in its order. */
  components(): Readonly<Record<string, JsonSchema>> {
    return Object.fromEntries([...this.#named].toSorted(([one], [other]) => one.localeCompare(other)));
  }

  #keep(name: string, schema: JsonSchema): void {
    const known = this.#named.get(name);
    if (known && !isDeepStrictEqual(known, schema)) throw new Error(`two schemas are called ${name}`);
    this.#named.set(name, schema);
  }
}

/** The same with its references to where OpenAPI has its schemas. */
function moved(schema: unknown): JsonSchema {
  const text = JSON.stringify(schema).replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/');
  return z.custom<JsonSchema>().parse(JSON.parse(text));
}
