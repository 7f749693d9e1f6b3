import { operators } from '../../../lib/operator-console.ts';
import { eventRoutes } from '../../../lib/operators/event/routes.ts';
import { eventsRoutes } from '../../../lib/operators/events/routes.ts';

export default operators([...eventsRoutes, ...eventRoutes]);
