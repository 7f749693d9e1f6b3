import { operators } from '../../../lib/console/console.ts';
import { replaying } from '../../../lib/console/replays/operations.ts';

export default operators(replaying.routes);
