import { readdirSync } from 'node:fs';

import type { Operation } from '../lib/platform/http/operation.ts';

/**
 * Finds the operations of all endpoints: what each `route.ts` in `lib/` exports, and the lists of each `routes.ts`.
 *
 * @returns them in the order of their files; a list in its own order.
 */
export async function allOperations(): Promise<readonly Operation[]> {
  const root = new URL('../lib/', import.meta.url);
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => /(^|\/)routes?\.ts$/.test(file))
    .toSorted();
  const modules = await Promise.all(
    files.map(async (file): Promise<Record<string, unknown>> => await import(new URL(file, root).href)),
  );
  return modules.flatMap((exported) => {
    // A module's names come in an order that depends on what loads it.
    const values = Object.keys(exported)
      .toSorted()
      .map((name) => exported[name]);
    const lists = values.filter((value) => Array.isArray(value));
    return (lists.length > 0 ? lists.flat() : values).filter(isOperation);
  });
}

function isOperation(value: unknown): value is Operation {
  return typeof value === 'object' && value !== null && 'path' in value && 'examples' in value;
}
