import { perVisitor } from '../../../lib/components/postbud.ts';
import { accessRoutes } from '../../../lib/console/access/routes.ts';
import { alertActions } from '../../../lib/console/alerts/actions.ts';
import { backfilling } from '../../../lib/console/backfills/operations.ts';
import { catalogViews } from '../../../lib/console/catalog/views.ts';
import { operators } from '../../../lib/console/console.ts';
import { dismissal } from '../../../lib/console/dismissals/operations.ts';
import { doctorViews } from '../../../lib/console/doctor/views.ts';
import { erasing } from '../../../lib/console/erasures/operations.ts';
import { incidentActions } from '../../../lib/console/incidents/actions.ts';
import { incidentViews } from '../../../lib/console/incidents/views.ts';
import { laneActions } from '../../../lib/console/lanes/actions.ts';
import { laneViews } from '../../../lib/console/lanes/views.ts';
import { replaying } from '../../../lib/console/replays/operations.ts';
import { logViews } from '../../../lib/console/replays/views.ts';
import { smokeActions } from '../../../lib/console/smoke/actions.ts';
import { subscriberActions } from '../../../lib/console/subscribers/actions.ts';
import { subscriberViews } from '../../../lib/console/subscribers/views.ts';
import { routesOf } from '../../../lib/console/kit/action.ts';
import { timerActions } from '../../../lib/console/timers/actions.ts';
import { timerViews } from '../../../lib/console/timers/views.ts';
import { webhookActions } from '../../../lib/console/webhooks/actions.ts';
import { webhookViews } from '../../../lib/console/webhooks/views.ts';

export default operators(
  [
    ...accessRoutes,
    ...dismissal.routes,
    ...routesOf([...laneViews, ...laneActions]),
    ...routesOf([...incidentViews, ...incidentActions]),
    ...routesOf([...subscriberViews, ...subscriberActions]),
    ...routesOf(catalogViews),
    ...routesOf(logViews),
    ...replaying.routes,
    ...backfilling.routes,
    ...erasing.routes,
    ...routesOf(doctorViews),
    ...routesOf([...webhookViews, ...webhookActions]),
    ...routesOf(alertActions),
    ...routesOf(smokeActions),
    ...routesOf([...timerViews, ...timerActions]),
  ],
  perVisitor,
);
