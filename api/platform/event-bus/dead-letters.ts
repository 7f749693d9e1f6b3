import { operators } from '../../../lib/operator-console.ts';
import { deadLetterRoutes } from '../../../lib/operators/dead-letters/routes.ts';

export default operators(deadLetterRoutes);
