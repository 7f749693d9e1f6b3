import { operators } from '../../../lib/console/console.ts';
import { overviewRoutes } from '../../../lib/console/overview/routes.ts';

export default operators(overviewRoutes);
