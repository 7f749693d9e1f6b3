import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { accessRoutes } from '../../lib/console/access/routes.ts';
import { alertActions } from '../../lib/console/alerts/actions.ts';
import { backfilling } from '../../lib/console/backfills/operations.ts';
import { catalogViews } from '../../lib/console/catalog/views.ts';
import { deadLetterViews } from '../../lib/console/dead-letters/views.ts';
import { dismissal } from '../../lib/console/dismissals/operations.ts';
import { doctorViews } from '../../lib/console/doctor/views.ts';
import { operatorEndpoint } from '../../lib/console/endpoint.ts';
import { erasing } from '../../lib/console/erasures/operations.ts';
import { eventViews } from '../../lib/console/event/views.ts';
import { eventsViews } from '../../lib/console/events/views.ts';
import { incidentActions } from '../../lib/console/incidents/actions.ts';
import { incidentViews } from '../../lib/console/incidents/views.ts';
import type { Badges } from '../../lib/console/kit/layout.ts';
import type { Bus, Route } from '../../lib/console/kit/route.ts';
import { laneActions } from '../../lib/console/lanes/actions.ts';
import { laneViews } from '../../lib/console/lanes/views.ts';
import { overviewViews } from '../../lib/console/overview/views.ts';
import { replaying } from '../../lib/console/replays/operations.ts';
import { logViews } from '../../lib/console/replays/views.ts';
import { smokeActions } from '../../lib/console/smoke/actions.ts';
import { subscriberActions } from '../../lib/console/subscribers/actions.ts';
import { subscriberViews } from '../../lib/console/subscribers/views.ts';
import { routesOf } from '../../lib/console/kit/action.ts';
import { timerActions } from '../../lib/console/timers/actions.ts';
import { timerViews } from '../../lib/console/timers/views.ts';
import { webhookActions } from '../../lib/console/webhooks/actions.ts';
import { webhookViews } from '../../lib/console/webhooks/views.ts';
import { endpointsOf } from '../../lib/edge/webhooks/endpoints.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { AlertSettings, OperatorSettings } from '../../lib/platform/config.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { MemoryLimiter } from '../../lib/platform/rate-limit/memory.ts';
import { createVisitors } from '../../lib/platform/rate-limit/visitors.ts';

/** Every route of the operators' functions. */
export const operatorRoutes: readonly Route[] = [
  ...accessRoutes,
  ...routesOf(overviewViews),
  ...routesOf(eventsViews),
  ...routesOf(deadLetterViews),
  ...dismissal.routes,
  ...replaying.routes,
  ...routesOf([...laneViews, ...laneActions]),
  ...routesOf([...incidentViews, ...incidentActions]),
  ...routesOf([...subscriberViews, ...subscriberActions]),
  ...routesOf(eventViews),
  ...routesOf(catalogViews),
  ...routesOf(logViews),
  ...backfilling.routes,
  ...erasing.routes,
  ...routesOf(doctorViews),
  ...routesOf([...webhookViews, ...webhookActions]),
  ...routesOf(alertActions),
  ...routesOf(smokeActions),
  ...routesOf([...timerViews, ...timerActions]),
];

interface OperatorFunctionOptions {
  readonly settings: OperatorSettings | (() => OperatorSettings);
  readonly db?: () => Database;
  readonly subscribers?: () => readonly AttachedSubscriber[];
  readonly refusals?: Bus['refusals'];
  readonly alerts?: () => AlertSettings;
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
    forms: async () => (await import('../../lib/console/actions.ts')).forms,
    perVisitor: (limits) => ({ limiter, visitors, limits }),
    bus: {
      database: async () => db(),
      subscribers,
      refusals,
      relays,
      alerts,
      webhooks: () => endpointsOf(readConfig()),
    },
    routes,
  });
}
