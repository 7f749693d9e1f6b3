import { readConfig } from '../../lib/config.ts';
import type { AlertSettings, OperatorSettings } from '../../lib/config.ts';
import { endpointsOf } from '../../lib/webhooks/endpoints.ts';
import type { Database } from '../../lib/db/connect.ts';
import type { Endpoint } from '../../lib/http/guarded-endpoint.ts';
import { operatorEndpoint } from '../../lib/operators/access/endpoint.ts';
import { alertRoutes } from '../../lib/operators/alerts/routes.ts';
import { accessRoutes } from '../../lib/operators/access/routes.ts';
import type { Bus, Route } from '../../lib/operators/access/route.ts';
import { backfillRoutes } from '../../lib/operators/backfills/routes.ts';
import { erasureRoutes } from '../../lib/operators/erasures/routes.ts';
import { catalogRoutes } from '../../lib/operators/catalog/routes.ts';
import { deadLetterRoutes } from '../../lib/operators/dead-letters/routes.ts';
import { doctorRoutes } from '../../lib/operators/doctor/routes.ts';
import { eventRoutes } from '../../lib/operators/event/routes.ts';
import { eventsRoutes } from '../../lib/operators/events/routes.ts';
import { followers } from '../../lib/operators/following/followers.ts';
import { incidentRoutes } from '../../lib/operators/incidents/routes.ts';
import { laneRoutes } from '../../lib/operators/lanes/routes.ts';
import { setAsideRoutes } from '../../lib/operators/set-aside/routes.ts';
import { smokeRoutes } from '../../lib/operators/smoke/routes.ts';
import { subscriberRoutes } from '../../lib/operators/subscribers/routes.ts';
import type { Badges } from '../../lib/operators/page/layout.ts';
import { overviewRoutes } from '../../lib/operators/overview/routes.ts';
import { logRoutes, replayRoutes } from '../../lib/operators/replays/routes.ts';
import { webhookRoutes } from '../../lib/operators/webhooks/routes.ts';
import { MemoryLimiter } from '../../lib/rate-limit/memory.ts';
import { testSender } from '../../lib/webhooks/send-test.ts';
import { createVisitors } from '../../lib/rate-limit/visitors.ts';
import type { AttachedSubscriber } from '../../lib/subscribers/subscriber.ts';

/** Every route of the operators' functions. */
export const operatorRoutes: readonly Route[] = [
  ...accessRoutes,
  ...overviewRoutes,
  ...eventsRoutes,
  ...deadLetterRoutes,
  ...replayRoutes,
  ...laneRoutes,
  ...incidentRoutes,
  ...subscriberRoutes,
  ...eventRoutes,
  ...catalogRoutes,
  ...logRoutes,
  ...backfillRoutes,
  ...erasureRoutes,
  ...doctorRoutes,
  ...webhookRoutes,
  ...alertRoutes,
  ...smokeRoutes,
  ...setAsideRoutes,
];

interface OperatorFunctionOptions {
  readonly settings: OperatorSettings | (() => OperatorSettings);
  readonly db?: () => Database;
  readonly subscribers?: () => readonly AttachedSubscriber[];
  readonly refusals?: Bus['refusals'];
  readonly alerts?: () => AlertSettings;
  readonly ownUrl?: Bus['ownUrl'];
  readonly relays?: Bus['relays'];
  readonly environment?: string;
  readonly badges?: () => Promise<Badges | null>;
  readonly limiter?: MemoryLimiter;
  readonly routes?: readonly Route[];
}

/** Makes one function that answers all the operators' routes, or those that are given. */
export function operatorFunction({
  settings,
  db = () => {
    throw new Error('these routes use no database');
  },
  subscribers = () => [],
  refusals = () => [],
  alerts = () => readConfig().alerts,
  ownUrl = () => null,
  relays = () => true,
  environment = 'Local',
  badges = async () => null,
  limiter = new MemoryLimiter(),
  routes = operatorRoutes,
}: OperatorFunctionOptions): Endpoint {
  const visitors = createVisitors({ isBehindPlatform: true });
  return operatorEndpoint({
    settings: typeof settings === 'function' ? settings : () => settings,
    environment: () => environment,
    badges,
    followers,
    perVisitor: (limits) => ({ limiter, visitors, limits }),
    bus: {
      database: async () => db(),
      subscribers,
      refusals,
      relays,
      alerts,
      ownUrl,
      testWebhooks: () => testSender(readConfig().webhooks),
      webhooks: () => endpointsOf(readConfig()),
    },
    routes,
  });
}
