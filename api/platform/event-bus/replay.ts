import { operators } from '../../../lib/operator-console.ts';
import { replayRoutes } from '../../../lib/operators/replays/routes.ts';

export default operators(replayRoutes);
