import { operators } from '../../../lib/console/console.ts';
import { deadLetterRoutes } from '../../../lib/console/dead-letters/routes.ts';

export default operators(deadLetterRoutes);
