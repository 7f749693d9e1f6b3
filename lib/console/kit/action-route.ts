import type * as z from 'zod';

import { invalid } from '../../platform/http/operation.ts';
import { OPERATOR_ACTIONS } from './action.ts';
import type { Action, ActionName } from './action.ts';
import { followedPath } from './following.ts';
import { nextPath } from './next-path.ts';
import { operatorRoute } from './route.ts';
import type { Checked, OperatorRoute, RouteDeclaration, Shape } from './route.ts';

type Examples = RouteDeclaration<unknown, Shape, undefined, unknown>['examples'];
type ActedOn<Name extends ActionName> = z.input<(typeof OPERATOR_ACTIONS)[Name]['actedOn']>;

interface ActionDeclaration<Name extends ActionName, View, Parameters extends Shape, Body> extends Omit<
  RouteDeclaration<View, Parameters, undefined, Body>,
  'path' | 'scope' | 'query' | 'redirectTo'
> {
  readonly body: z.ZodType<Body>;
  /** What it acted on, for the page that follows it. */
  readonly actedOn: (view: View, visit: Checked<Parameters, undefined, Body>) => ActedOn<Name>;
  /** The page that a form leads to which names none. By default the overview. */
  readonly home?: (view: View, visit: Checked<Parameters, undefined, Body>) => string;
}

/** Makes the route of one of the operators' actions. A form leads back to the page that it came from, which follows the action. */
export function actionRoute<Name extends ActionName, View, Parameters extends Shape, Body extends object>(
  name: Name,
  declaration: ActionDeclaration<Name, View, Parameters, Body>,
): OperatorRoute<View> {
  const { path, asks }: Action = OPERATOR_ACTIONS[name];
  const { actedOn, home, examples, ...route } = declaration;
  return operatorRoute<View, Parameters, undefined, Body>({
    ...route,
    path,
    scope: 'event-bus:replay',
    examples: { ...examples, ...(asks && withoutReason(examples, asks)) },
    redirectTo: (view, visit) =>
      'dryRun' in visit.body && visit.body.dryRun === true
        ? null
        : followedPath(nextPath(wantedIn(visit.body) ?? home?.(view, visit)), name, actedOn(view, visit)),
  });
}

/** The page that a form names. */
function wantedIn(body: object): string | undefined {
  return 'next' in body && typeof body.next === 'string' ? body.next : undefined;
}

export const NO_REASON = missing('reason');

function missing(field: 'reason' | 'note') {
  return invalid(field, 'too_small', 'expected a reason; it is kept in the operator log');
}

/** The request for what nobody has, without its reason. */
function withoutReason(
  { nobody, ...others }: Examples,
  { field = 'reason' }: NonNullable<Action['asks']>,
): Examples {
  const name = `without-a-${field}`;
  if (nobody === undefined || name in others) return {};
  const { parameters } = nobody;
  return {
    [name]: {
      summary: `Without a ${field}`,
      ...(parameters && { parameters }),
      json: {},
      answer: missing(field),
    },
  };
}
