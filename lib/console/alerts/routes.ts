import { routesOf } from '../kit/action.ts';
import { alertActions } from './actions.ts';

export const alertRoutes = routesOf(alertActions);
