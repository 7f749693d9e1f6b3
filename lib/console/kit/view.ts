import type * as z from 'zod';

import { drawPage } from './doc.ts';
import type { Doc, Says } from './doc.ts';
import type { Filters } from './filters.ts';
import { operatorRoute } from './route.ts';
import type { OperatorRoute, RouteDeclaration, Shape } from './route.ts';

/** The words of the command that shows a view, and how it is called. */
interface CommandOf {
  readonly name: string;
  /** For the list of commands: a verb and its object. */
  readonly summary: string;
  readonly notes?: readonly string[];
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** The filters of a list, which become options. */
  readonly filters?: Filters;
  /** The field of the answer that holds a list which is read page by page. */
  readonly list?: string;
  /** How many entries of each list it asks for, unless told otherwise. */
  readonly listed?: number;
  /** Of a list: the view of one thing of it, by its id. */
  readonly one?: One;
  /** The name of its parameter, such as `eventId`, where it is of one thing. */
  readonly argument?: string;
  /** Whether what it shows makes it exit with 1. */
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever answer
  readonly isBad?: (shown: any) => boolean;
}

interface One {
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever answer
  readonly view: View<any>;
  /** The name of its parameter, as `deliveryId`, and its shape. */
  readonly argument: string;
  readonly shape: z.ZodType<string>;
}

/** What operators can look at: for the router, for browsers, and for the command line. */
export interface View<Shown = unknown> {
  readonly route: OperatorRoute<Shown>;
  /** A method, so that a view of anything is one of something. */
  says(...shown: Parameters<Says<Shown>>): Doc;
  readonly command?: CommandOf;
}

interface Declaration<Shown, Path extends Shape, Query, Body> extends Omit<
  RouteDeclaration<Shown, Path, Query, Body>,
  'page' | 'scope'
> {
  readonly scope?: RouteDeclaration<Shown, Path, Query, Body>['scope'];
  readonly says: Says<Shown>;
  readonly command?: CommandOf;
}

/** Makes a view of its declaration: its route, whose page is the document that it says, and its command. */
export function view<Shown, Path extends Shape = Shape, Query = undefined, Body = undefined>({
  scope = 'event-bus:read',
  says,
  command,
  ...route
}: Declaration<Shown, Path, Query, Body>): View<Shown> {
  return {
    says,
    ...(command && { command }),
    route: operatorRoute<Shown, Path, Query, Body>({
      ...route,
      scope,
      page: (shown, context) => drawPage(says(shown, context.names), context),
    }),
  };
}
