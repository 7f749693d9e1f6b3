import type * as z from 'zod';

import type { FormOf } from './layout.ts';
import type { FieldOption } from './operation.ts';
import { operatorRoute } from './route.ts';
import type { OperatorRoute, RouteDeclaration, Shape, Values } from './route.ts';

/** How an action ended, in the terminal, where there is more to say than that it went well. */
interface End {
  readonly isGood?: boolean;
  readonly words: string;
  /** Beside it, and what may be done next. */
  readonly next?: string;
}

/** What was done, and what may be done next. */
type Done = string | End;

/** The words of the command that does an action, where it has one of its own. */
interface CommandOf {
  /** Where it is not the action's. */
  readonly name?: string;
  /** For the list of commands: a verb and its object. */
  readonly summary: string;
  readonly notes: readonly string[];
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** The fields of its body that are options, beside the reason. */
  readonly options?: Readonly<Record<string, FieldOption>>;
  /** Asked first, of what is sent: a verb and its object; null: nothing is asked. */
  readonly confirms?: (sent: Readonly<Record<string, unknown>>) => string | null;
  /** Said where it is not confirmed: `Nothing was paused.` */
  readonly nothing?: string;
}

/** What an action is for the router, for pages, and for the command line. */
export interface Action<View = unknown> extends FormOf {
  readonly route: OperatorRoute<View>;
  readonly done: (view: View, parameters: Readonly<Record<string, string>>) => Done;
  /** Whether its command can wait for what comes of it. */
  readonly isAwaited?: boolean;
  readonly command?: CommandOf;
}

interface Declaration<View, Parameters extends Shape, Body>
  extends
    FormOf,
    Omit<
      RouteDeclaration<View, Parameters, undefined, Body>,
      'path' | 'scope' | 'query' | 'redirectTo' | 'csv'
    > {
  readonly body: z.ZodType<Body>;
  /** Says what was done: on the page that its form leads back to, and in a terminal. */
  readonly done: (view: View, parameters: Values<Parameters>) => Done;
  /** The page that its form leads to. By default the one that it came from. */
  readonly leads?: (view: View) => string;
  readonly isAwaited?: boolean;
  readonly command?: CommandOf;
}

/**
 * Makes one of the operators' actions of its declaration: its route, which requires the scope to replay; the form that pages
 * draw by its name; and its command. Its form leads to a page that says what was done.
 */
export function action<View, Parameters extends Shape, Body extends object>(
  declaration: Declaration<View, Parameters, Body>,
): Action<View> {
  const { name, button, asks, done, leads, isAwaited, command, ...route } = declaration;
  const { path, page } = route;
  const back: RouteDeclaration<View, Parameters, undefined, Body>['redirectTo'] = (view, visit) => ({
    path: leads?.(view) ?? visit.next,
    done: wordsOf(done(view, visit.parameters)),
  });
  return {
    name,
    path,
    ...(button !== undefined && { button }),
    ...(asks && { asks }),
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- those of its path
    done: (view, parameters) => done(view, parameters as Values<Parameters>),
    ...(isAwaited && { isAwaited }),
    ...(command && { command }),
    route: operatorRoute<View, Parameters, undefined, Body>({
      ...route,
      scope: 'event-bus:replay',
      // A page of its own draws the answer.
      ...(!page && { redirectTo: back }),
    }),
  };
}

/** The routes of actions, or of views. */
export function routesOf(declared: readonly Pick<Action, 'route'>[]): readonly OperatorRoute[] {
  return declared.map(({ route }) => route);
}

/** Says it as far as a page does. */
const wordsOf = (done: Done) => (typeof done === 'string' ? done : done.words);
