import { operators } from '../../../lib/console/console.ts';
import { routesOf } from '../../../lib/console/kit/action.ts';
import { overviewViews } from '../../../lib/console/overview/views.ts';

export default operators(routesOf(overviewViews));
