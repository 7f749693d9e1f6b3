import type * as z from 'zod';

import type { Scope } from '../../platform/http/operation.ts';
import type { Content } from '../../platform/http/validated.ts';
import { readConfirmedForm } from './confirmed-form.ts';
import type { Part } from './document.ts';
import { asForm } from './form-request.ts';
import type { Html, PageContext } from './layout.ts';
import type { Operator } from './operator.ts';
import { drawPlan } from './plan.ts';
import type { Plan, PlanPage } from './plan.ts';
import { operatorRoute } from './route.ts';
import type { Bus, OperatorRoute, RouteDeclaration, Shape } from './route.ts';

/** An option of a command, which fills in the field of its name. */
interface FieldOption {
  /** Where it is not the field's. */
  readonly name?: string;
  /** Its placeholder; a flag has none. */
  readonly value?: string;
  readonly isList?: boolean;
  /** The least and the most that a number may be. */
  readonly range?: readonly [least: number, most: number];
  readonly help: string;
}

/** What was done: words, whether it went well, and a line below them. */
export interface Told {
  readonly words: string;
  /** Whether the words count what this request did: an earlier one, whose answer was lost, may have done more. */
  readonly isCounted?: boolean;
  readonly isGood?: boolean;
  /** Whether it goes on, and can be stopped. */
  readonly isUnderWay?: boolean;
  readonly next?: string;
}

/** The words of the command that does an operation, and how it is called. */
interface CommandOf<Done> {
  readonly summary: string;
  readonly usage: readonly string[];
  readonly notes: readonly string[];
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** The fields that are its arguments, and what is said where one is missing; null: it may be. */
  readonly takes?: readonly (readonly [field: string, missing: string | null])[];
  /** The fields that are its options. */
  readonly options: Readonly<Record<string, FieldOption>>;
  /** What is said where an option is missing that the command needs, by its field. */
  readonly needs?: Readonly<Record<string, string>>;
  /** `Nothing was dismissed.` */
  readonly nothing: string;
  /** A command line, with a reason where it needs one. */
  readonly example: string;
  readonly isReasonNeeded: boolean;
  /** Says how many there are, for `--expected`: `3 dead letters match`. */
  readonly counted?: (matched: number) => string;
  /** What one request did, where it takes several. */
  readonly step?: (done: Done) => { readonly done: number; readonly left: number };
  /** Says what was done. @param sum of what its requests did. @returns null for nothing. */
  readonly done?: (done: Done, plan: Plan, sum: number) => Told | null;
}

/** How far an operation is that goes on after it has begun. */
export interface HowFar {
  readonly words: Part;
  /** Whether it can still be stopped. */
  readonly isUnderWay?: boolean;
  /** Whether nothing more comes of it. */
  readonly isOver: boolean;
  /** Whether all went well. */
  readonly isGood: boolean;
  /** Sentences below it, once it is over. */
  readonly more?: readonly string[];
}

/** How a command waits for what it has begun, and stops it. */
interface Followable<Done, Progress> {
  readonly route: OperatorRoute<Progress>;
  readonly pathOf: (id: string) => string;
  /** @returns its id; null where there is nothing to follow. */
  readonly idOf: (done: Done) => string | null;
  readonly says: (progress: Progress) => HowFar;
  /** Whether its command waits without being asked to. */
  readonly isAwaited?: boolean;
  readonly stop?: {
    readonly route: OperatorRoute<Progress>;
    readonly help: string;
    /** Of a reason. */
    readonly example: string;
  };
}

/** An operation for the router, for browsers, and for the command line. */
export interface Operation<Preview = unknown, Done = unknown, Progress = unknown> {
  readonly verb: string;
  /** Its preview. Where it has none of its own, the route that begins it has one, as a dry run. */
  readonly show: OperatorRoute<Preview> | null;
  readonly begin: OperatorRoute<Done | Preview>;
  readonly routes: readonly OperatorRoute[];
  readonly says: (preview: Preview) => Plan;
  readonly page: (preview: Preview, context: PageContext) => Html;
  readonly command: CommandOf<Done>;
  readonly followed?: Followable<Done, Progress>;
}

interface Request {
  readonly reason?: string | undefined;
  readonly dryRun?: boolean | undefined;
  readonly expectedCount?: number | undefined;
}

interface Asked<Body> {
  readonly bus: Bus;
  readonly operator: Operator;
  readonly body: Body;
}

type RouteWords<View, Parameters extends Shape, Query, Body> = Pick<
  RouteDeclaration<View, Parameters, Query, Body>,
  'id' | 'summary' | 'description' | 'links' | 'problems' | 'examples'
>;

interface Declaration<Parameters extends Shape, Body extends Request, Preview, Done, Progress> extends Omit<
  PlanPage,
  'scope'
> {
  readonly path: string;
  readonly scope?: Scope;
  readonly parameters?: Parameters;
  readonly unknown?: string;
  readonly body: z.ZodType<Body>;
  /** The same of a preview, which needs no reason. */
  readonly asked?: z.ZodType<Body>;
  readonly preview: z.ZodType<Preview>;
  readonly answer: z.ZodType<Done | Preview>;
  /** Reads its form, where it is not confirmed by its number. @throws Problem */
  readonly readForm?: (content: Content) => Body;
  readonly shown?: RouteWords<Preview, Parameters, Body, undefined>;
  readonly begun: RouteWords<Done | Preview, Parameters, undefined, Body>;
  /** Finds what it would do. Changes nothing. @returns null for nothing of that name. @throws Problem */
  readonly find: (asked: Asked<Body>, parameters: Values<Parameters>) => Promise<Preview | null>;
  /** Does it, or begins it. @returns as `find`. @throws Problem */
  readonly act: (asked: Asked<Body>, parameters: Values<Parameters>) => Promise<Done | null>;
  readonly says: (preview: Preview) => Plan;
  /** The page that its form leads to. */
  readonly leads: (done: Done, body: Body, parameters: Values<Parameters>) => string;
  readonly command: CommandOf<Done>;
  readonly followed?: Followable<Done, Progress>;
}

type Values<Parameters extends Shape> = { readonly [Name in keyof Parameters]: string };

/**
 * Makes an operation of its declaration: the route that previews it, the one that begins it or only tries it, the page of
 * both, which asks for confirmation, and its command.
 */
export function operation<
  Body extends Request,
  Preview,
  Done,
  Progress = never,
  Parameters extends Shape = Shape,
>(declaration: Declaration<Parameters, Body, Preview, Done, Progress>): Operation<Preview, Done, Progress> {
  const { verb, section, scope = 'event-bus:replay', reason, says, find, act, shown, begun } = declaration;
  const { path, parameters, unknown, body, asked = body, answer, command, followed, readForm } = declaration;
  const page = (preview: Preview, context: PageContext) =>
    drawPlan(says(preview), { verb, section, scope, reason }, context);
  const common = { path, ...(parameters && { parameters }), ...(unknown !== undefined && { unknown }) };
  const show =
    shown &&
    operatorRoute<Preview, Parameters, Body>({
      ...shown,
      ...common,
      page,
      scope: 'event-bus:read',
      query: asForm(asked),
      answer: declaration.preview,
      handle: async (visit) => await find({ ...visit, body: visit.query }, visit.parameters),
    });
  const begin = operatorRoute<Done | Preview, Parameters, undefined, Body>({
    ...begun,
    ...common,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only a dry run is drawn: all else leads to a page
    page: (view, context) => page(view as Preview, context),
    scope,
    body,
    readForm: readForm ?? ((content) => readConfirmedForm(content, asForm(body))),
    dryRun: asForm(asked),
    answer,
    handle: async (visit) => await (visit.body.dryRun ? find : act)(visit, visit.parameters),
    redirectTo: (view, { body: sent, parameters: of }) =>
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as above
      sent.dryRun ? null : declaration.leads(view as Done, sent, of),
  });
  return {
    verb,
    show: show ?? null,
    begin,
    routes: show ? [show, begin] : [begin],
    says,
    page,
    command,
    ...(followed && { followed }),
  };
}
