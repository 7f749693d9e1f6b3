import { operators } from '../../../lib/console/console.ts';
import { eventRoutes } from '../../../lib/console/event/routes.ts';
import { eventsRoutes } from '../../../lib/console/events/routes.ts';

export default operators([...eventsRoutes, ...eventRoutes]);
