import { operators } from '../../../lib/console/console.ts';
import { eventViews } from '../../../lib/console/event/views.ts';
import { eventsViews } from '../../../lib/console/events/views.ts';
import { routesOf } from '../../../lib/console/kit/action.ts';

export default operators(routesOf([...eventsViews, ...eventViews]));
