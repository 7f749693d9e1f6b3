import * as z from 'zod';

import { invalid } from '../../platform/http/operation.ts';
import { followedPath, follower } from './following.ts';
import type { Follow, Followed, Named } from './following.ts';
import type { FormOf } from './form-of.ts';
import { nextPath } from './next-path.ts';
import { operatorRoute } from './route.ts';
import type { Checked, OperatorRoute, RouteDeclaration, Shape } from './route.ts';

/** How an action ended, in the terminal, where there is more to say than that it went well. */
export interface End {
  readonly isGood: boolean;
  /** What became of each of several things. */
  readonly each?: readonly (readonly [isGood: boolean, words: string])[];
  readonly words?: string;
  /** Beside it, and what may be done next. */
  readonly next?: string;
}

/** What was done, and what may be done next. */
export type Done = string | readonly [words: string, next: string] | End;

/** The words of the command that does an action, where it has one of its own. */
interface CommandOf<View> {
  /** Where it is not the action's. */
  readonly name?: string;
  /** For the list of commands: a verb and its object. */
  readonly summary: string;
  /** The words after `npx postbud`; by default its name, its path's parameters and its reason. */
  readonly usage?: readonly string[];
  readonly notes: readonly string[];
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** Said where the id is missing, with where to find one. */
  readonly missing?: readonly [message: string, advice: string];
  /** @param subject the id that was given. */
  readonly done: (view: View, subject: string) => Done;
}

/** What an action is for the router, for pages, and for the command line. */
export interface Action<View = unknown> extends FormOf, Followed {
  readonly route: OperatorRoute<View>;
  readonly command?: CommandOf<View>;
}

type Values<Parameters extends Shape> = { readonly [Name in keyof Parameters]: string };

interface Declaration<View, Parameters extends Shape, Body, ActedOn>
  extends
    FormOf,
    Omit<
      RouteDeclaration<View, Parameters, undefined, Body>,
      'path' | 'scope' | 'query' | 'redirectTo' | 'csv' | 'links'
    > {
  readonly body: z.ZodType<Body>;
  /** What it acted on, for the page that follows it. By default the parameters of its path. */
  readonly actedOn?: {
    readonly shape: z.ZodType<ActedOn>;
    readonly of: (view: View, visit: Checked<Parameters, undefined, Body>) => Named;
  };
  /** Reads how it goes on. @returns null if there was no such action. */
  readonly follow?: Follow<ActedOn>;
  /** The page that a form leads to which names none. By default the overview. */
  readonly home?: (view: View, visit: Checked<Parameters, undefined, Body>) => string;
  readonly command?: CommandOf<View>;
}

/**
 * Makes one of the operators' actions of its declaration: its route, which requires the scope to replay; the form that pages
 * draw by its name; what follows it; and its command. A form leads back to the page that it came from.
 */
export function action<View, Parameters extends Shape, Body extends object, ActedOn = Values<Parameters>>(
  declaration: Declaration<View, Parameters, Body, ActedOn>,
): Action<View> {
  const { name, button, asks, actedOn, follow, home, command, examples, ...route } = declaration;
  const { path, parameters, page } = route;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the default of what an action acted on
  const shape = actedOn?.shape ?? (z.object(parameters) as unknown as z.ZodType<ActedOn>);
  const next: RouteDeclaration<View, Parameters, undefined, Body>['redirectTo'] = (view, visit) => {
    if ('dryRun' in visit.body && visit.body.dryRun === true) return null;
    const to = nextPath(wantedIn(visit.body) ?? home?.(view, visit));
    return follow ? followedPath(to, name, actedOn?.of(view, visit) ?? visit.parameters) : to;
  };
  return {
    name,
    path,
    ...(button !== undefined && { button }),
    ...(asks && { asks }),
    ...(follow && { follow: follower(shape, follow) }),
    ...(command && { command }),
    route: operatorRoute<View, Parameters, undefined, Body>({
      ...route,
      scope: 'event-bus:replay',
      examples: { ...examples, ...(asks && withoutReason(examples, asks)) },
      ...(!(page && !follow) && { redirectTo: next }),
    }),
  };
}

/** The routes of actions, or of views. */
export function routesOf(declared: readonly Pick<Action, 'route'>[]): readonly OperatorRoute[] {
  return declared.map(({ route }) => route);
}

/** The page that a form names. */
function wantedIn(body: object): string | undefined {
  return 'next' in body && typeof body.next === 'string' ? body.next : undefined;
}

export const NO_REASON = missing('reason');

function missing(field: 'reason' | 'note') {
  return invalid(field, 'too_small', 'expected a reason; it is kept in the operator log');
}

type Examples = RouteDeclaration<unknown, Shape, undefined, unknown>['examples'];

/** The request for what nobody has, without its reason. */
function withoutReason(
  { nobody, ...others }: Examples,
  { field = 'reason' }: NonNullable<FormOf['asks']>,
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
