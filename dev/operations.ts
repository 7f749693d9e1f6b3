import { existsSync, readdirSync } from 'node:fs';

import type { Operation } from '../lib/platform/http/operation.ts';

const LIB = new URL('../lib/', import.meta.url);

/**
 * Finds the operations of all endpoints: what each `route.ts` in `lib/` exports, the lists of each `routes.ts`, and where a folder
 * has none, the routes of its views and of its actions.
 *
 * @returns them in the order of their files; a list in its own order.
 */
export async function allOperations(): Promise<readonly Operation[]> {
  const files = readdirSync(LIB, { recursive: true, encoding: 'utf8' })
    .filter((file) => /(?:^|\/)(?:routes?|views)\.ts$|\/[\w-]+\/actions\.ts$/.test(file) && !isInRoutes(file))
    .toSorted((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
  const modules = await Promise.all(
    files.map(async (file): Promise<Record<string, unknown>> => await import(new URL(file, LIB).href)),
  );
  return modules.flatMap((exported) => {
    // A module's names come in an order that depends on what loads it.
    const values = Object.keys(exported)
      .toSorted()
      .map((name) => exported[name]);
    const lists = values.filter((value) => Array.isArray(value));
    return (lists.length > 0 ? lists.flat() : values).map(operationIn).filter((one) => one !== null);
  });
}

/** What operators do comes after what they look at. */
const placeOf = (file: string) => file.replace(/actions\.ts$/, 'z');

/** Whether a file has actions that the `routes.ts` beside it lists. */
function isInRoutes(file: string): boolean {
  const routes = file.replace(/(?<=^|\/)actions\.ts$/, 'routes.ts');
  return routes !== file && existsSync(new URL(routes, LIB));
}

/** An operation, or that of a view or of an action. */
function operationIn(value: unknown): Operation | null {
  if (typeof value !== 'object' || value === null) return null;
  const route: object =
    'route' in value && typeof value.route === 'object' && value.route ? value.route : value;
  return isOperation(route) ? route : null;
}

function isOperation(value: object): value is Operation {
  return 'path' in value && 'examples' in value;
}
