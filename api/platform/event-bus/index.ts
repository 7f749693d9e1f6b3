import { operators } from '../../../lib/operator-console.ts';
import { overviewRoutes } from '../../../lib/operators/overview/routes.ts';

export default operators(overviewRoutes);
