import { operators } from '../../../lib/console/console.ts';
import { deadLetterViews } from '../../../lib/console/dead-letters/views.ts';
import { routesOf } from '../../../lib/console/kit/action.ts';

export default operators(routesOf(deadLetterViews));
