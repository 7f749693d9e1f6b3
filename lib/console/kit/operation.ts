import * as z from 'zod';

import type { ProblemCode } from '../../platform/http/problem-codes.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { requireValid } from '../../platform/http/validated.ts';
import type { Back } from './done.ts';
import { drawPage } from './doc.ts';
import { asForm } from './shapes.ts';
import type { Html, PageContext } from './layout.ts';
import { planDoc, readConfirmedForm } from './plan.ts';
import type { Plan, PlanPage } from './plan.ts';
import { followedBy } from './progress.ts';
import type { Followable, Followed, Requested } from './progress.ts';
import type { Operated } from './replay-request.ts';
import { operatorRoute } from './route.ts';
import type { Bus, OperatorRoute, Shape, Values } from './route.ts';
import * as shape from './shapes.ts';
import { capitalize, count } from './words.ts';

/** An option of a command, which fills in the field of its name. */
export interface FieldOption {
  /** Where it is not the field's. */
  readonly name?: string;
  /** Its placeholder; a flag has none. */
  readonly value?: string;
  readonly isList?: boolean;
  /** The least and the most that a number may be. */
  readonly range?: readonly [least: number, most: number];
  readonly help: string;
}

/** How the command of an operation is called. Its other words are those of the operation. */
interface CommandOf {
  /** Beside the description. */
  readonly notes?: readonly string[];
  /** The first one stands below what is wrong with a command line. */
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** The fields that are its arguments, by what they are called; null: it may be missing. */
  readonly takes?: Readonly<Record<string, string | null>>;
  /** The fields that are its options. */
  readonly options: Readonly<Record<string, FieldOption>>;
  /** Those that it can't do without. */
  readonly needs?: readonly string[];
}

/** An operation for the router, for browsers, and for the command line. */
export interface Operation<
  Preview = unknown,
  Done extends object = object,
  Progress = unknown,
> extends Words {
  readonly scope: Scope;
  /** Its preview. Where it has none of its own, the route that begins it has one, as a dry run. */
  readonly show: OperatorRoute<Preview> | null;
  readonly begin: OperatorRoute<Done | Preview>;
  readonly routes: readonly OperatorRoute[];
  readonly says: (preview: Preview) => Plan;
  readonly page: (preview: Preview, context: PageContext) => Html;
  /** Says what was done. */
  done(done: Done): string;
  readonly command: CommandOf;
  readonly followed?: Followed<Progress>;
}

interface Words extends Omit<PlanPage, 'scope'> {
  /** A verb and its object, for lists of operations and of commands. */
  readonly summary: string;
  readonly description: string;
  readonly isReasonNeeded?: boolean;
}

interface Asked<Body> {
  readonly bus: Bus;
  readonly body: Body;
}

interface Ordered<Body> extends Asked<Body> {
  /** The operator. */
  readonly by: string;
  /** Empty where none is needed and none was given. */
  readonly reason: string;
}

interface Declaration<
  Parameters extends Shape,
  Body extends Operated,
  Preview,
  Done extends object,
  Progress extends Requested,
> extends Words {
  /** Names the route that begins it, for generated clients. */
  readonly id: string;
  /** That of its preview, where this has a page of its own. */
  readonly previewId?: string;
  readonly path: string;
  readonly scope?: Scope;
  readonly parameters?: Parameters;
  readonly unknown?: string;
  readonly problems: readonly ProblemCode[];
  readonly body: z.ZodType<Body>;
  readonly preview: z.ZodType<Preview>;
  /** Of what was done. A dry run is answered with its preview. Where there was no time for all, `left` counts the others. */
  readonly answer: z.ZodType<Done>;
  /** What is typed into its form to confirm it, in the place of its number. */
  readonly typed?: (body: Body) => string | null;
  /** Finds what it would do. Changes nothing. @returns null for nothing of that name. @throws Problem */
  readonly find: (asked: Asked<Body>, parameters: Values<Parameters>) => Promise<Preview | null>;
  /** Does it, or begins it. @returns as `find`. @throws Problem */
  readonly act: (asked: Ordered<Body>, parameters: Values<Parameters>) => Promise<Done | null>;
  readonly says: (preview: Preview) => Plan;
  /** Says what was done. */
  readonly done: (done: Done) => string;
  /** The page that its form leads to, which says what was done; by default that of its progress. */
  readonly leads?: (done: Done, body: Body, parameters: Values<Parameters>) => string | null;
  readonly command: CommandOf;
  readonly followed?: Followable<Progress>;
}

/** How many there was no time for. */
export const leftIn = (done: object) => ('left' in done && typeof done.left === 'number' ? done.left : 0);

const NEEDS_REASON = z.object({ reason: shape.requiredReason });

/** Problems of beginning it, which a preview does not have. */
const UNCONFIRMED: ReadonlySet<ProblemCode> = new Set(['not_confirmed', 'count_changed', 'under_way']);

/**
 * Makes an operation of its declaration: the route that previews it, the one that begins it or only tries it, the page of
 * both, which asks for confirmation, and its command.
 */
export function operation<
  Body extends Operated,
  Preview,
  Done extends object,
  Progress extends Requested = never,
  Parameters extends Shape = Shape,
>(declaration: Declaration<Parameters, Body, Preview, Done, Progress>): Operation<Preview, Done, Progress> {
  const { id, previewId, noun, scope = 'event-bus:replay', says, find, act, leads, problems } = declaration;
  const { path, parameters, unknown, body, answer, isReasonNeeded = false } = declaration;
  const { followed: _, ...words } = declaration;
  const followed = declaration.followed && followedBy(noun, declaration.followed);
  const page = (preview: Preview, context: PageContext) =>
    drawPage(planDoc(says(preview), { ...declaration, scope }), context);
  const done = (view: Done) => {
    const left = leftIn(view);
    return `${declaration.done(view)}${left > 0 ? ` ${count(left)} left: do it again.` : ''}`;
  };
  const common = { path, ...(parameters && { parameters }), ...(unknown !== undefined && { unknown }) };
  const show =
    previewId !== undefined &&
    operatorRoute<Preview, Parameters, Body>({
      ...common,
      id: previewId,
      summary: `Preview a ${noun}`,
      problems: ['validation_failed', ...problems.filter((code) => !UNCONFIRMED.has(code))],
      page,
      scope: 'event-bus:read',
      query: asForm(body),
      answer: declaration.preview,
      handle: async (visit) => await find({ ...visit, body: visit.query }, visit.parameters),
    });
  const begin = operatorRoute<Done | Preview, Parameters, undefined, Body>({
    ...common,
    id,
    summary: capitalize(declaration.summary),
    description: declaration.description,
    problems,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only a dry run is drawn: all else leads to a page
    page: (view, context) => page(view as Preview, context),
    scope,
    body,
    readForm: (content) => readConfirmedForm(content, asForm(body), declaration.typed),
    dryRun: asForm(body),
    answer: z.union([answer, declaration.preview]).describe('What was done; for a dry run, the preview.'),
    handle: async (visit) => {
      const { reason = '', dryRun } = visit.body;
      if (dryRun) return await find(visit, visit.parameters);
      if (isReasonNeeded) requireValid({ reason }, NEEDS_REASON);
      return await act({ ...visit, by: visit.operator.subject, reason }, visit.parameters);
    },
    redirectTo(view, { body: sent, parameters: of }): string | Back | null {
      if (sent.dryRun) return null;
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as above
      const what = view as Done;
      const to = leads?.(what, sent, of) ?? null;
      return to === null ? followed!.pathOf(followed!.idOf(what)) : { path: to, done: done(what) };
    },
  });
  return {
    ...words,
    scope,
    show: show || null,
    begin,
    routes: [...(show ? [show] : []), begin, ...(followed?.routes ?? [])],
    page,
    done,
    ...(followed && { followed }),
  };
}
