import { operators } from '../../../lib/console/console.ts';
import { replayRoutes } from '../../../lib/console/replays/routes.ts';

export default operators(replayRoutes);
