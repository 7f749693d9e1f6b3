import { readdirSync } from 'node:fs';

import type { Operation } from '../lib/platform/http/operation.ts';

const LIB = new URL('../lib/', import.meta.url);

/**
 * Finds the operations of all endpoints: what each `route.ts` in `lib/` exports, the lists of each `routes.ts`, and the routes of the
 * lists of each `views.ts` and each `actions.ts`, and of the operators' operations of each `operations.ts`.
 *
 * @returns them in the order of their folders, views before actions; a list in its own order.
 */
export async function allOperations(): Promise<readonly Operation[]> {
  const files = readdirSync(LIB, { recursive: true, encoding: 'utf8' })
    .filter((file) => /(^|\/)(?:routes?|views|actions|operations)\.ts$/.test(file))
    // The actions of a folder come behind its views.
    .toSorted((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1));
  const modules = await Promise.all(
    files.map(async (file): Promise<Record<string, unknown>> => await import(new URL(file, LIB).href)),
  );
  const found = modules.flatMap((exported) => {
    // A module's names come in an order that depends on what loads it.
    const values = Object.keys(exported)
      .toSorted()
      .map((name) => exported[name]);
    const lists = values.filter((value) => Array.isArray(value));
    return (lists.length > 0 ? lists.flat() : values).flatMap(operationsIn);
  });
  return [...new Map(found.map((one) => [one.id, one])).values()];
}

const placeOf = (file: string) => file.replace(/actions\.ts$/, 'views.ts beside');

/** An operation, that of a view or of an action, or those of what operators preview and begin. */
function operationsIn(value: unknown): readonly Operation[] {
  if (typeof value !== 'object' || value === null) return [];
  if ('routes' in value && Array.isArray(value.routes)) return value.routes.flatMap(operationsIn);
  const route: object =
    'route' in value && typeof value.route === 'object' && value.route ? value.route : value;
  return isOperation(route) ? [route] : [];
}

function isOperation(value: object): value is Operation {
  return 'path' in value && 'answers' in value;
}
