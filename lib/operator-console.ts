import type { Endpoint } from './http/endpoint.ts';
import { countDeadLetters } from './operators/dead-letters/read.ts';
import { operatorEndpoint } from './operators/access/endpoint.ts';
import type { Route } from './operators/access/endpoint.ts';
import type { Bus } from './operators/access/asked.ts';
import { sessionRoutes, signInLimits } from './operators/access/routes.ts';
import { config, database, kick, perVisitor, relays, subscribers } from './postbud.ts';

const bus: Bus = { database, subscribers, relays, kick };

/** Makes a function for operators, who are let in by the same keys everywhere. */
export function operators(routesOf: (bus: Bus) => readonly Route[]): Endpoint {
  return operatorEndpoint({
    settings: () => config().operators,
    environment: () => config().environment,
    deadLetters: async () => await countDeadLetters(await database()),
    routes: routesOf(bus),
  });
}

/** Where operators sign in and out. */
export const session = (): readonly Route[] =>
  sessionRoutes({ settings: () => config().operators, visitorLimits: () => perVisitor(signInLimits) });
