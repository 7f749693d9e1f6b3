import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { accessRoutes } from '../../lib/console/access/routes.ts';
import { alertActions } from '../../lib/console/alerts/actions.ts';
import { backfillRoutes } from '../../lib/console/backfills/operations.ts';
import { catalogViews } from '../../lib/console/catalog/views.ts';
import { deadLetterActions } from '../../lib/console/dead-letters/actions.ts';
import { deadLetterViews } from '../../lib/console/dead-letters/views.ts';
import { dismissal } from '../../lib/console/dismissals/operations.ts';
import { doctorRoutes } from '../../lib/console/doctor/routes.ts';
import { operatorEndpoint } from '../../lib/console/endpoint.ts';
import { erasureRoutes } from '../../lib/console/erasures/operations.ts';
import { eventViews } from '../../lib/console/event/views.ts';
import { eventsViews } from '../../lib/console/events/views.ts';
import { incidentActions } from '../../lib/console/incidents/actions.ts';
import { incidentViews } from '../../lib/console/incidents/views.ts';
import type { Badges } from '../../lib/console/kit/navigation.ts';
import type { Bus, Route } from '../../lib/console/kit/route.ts';
import { laneActions } from '../../lib/console/lanes/actions.ts';
import { laneViews } from '../../lib/console/lanes/views.ts';
import { overviewRoutes } from '../../lib/console/overview/routes.ts';
import { logRoutes, replayRoutes } from '../../lib/console/replays/operations.ts';
import { setAsideActions } from '../../lib/console/set-aside/actions.ts';
import { setAsideViews } from '../../lib/console/set-aside/views.ts';
import { smokeActions } from '../../lib/console/smoke/actions.ts';
import { subscriberActions } from '../../lib/console/subscribers/actions.ts';
import { subscriberViews } from '../../lib/console/subscribers/views.ts';
import { tailRoutes } from '../../lib/console/tail/routes.ts';
import { routesOf } from '../../lib/console/kit/action.ts';
import { timerActions } from '../../lib/console/timers/actions.ts';
import { timerViews } from '../../lib/console/timers/views.ts';
import { webhookActions } from '../../lib/console/webhooks/actions.ts';
import { webhookViews } from '../../lib/console/webhooks/views.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { testSender } from '../../lib/edge/webhooks/send-test.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { AlertSettings, OperatorSettings } from '../../lib/platform/config.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { createVisitors } from '../../lib/platform/rate-limit/visitors.ts';

/** Every route of the operators' functions. */
export const operatorRoutes: readonly Route[] = [
  ...accessRoutes,
  ...overviewRoutes,
  ...routesOf(eventsViews),
  ...tailRoutes,
  ...routesOf([...deadLetterViews, ...deadLetterActions]),
  ...dismissal.routes,
  ...replayRoutes,
  ...routesOf([...laneViews, ...laneActions]),
  ...routesOf([...incidentViews, ...incidentActions]),
  ...routesOf([...subscriberViews, ...subscriberActions]),
  ...routesOf(eventViews),
  ...routesOf(catalogViews),
  ...logRoutes,
  ...backfillRoutes,
  ...erasureRoutes,
  ...doctorRoutes,
  ...routesOf([...webhookViews, ...webhookActions]),
  ...routesOf(alertActions),
  ...routesOf(smokeActions),
  ...routesOf([...setAsideViews, ...setAsideActions]),
  ...routesOf([...timerViews, ...timerActions]),
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
    actions: async () => await import('../../lib/console/actions.ts'),
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
