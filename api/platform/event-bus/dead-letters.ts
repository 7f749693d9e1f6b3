import { operators } from '../../../lib/operator-console.ts';
import { deadLetterRoutes } from '../../../lib/operators/routes.ts';

export default operators(deadLetterRoutes);
