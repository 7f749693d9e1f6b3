import { operators } from '../../../lib/console/console.ts';
import { replayRoutes } from '../../../lib/console/replays/operations.ts';

export default operators(replayRoutes);
