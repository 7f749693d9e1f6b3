import { operators } from '../../../lib/operator-console.ts';
import { eventRoutes } from '../../../lib/operators/events/routes.ts';

export default operators(eventRoutes);
