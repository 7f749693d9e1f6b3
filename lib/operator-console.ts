import type { Endpoint } from './http/guarded-endpoint.ts';
import { operatorEndpoint } from './operators/access/endpoint.ts';
import type { OperatorEndpointDeclaration } from './operators/access/endpoint.ts';
import type { Route } from './operators/access/route.ts';
import { countBadges } from './operators/dead-letters/count.ts';
import { followers } from './operators/following/followers.ts';
import { endpointsOf } from './webhooks/endpoints.ts';
import { testSender } from './webhooks/send-test.ts';
import { config, database, refusals, relays, subscribers } from './postbud.ts';

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
    followers,
    ...(perVisitor && { perVisitor }),
    bus: {
      database,
      subscribers,
      refusals,
      relays,
      alerts: () => config().alerts,
      ownUrl: ({ origin }) => config().ownUrl ?? (config().deployed ? null : origin),
      testWebhooks: () => testSender(config().webhooks),
      webhooks: () => endpointsOf(config()),
    },
    routes,
  });
}
