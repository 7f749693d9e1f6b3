import { operators, session } from '../../../lib/operator-console.ts';
import { consoleRoutes } from '../../../lib/operators/routes.ts';

export default operators((bus) => [...session(), ...consoleRoutes(bus)]);
