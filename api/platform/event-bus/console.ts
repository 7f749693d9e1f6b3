import { perVisitor } from '../../../lib/components/postbud.ts';
import { accessRoutes } from '../../../lib/console/access/routes.ts';
import { alertRoutes } from '../../../lib/console/alerts/routes.ts';
import { backfillRoutes } from '../../../lib/console/backfills/operations.ts';
import { catalogRoutes } from '../../../lib/console/catalog/routes.ts';
import { operators } from '../../../lib/console/console.ts';
import { dismissal } from '../../../lib/console/dismissals/operations.ts';
import { doctorRoutes } from '../../../lib/console/doctor/routes.ts';
import { erasureRoutes } from '../../../lib/console/erasures/operations.ts';
import { incidentRoutes } from '../../../lib/console/incidents/routes.ts';
import { laneRoutes } from '../../../lib/console/lanes/routes.ts';
import { logRoutes } from '../../../lib/console/replays/operations.ts';
import { setAsideActions } from '../../../lib/console/set-aside/actions.ts';
import { setAsideViews } from '../../../lib/console/set-aside/views.ts';
import { smokeRoutes } from '../../../lib/console/smoke/routes.ts';
import { subscriberRoutes } from '../../../lib/console/subscribers/routes.ts';
import { tailRoutes } from '../../../lib/console/tail/routes.ts';
import { routesOf } from '../../../lib/console/kit/action.ts';
import { timerActions } from '../../../lib/console/timers/actions.ts';
import { timerViews } from '../../../lib/console/timers/views.ts';
import { webhookActions } from '../../../lib/console/webhooks/actions.ts';
import { webhookViews } from '../../../lib/console/webhooks/views.ts';

export default operators(
  [
    ...accessRoutes,
    ...dismissal.routes,
    ...laneRoutes,
    ...incidentRoutes,
    ...subscriberRoutes,
    ...catalogRoutes,
    ...logRoutes,
    ...backfillRoutes,
    ...erasureRoutes,
    ...doctorRoutes,
    ...routesOf([...webhookViews, ...webhookActions]),
    ...alertRoutes,
    ...smokeRoutes,
    ...routesOf([...setAsideViews, ...setAsideActions]),
    ...tailRoutes,
    ...routesOf([...timerViews, ...timerActions]),
  ],
  perVisitor,
);
