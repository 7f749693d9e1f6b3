import * as z from 'zod';

import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import type { Refusal } from '../../components/registry.ts';
import type { AlertSettings } from '../../platform/alert-settings.ts';
import type { OperatorSettings } from '../../platform/operator-settings.ts';
import type { Database } from '../../platform/db/database.ts';
import { mediaTypes } from '../../platform/http/body.ts';
import type { Operation, Scope } from '../../platform/http/operation.ts';
import type { ProblemCode } from '../../platform/http/problem-codes.ts';
import { Problem } from '../../platform/http/problem.ts';
import { readContent, requireValid, validated } from '../../platform/http/validated.ts';
import type { Content } from '../../platform/http/validated.ts';
import type { Limit } from '../../platform/rate-limit/limiter.ts';
import { asksForCsv, csvFile, csvPath } from './csv.ts';
import { enteredIn } from './entered.ts';
import type { Back } from './done.ts';
import type { Html, PageContext } from './layout.ts';
import { meantBy } from './known-names.ts';
import { deadLetterPath, incidentPath, nextPath, replaysPath } from './links.ts';
import { requireNobodyNamed } from './nobody-named.ts';
import type { Operator } from './operator.ts';
import { describeAnswers, describeParameters } from './route-description.ts';

/** The bus, as routes read it and act on it. */
export interface Bus {
  readonly database: () => Promise<Database>;
  readonly subscribers: () => readonly AttachedSubscriber[];
  /** What is not attached because a variable is invalid. */
  readonly refusals: () => readonly Refusal[];
  /** Whether this deployment relays. */
  readonly relays: () => boolean;
  /** Where operators are alerted. */
  readonly alerts: () => AlertSettings;
  /** Whether the webhooks of each endpoint can be verified, and how. */
  readonly webhooks: () => readonly {
    /** The endpoint's name. */
    readonly provider: string;
    readonly endpoint: 'configured' | 'not_configured' | 'misconfigured';
    readonly scheme: string | null;
    /** Whether it is asked for webhooks that never came; null if it cannot be. */
    readonly reconciliation: 'on' | 'off' | 'misconfigured' | null;
  }[];
}

/** One method of one path: what OpenAPI says of it, and the function that answers it. */
export type Route = OperatorRoute | PublicRoute;

/** A route for operators whose token has the scope. */
export interface OperatorRoute<View = unknown> extends Operation {
  readonly access: Scope;
  /** The shape of the answer as JSON. */
  readonly answer: z.ZodType<View>;
  readonly handle: (visit: OperatorVisit) => Promise<Answer<PageContext>>;
}

/** A route for anyone. A request that changes something must come from a page of the console. */
export interface PublicRoute extends Operation {
  readonly access: 'anyone';
  /** How often one visitor may call, from the shortest window on. */
  readonly limits?: readonly Limit[];
  readonly handle: (visit: Visit) => Promise<Answer<void>>;
}

/** A request, as a handler sees it. */
export interface Visit {
  readonly request: Request;
  /** The request's, without the mark of a form that is shown again. */
  readonly url: URL;
  /** The path's parameters, decoded; none is empty or holds a control character. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly requestId: string;
  /** Whether the caller is a browser, which gets a page. */
  readonly wantsHtml: boolean;
  readonly settings: () => OperatorSettings;
  readonly bus: Bus;
}

export interface OperatorVisit extends Visit {
  readonly operator: Operator;
}

/** An answer as JSON, and what others than programs get in its place. @typeParam Context the page's context. */
export interface Answer<Context> {
  readonly json: unknown;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Drawn for a browser. Without it browsers get the JSON too. */
  readonly page?: (context: Context) => Html;
  /** The page of the console that a browser with a form is led to with 303, and what that says was done. */
  readonly seeOther?: string | Back;
  /** Whether the browser sends its form there, too: 307 instead of 303. */
  readonly withForm?: boolean;
  /** A file for all; the headers name its type. */
  readonly text?: string;
}

/** Schemas of a path's parameters. */
export type Shape = Readonly<Record<string, z.ZodType<string>>>;
export type Values<Parameters extends Shape> = { readonly [Name in keyof Parameters]: string };

/** A visit whose parameters, query and body have been checked. */
export interface Checked<Parameters extends Shape, Query, Body> extends Omit<OperatorVisit, 'parameters'> {
  readonly parameters: Values<Parameters>;
  readonly query: Query;
  readonly body: Body;
  /** The page that a form came from; the overview for one that does not say so. */
  readonly next: string;
}

/** One thing that operators can see or do. The router, OpenAPI, the command line and the tests read this declaration. */
export interface RouteDeclaration<View, Parameters extends Shape, Query, Body> {
  /** Names the operation for generated clients. */
  readonly id: string;
  /** With parameters in braces. */
  readonly path: string;
  readonly scope: Scope;
  readonly summary: string;
  readonly description?: string;
  /** A path whose parameters do not fit these is answered as `unknown` says. */
  readonly parameters?: Parameters;
  readonly query?: z.ZodType<Query>;
  /** With a body the method is POST, and forms are accepted in addition to JSON. */
  readonly body?: z.ZodType<Body>;
  /** Reads a form whose fields differ from the body's. @throws Problem */
  readonly readForm?: (content: Content) => Body;
  /** Reads from a refused form the dry run that `page` draws again, with what was typed. */
  readonly dryRun?: z.ZodType<Body>;
  readonly answer: z.ZodType<View>;
  /** Of its list, `items`, as CSV: how it is called, and its columns. A field of an object is `lastError.kind`. */
  readonly csv?: { readonly words: string; readonly columns: readonly string[] };
  /** Problems beyond those that every operators' route may answer. */
  readonly problems?: readonly ProblemCode[];
  /** The detail of the 404 where `handle` finds nothing. */
  readonly unknown?: string;
  /** @returns the answer, which is sent as JSON; null if nothing has that name. @throws Problem */
  readonly handle: (visit: Checked<Parameters, Query, Body>) => Promise<View | null>;
  /** Draws the answer for a browser. Without it, and without a way on, browsers get JSON too. */
  readonly page?: (view: View, context: PageContext) => Html;
  /** The page that a browser is redirected to after a form; null: `page` draws the answer. */
  readonly redirectTo?: (view: View, visit: Checked<Parameters, Query, Body>) => string | Back | null;
}

/** The longest body that a route takes: a thousand delivery ids and a reason. */
export const BODY_LIMIT_BYTES = 64 * 1024;

/** Makes a route for operators from its declaration. */
export function operatorRoute<View, Parameters extends Shape = Shape, Query = undefined, Body = undefined>(
  declaration: RouteDeclaration<View, Parameters, Query, Body>,
): OperatorRoute<View> {
  const { id, path, scope, summary, description, body, answer, unknown, problems = [] } = declaration;
  return {
    id,
    method: body ? 'post' : 'get',
    path,
    tag: 'Event bus',
    summary,
    ...(description !== undefined && { description }),
    access: scope,
    hasPages: true,
    parameters: describeParameters(declaration),
    ...(body && { body: { schema: body, forms: true, limitBytes: BODY_LIMIT_BYTES } }),
    answer,
    answers: describeAnswers(declaration),
    problems: [
      ...PROBLEMS,
      ...(body ? ([...BODY_PROBLEMS, 'cross_site_request', 'read_only'] as const) : []),
      ...(unknown === undefined ? [] : (['not_found'] as const)),
      ...problems,
    ],
    handle: async (visit) => await answerVisit(declaration, visit),
  };
}

async function answerVisit<View, Parameters extends Shape, Query, Body>(
  declaration: RouteDeclaration<View, Parameters, Query, Body>,
  visit: OperatorVisit,
): Promise<Answer<PageContext>> {
  const parameters = parametersOf(declaration.parameters, visit);
  if (!parameters) throw notFound(declaration, visit);
  const { format: _, ...fields } = fieldsOf(visit.url.searchParams);
  const query = declaration.query && requireValid(fields, declaration.query);
  // A misspelt filter must not look like one that matched everything.
  if (!visit.wantsHtml && declaration.query instanceof z.ZodObject)
    requireValid({ query: fields }, z.object({ query: declaration.query.strict() }));
  const content = declaration.body && (await readContent(visit.request, mediaTypes, BODY_LIMIT_BYTES));
  const known = { ...visit, parameters, query };
  try {
    return await answerChecked(declaration, known, content);
  } catch (error) {
    const problem = problemIn(declaration, error, parameters);
    const again =
      content && problem instanceof Problem && (await askedAgain(declaration, known, content, problem));
    if (!again) throw problem;
    return again;
  }
}

type Named = Pick<RouteDeclaration<unknown, Shape, unknown, unknown>, 'unknown'>;

function notFound({ unknown }: Named, { parameters }: Pick<Visit, 'parameters'>): Problem {
  if (unknown === undefined) return new Problem('not_found');
  const meant = meantBy(parameters);
  return new Problem('not_found', { detail: meant === null ? unknown : `${unknown} Did you mean ${meant}?` });
}

/** Problems of who comes second, after another operator. */
const LATE: ReadonlySet<ProblemCode> = new Set(['count_changed', 'not_waiting']);

/** The problem that says why an action was refused, and where to see what was done instead; any other error as it is. */
function problemIn(declaration: Named, error: unknown, parameters: Visit['parameters']): unknown {
  if (!(error instanceof NotActedOn)) return error;
  const { code, message } = error;
  const { deliveryId, incidentId } = parameters;
  if (code === 'not_found') return notFound(declaration, { parameters });
  const path =
    (deliveryId !== undefined && deadLetterPath(deliveryId)) ||
    (incidentId !== undefined && incidentPath(incidentId)) ||
    replaysPath();
  const detail = LATE.has(code) ? `${message} See what was done: ${path}.` : message;
  return new Problem(code, { detail, cause: error });
}

interface Known<Parameters extends Shape, Query> extends Omit<OperatorVisit, 'parameters'> {
  readonly parameters: Values<Parameters>;
  readonly query: Query | undefined;
}

async function answerChecked<View, Parameters extends Shape, Query, Body>(
  declaration: RouteDeclaration<View, Parameters, Query, Body>,
  known: Known<Parameters, Query>,
  content: Content | undefined,
): Promise<Answer<PageContext>> {
  const { handle, page, redirectTo, csv } = declaration;
  const { body: schema, readForm } = declaration;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- without a schema the type is that of undefined
  const checked = {
    ...known,
    body: content && schema && (readForm && isForm(content) ? readForm(content) : validated(content, schema)),
    next: nextPath(content?.form instanceof Problem ? null : content?.form?.texts['next']),
  } as Checked<Parameters, Query, Body>;
  await requireNobodyNamed(known.bus.database, checked);
  if (csv !== undefined && asksForCsv(known.url)) {
    const file = await csvFile(csv.columns, known.url, async (part) => {
      const view = await handle({ ...checked, query: pageOf(declaration.query, known, part) });
      if (view === null) throw notFound(declaration, known);
      return view;
    });
    return { json: null, ...file };
  }
  const view = await handle(checked);
  if (view === null) throw notFound(declaration, known);
  const seeOther = redirectTo?.(view, checked) ?? null;
  if (seeOther !== null) return { json: view, seeOther };
  if (!page) return { json: view };
  const path = csv && csvPath(view, known.url);
  const asCsv = path && { csv: { words: `${csv.words}, all that match`, path } };
  return { json: view, page: (context) => page(view, { ...context, ...asCsv }) };
}

/** The query with another cursor, and with a limit beyond that of an answer. */
function pageOf<Query>(
  query: z.ZodType<Query> | undefined,
  { url }: Pick<Visit, 'url'>,
  { cursor, limit }: { readonly cursor: string | null; readonly limit: number },
): Query {
  const fields = { ...fieldsOf(url.searchParams), ...(cursor !== null && { cursor }) };
  const checked = query && requireValid(fields, query);
  const isLimited = typeof checked === 'object' && checked !== null && 'limit' in checked;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- without a schema the type is that of undefined
  return (isLimited ? { ...checked, limit } : checked) as Query;
}

/** @returns null for a path with a parameter that does not fit. */
function parametersOf<Parameters extends Shape>(
  schemas: Parameters | undefined,
  { parameters }: Visit,
): Values<Parameters> | null {
  const { success } = z.object(schemas ?? {}).safeParse(parameters);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each of the names has just been checked
  return success ? (parameters as Values<Parameters>) : null;
}

/** A query as an object: empty fields are left out, a field that occurs twice is a list with commas. */
function fieldsOf(query: URLSearchParams): Record<string, string> {
  const names = [...new Set(query.keys())];
  // Postgres takes no U+0000, so no stored text has one.
  const fields = names.map((name) => [
    name,
    query.getAll(name).filter(Boolean).join(',').replaceAll('\0', ''),
  ]);
  return Object.fromEntries(fields.filter(([, text]) => text));
}

const isForm = ({ type }: Content) => type !== 'application/json';

/** What the operator corrects on the page that the form came from. */
const CORRECTED: ReadonlySet<ProblemCode> = new Set([
  'validation_failed',
  'not_confirmed',
  'count_changed',
  'name_taken',
]);

/** Draws the preview of a form that was refused again, so that nothing that was typed is lost. */
async function askedAgain<View, Parameters extends Shape, Query, Body>(
  { dryRun, handle, page }: RouteDeclaration<View, Parameters, Query, Body>,
  known: Known<Parameters, Query>,
  content: Content,
  problem: Problem,
): Promise<Answer<PageContext> | null> {
  const isAsked = known.wantsHtml && isForm(content) && CORRECTED.has(problem.code);
  if (!dryRun || !page || !isAsked) return null;
  const fields = validated(content, z.record(z.string(), z.string()));
  const { reason: _, confirm: _typed, expectedCount: _counted, ...request } = fields;
  const body = dryRun.safeParse({ ...request, dryRun: 'true' });
  if (!body.success) return null;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as in `answerChecked`
  const view = await handle({ ...known, body: body.data } as Checked<Parameters, Query, Body>);
  if (view === null) return null;
  const entered = enteredIn(fields, problem);
  return { json: null, status: problem.status, page: (context) => page(view, { ...context, entered }) };
}

const PROBLEMS: readonly ProblemCode[] = [
  'unauthorized',
  'invalid_token',
  'insufficient_scope',
  'no_role',
  'not_acceptable',
  'operators_not_configured',
  'key_server_unavailable',
  'directory_unavailable',
  'database_unavailable',
];

/** Of any request with a body. */
export const BODY_PROBLEMS: readonly ProblemCode[] = [
  'validation_failed',
  'incomplete_body',
  'body_too_large',
  'unsupported_media_type',
  'unsupported_encoding',
];
