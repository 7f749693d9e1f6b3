import { operators } from '../../../lib/operator-console.ts';
import { accessRoutes } from '../../../lib/operators/access/routes.ts';
import { alertRoutes } from '../../../lib/operators/alerts/routes.ts';
import { backfillRoutes } from '../../../lib/operators/backfills/routes.ts';
import { catalogRoutes } from '../../../lib/operators/catalog/routes.ts';
import { doctorRoutes } from '../../../lib/operators/doctor/routes.ts';
import { erasureRoutes } from '../../../lib/operators/erasures/routes.ts';
import { incidentRoutes } from '../../../lib/operators/incidents/routes.ts';
import { laneRoutes } from '../../../lib/operators/lanes/routes.ts';
import { logRoutes } from '../../../lib/operators/replays/routes.ts';
import { setAsideRoutes } from '../../../lib/operators/set-aside/routes.ts';
import { smokeRoutes } from '../../../lib/operators/smoke/routes.ts';
import { subscriberRoutes } from '../../../lib/operators/subscribers/routes.ts';
import { webhookRoutes } from '../../../lib/operators/webhooks/routes.ts';
import { perVisitor } from '../../../lib/postbud.ts';

export default operators(
  [
    ...accessRoutes,
    ...laneRoutes,
    ...incidentRoutes,
    ...subscriberRoutes,
    ...catalogRoutes,
    ...logRoutes,
    ...backfillRoutes,
    ...erasureRoutes,
    ...doctorRoutes,
    ...webhookRoutes,
    ...alertRoutes,
    ...smokeRoutes,
    ...setAsideRoutes,
  ],
  perVisitor,
);
