import { database, refusals, subscribers } from '../components/database.ts';
import { config, relays } from '../components/postbud.ts';
import { endpointsOf } from '../edge/webhooks/endpoints.ts';
import type { Endpoint } from '../platform/http/guarded-endpoint.ts';
import { countBadges } from './dead-letters/count.ts';
import { operatorEndpoint } from './endpoint.ts';
import type { OperatorEndpointDeclaration } from './endpoint.ts';
import type { Route } from './kit/route.ts';

/**
 * Makes one of the operators' functions. All of them accept the same tokens and sessions.
 *
 * @param perVisitor for routes that limit how often one visitor calls; it adds Redis's client to the bundle.
 */
export function operators(
  routes: readonly Route[],
  perVisitor?: OperatorEndpointDeclaration['perVisitor'],
): Endpoint {
  return operatorEndpoint({
    settings: () => config().operators,
    environment: () => config().environment,
    badges: async () => await countBadges(await database()),
    // Only pages need them, so the answer to a program does not build them.
    forms: async () => (await import('./actions.ts')).forms,
    ...(perVisitor && { perVisitor }),
    bus: {
      database,
      subscribers,
      refusals,
      relays,
      alerts: () => config().alerts,
      webhooks: () => endpointsOf(config()),
    },
    routes,
  });
}
