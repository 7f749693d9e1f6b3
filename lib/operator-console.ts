import type { Endpoint } from './http/guarded-endpoint.ts';
import { operatorEndpoint } from './operators/access/endpoint.ts';
import type { Route } from './operators/access/route.ts';
import { countDeadLetters } from './operators/dead-letters/read.ts';
import { config, database, kick, perVisitor, relays, subscribers } from './postbud.ts';

/** Makes one of the operators' functions. All of them accept the same tokens and sessions. */
export function operators(...routes: readonly (readonly Route[])[]): Endpoint {
  return operatorEndpoint({
    settings: () => config().operators,
    environment: () => config().environment,
    deadLetters: async () => await countDeadLetters(await database()),
    perVisitor,
    bus: { database, subscribers, relays, kick },
    routes: routes.flat(),
  });
}
