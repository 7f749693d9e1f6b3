import * as z from 'zod';

import { answered, invalid, refused } from '../../platform/http/operation.ts';
import type { Example } from '../../platform/http/operation.ts';
import type { ProblemCode } from '../../platform/http/problem-codes.ts';
import type { Html, PageContext } from './layout.ts';
import type { Kind } from './operation-pages.ts';
import { operatorRoute } from './route.ts';
import type { Bus, OperatorRoute } from './route.ts';
import * as shape from './shapes.ts';
import { capitalize } from './words.ts';

interface List<View, Query> {
  readonly id: string;
  readonly query: z.ZodType<Query>;
  readonly answer: z.ZodType<View>;
  readonly example: {
    readonly name: string;
    readonly summary: string;
    readonly parameters: Example['parameters'];
  };
  /** The operation that reads one of them, and the name of its parameter and of the field with the id. */
  readonly links?: { readonly operationId: string; readonly id: string };
  readonly read: (bus: Bus, query: Query) => Promise<View>;
  readonly page: (view: View, context: PageContext) => Html;
}

/** Makes the route that lists the operations of one kind, newest first. */
export function listRoute<View, Query>(
  { several, list }: Kind,
  { id, query, answer, example, links, read, page }: List<View, Query>,
): OperatorRoute<View> {
  const { name, summary, parameters } = example;
  return operatorRoute({
    id,
    path: list,
    scope: 'event-bus:read',
    summary: `List ${several.toLowerCase()}, newest first`,
    query,
    answer,
    ...(links && {
      links: {
        read: {
          operationId: links.operationId,
          description: 'The newest.',
          parameters: { [links.id]: `$response.body#/items/0/${links.id}` },
        },
      },
    }),
    problems: ['validation_failed'],
    examples: {
      [name]: { summary, ...(parameters && { parameters }), answer: answered() },
      'a-wrong-cursor': {
        summary: 'With an invalid cursor',
        parameters: { cursor: 'yesterday' },
        answer: invalid('cursor', 'invalid_uuid', 'expected a cursor from an earlier answer, or none'),
      },
    },
    handle: async ({ query: asked, bus }) => await read(bus, asked),
    page,
  });
}

/** What the routes know of an operation that has begun. Its id is the path's parameter, such as `replayId`. */
export interface Begun<View> {
  readonly kind: Kind;
  readonly answer: z.ZodType<View>;
  /** @returns null for an unknown one. */
  readonly read: (bus: Bus, id: string) => Promise<View | null>;
  /** The name of the example of an unknown one. */
  readonly nobody?: string;
}

const NOBODY = '019a0000-0000-7000-8000-000000000009';

/** Makes the route that shows how far one is. */
export function showRoute<View>(
  begun: Begun<View>,
  summary: string,
  page: (view: View, context: PageContext) => Html,
): OperatorRoute<View> {
  const { name, id, unknown, declared } = commonOf(begun);
  return operatorRoute({
    ...declared,
    id: `read${name}`,
    scope: 'event-bus:read',
    summary,
    examples: unknown({}),
    handle: async ({ parameters, bus }) => await begun.read(bus, parameters[id]!),
    page,
  });
}

interface Stop {
  readonly summary: string;
  readonly description: string;
  readonly problems?: readonly ProblemCode[];
  /** An example. */
  readonly reason: string;
  /** Stops it. @throws Problem */
  readonly stop: (bus: Bus, id: string, by: string, reason: string) => Promise<unknown>;
}

/** Makes the route that stops one, for a reason. */
export function stopRoute<View>(
  begun: Begun<View>,
  { reason: example, stop, ...said }: Stop,
): OperatorRoute<View> {
  const { name, id, unknown, declared } = commonOf(begun);
  return operatorRoute({
    ...declared,
    ...said,
    id: `stop${name}`,
    path: `${declared.path}/stop`,
    scope: 'event-bus:replay',
    body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
    examples: {
      ...unknown({ json: { reason: example } }),
      'without-a-reason': {
        summary: 'Without a reason',
        parameters: { [id]: NOBODY },
        json: {},
        answer: invalid('reason', 'too_small', 'expected a reason; it is kept in the operator log'),
      },
    },
    async handle({ parameters, body, operator, bus }) {
      await stop(bus, parameters[id]!, operator.subject, body.reason);
      return await begun.read(bus, parameters[id]!);
    },
    redirectTo: (_, { parameters }) => begun.kind.pathOf(parameters[id]!),
  });
}

function commonOf<View>({ kind, answer, nobody = 'nobody' }: Begun<View>) {
  const { one, several, list, pathOf, listName = `the list of ${several.toLowerCase()}` } = kind;
  const id = `${one}Id`;
  const detail = `Unknown ${one}. Copy its id from ${listName}: ${list}.`;
  const parameters: Readonly<Record<string, z.ZodType<string>>> = { [id]: z.uuid() };
  const example = {
    summary: `An unknown ${one}`,
    parameters: { [id]: NOBODY },
    answer: refused('not_found', { detail }),
  };
  return {
    name: capitalize(one),
    id,
    declared: { path: `${pathOf('')}{${id}}`, parameters, answer, unknown: detail },
    unknown: (sent: { readonly json?: unknown }) => ({ [nobody]: { ...example, ...sent } }),
  };
}
