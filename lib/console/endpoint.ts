import type { OperatorSettings } from '../platform/operator-settings.ts';
import { guardedEndpoint } from '../platform/http/guarded-endpoint.ts';
import type { Endpoint } from '../platform/http/guarded-endpoint.ts';
import { requireAcceptable, wantsHtml } from '../platform/http/negotiate.ts';
import { Problem, problemResponse } from '../platform/http/problem.ts';
import type { VisitorLimits } from '../platform/http/visit.ts';
import { logError } from '../platform/log.ts';
import type { Limit } from '../platform/rate-limit/limiter.ts';
import { authenticate, requireOwnPage, requireScope } from './access/authenticate.ts';
import { bouncePage, signInPage, directoryIn } from './access/page.ts';
import { sessionHandle, sessionToken } from './access/session.ts';
import { inDatabase } from './access/sign-in-route.ts';
import { readCarried, readUnsent, UNSENT, unsentPanel } from './access/unsent.ts';
import { asksForCsv } from './kit/csv.ts';
import { withDatabase } from './kit/database-away.ts';
import { doneCookie, doneOn } from './kit/done.ts';
import type { Badges, FormOf, Html, PageContext } from './kit/layout.ts';
import { handlingOf } from './kit/handling.ts';
import { HOME, nextPath } from './kit/links.ts';
import { NO_NAMES } from './kit/document.ts';
import type { Operator } from './kit/operator.ts';
import { problemPage } from './kit/problem-page.ts';
import type { Answer, Bus, OperatorRoute, PublicRoute, Route } from './kit/route.ts';
import type { Unsent } from './access/unsent.ts';

/** One of the operators' functions: its routes, and the facts that all its pages show. */
export interface OperatorEndpointDeclaration {
  readonly settings: () => OperatorSettings;
  /** `Production`, `Preview` or `Local`. */
  readonly environment: () => string;
  /** Counts what the navigation of every page shows. A page is shown without the counts if it fails. */
  readonly badges: () => Promise<Badges | null>;
  /** The forms that pages may have. */
  readonly forms: () => Promise<readonly FormOf[]>;
  /** Counts how often one visitor calls a route that limits that. */
  readonly perVisitor?: (limits: readonly Limit[]) => VisitorLimits;
  readonly bus: Bus;
  /** The first that matches a path answers. */
  readonly routes: readonly Route[];
}

/**
 * Makes a function for operators from routes, with a page for browsers and JSON for programs.
 *
 * Access is decided only here: each route names the scope it needs. An unknown path is answered 404, another method 405.
 * Browsers get problems as pages; the page of a 401 is the sign-in form.
 */
export function operatorEndpoint(declaration: OperatorEndpointDeclaration): Endpoint {
  return {
    async fetch(request) {
      const response = await endpointFor(declaration, request).fetch(request);
      for (const [name, value] of Object.entries(HEADERS)) response.headers.set(name, value);
      return response;
    },
  };
}

/** Headers of every answer. Answers depend on the caller, and the Back button must not show JSON for a page. */
const HEADERS = {
  vary: 'Accept, Cookie, Authorization',
  'cache-control': 'no-store',
  'content-security-policy': [
    `default-src 'none'`,
    `script-src 'self'`,
    `style-src 'self'`,
    `img-src 'self' data:`,
    `connect-src 'self'`,
    `form-action 'self'`,
    `base-uri 'none'`,
    `frame-ancestors 'none'`,
  ].join('; '),
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};

/** A request, with the facts that are established about it so far. */
interface Asked {
  readonly declaration: OperatorEndpointDeclaration;
  readonly request: Request;
  /** Without our marks. */
  readonly url: URL;
  readonly isBounced: boolean;
  /** Whether a page is asked for by POST, to show a form again. */
  readonly isShownAgain: boolean;
  readonly wantsHtml: boolean;
  /** Set once the token has been verified, for the pages of later problems. */
  operator: Operator | null;
  /** Set once a form turns out to have no session, and where it is shown again. */
  unsent: Unsent | null;
}

/** Makes an endpoint for one request, so that every answer can use the facts established before it. */
function endpointFor(declaration: OperatorEndpointDeclaration, request: Request): Endpoint {
  const asked = askedBy(declaration, request);
  const { isShownAgain } = asked;
  const places = placesAt(asked.url.pathname, declaration.routes).filter(
    ({ route }) => !isShownAgain || route.method === 'get',
  );
  const method = request.method === 'HEAD' || isShownAgain ? 'get' : request.method.toLowerCase();
  const place = places.find(({ route }) => route.method === method);
  const limits = place && isPublic(place.route) ? place.route.limits : undefined;
  return guardedEndpoint({
    methods: places.map(({ route }) => (route.method === 'get' && !isShownAgain ? 'GET' : 'POST')),
    route: (places[0]?.route.path ?? `${HOME}/*`).replaceAll(/\{(\w+)\}/g, ':$1'),
    guard: () => {
      if (places.length === 0) throw new Problem('not_found');
      if (place && isPublic(place.route)) requireOwnPage(request);
    },
    ...(limits && { visitorLimits: () => declaration.perVisitor!(limits) }),
    // The methods have been checked, so one of the routes has this one.
    handle: (_, { requestId }) => answer(asked, place!, requestId),
    problemAnswer: async (problem, requestId) => await problemAnswer(asked, problem, requestId),
  });
}

function askedBy(declaration: OperatorEndpointDeclaration, request: Request): Asked {
  const url = new URL(request.url);
  const isBounced = takeMark(url, BOUNCED);
  const isShownAgain = takeMark(url, UNSENT) && request.method === 'POST';
  const known = { declaration, request, url, isBounced, isShownAgain, wantsHtml: wantsHtml(request.headers) };
  return { ...known, operator: null, unsent: null };
}

/** Takes a mark out of an address. @returns whether it was there. */
function takeMark({ searchParams }: URL, mark: string): boolean {
  const isMarked = searchParams.get(mark) === '1';
  if (isMarked) searchParams.delete(mark);
  return isMarked;
}

async function answer(asked: Asked, { route, parameters }: PlaceAt, requestId: string): Promise<Response> {
  const { declaration, request, url } = asked;
  if (!asksForCsv(url)) requireAcceptable(request.headers);
  const { settings, bus } = declaration;
  const visit = { request, url, parameters, requestId, wantsHtml: asked.wantsHtml, settings, bus };
  if (isPublic(route)) {
    const given = await route.handle(visit);
    return asked.wantsHtml && given.page ? pageResponse(given.page(), given) : otherResponse(asked, given);
  }
  if (mayHaveLeftCookieBehind(asked)) return bounce(asked);
  if (asked.isShownAgain) asked.unsent = (await readCarried(request)).unsent;
  const operator = await admit(asked, route, requestId);
  const isAction = route.method !== 'get';
  const unread = isAction && asked.wantsHtml ? request.clone() : null;
  const given = await withDatabase(bus, { requestId, isAction }, (own) =>
    route.handle({ ...visit, bus: own, operator }),
  ).catch(async (error: unknown) => {
    const isCorrected = error instanceof Problem && error.code === 'validation_failed';
    if (unread && isCorrected) asked.unsent = await readUnsent(unread, route);
    throw error;
  });
  if (!asked.wantsHtml || !given.page) return otherResponse(asked, given);
  const badges = await declaration.badges().catch((error: unknown) => {
    logError('the dead letters and incidents could not be counted', error, { requestId });
    return null;
  });
  const actions = await declaration.forms();
  const done = doneOn(url, request);
  return pageResponse(given.page({ ...contextOf(asked, operator, badges), actions, done }), given);
}

/** @throws Problem as `authenticate` and `requireScope` do. A form is kept then. */
async function admit(asked: Asked, route: OperatorRoute, requestId: string): Promise<Operator> {
  const { declaration, request } = asked;
  const { settings, bus } = declaration;
  try {
    const operator = await authenticate(request, settings(), (read) => inDatabase({ bus, requestId }, read));
    asked.operator = operator;
    requireScope(operator, route.access);
    return operator;
  } catch (error) {
    if (request.method === 'POST') asked.unsent ??= await readUnsent(request, route);
    throw error;
  }
}

/** Writes a problem as JSON, as a page, or as the sign-in form. */
async function problemAnswer(asked: Asked, problem: Problem, requestId: string): Promise<Response> {
  if (!asked.wantsHtml) return problemResponse(problem, requestId);
  const { status, code, detail, issues = [] } = problem;
  const { request, unsent } = asked;
  const directory = directoryIn(asked.declaration.settings);
  if (code === 'rate_limited' && request.method === 'POST') {
    // Nobody has read what came with a try to sign in that is one too many.
    const form = await readCarried(request);
    return pageResponse(signInPage({ ...form, directory, problem: detail }), problem);
  }
  if (status === 401 || (code === 'insufficient_scope' && unsent)) {
    // Who has no token, or no longer a valid one, made no mistake, so the form shows no error.
    const isMistake = status === 403 || (code !== 'unauthorized' && !unsent);
    const page = signInPage({
      next: nextAfter(asked),
      directory,
      problem: isMistake ? detail : null,
      isTokenWrong: isMistake && sessionHandle(request) === undefined,
      anew: status === 403,
      unsent,
    });
    return pageResponse(page, problem);
  }
  const context = asked.operator && contextOf(asked, asked.operator, null, issues[0]?.message);
  const isRead = request.method === 'GET';
  return pageResponse(problemPage(problem, { requestId, isRead, context }), problem);
}

/** The page to open after signing in: the requested one, or the one whose form it was. */
function nextAfter({ declaration, request, url, isShownAgain, unsent }: Asked): string {
  if (request.method === 'GET' || isShownAgain) return url.pathname + url.search;
  if (unsent === null) return HOME;
  const referrer = request.headers.get('referer') ?? '';
  const from = new URL(URL.canParse(referrer) ? referrer : HOME, url);
  takeMark(from, UNSENT);
  const page = nextPath(from.pathname + from.search);
  const places = placesAt(from.pathname, declaration.routes);
  // An action may have drawn it, at an address that is no page.
  const isShown = places.length === 0 || places.some(({ route }) => route.method === 'get');
  return isShown && page !== HOME ? page : nextPath(unsent.fields['next']);
}

function contextOf(
  { declaration, url, unsent }: Asked,
  operator: Operator,
  badges: Badges | null,
  wrong?: string,
): PageContext {
  const handling = (topic: string, subscriber: string) =>
    handlingOf(topic, subscriber, declaration.bus.subscribers());
  return {
    operator,
    environment: declaration.environment(),
    url,
    badges,
    names: badges?.names ?? NO_NAMES,
    unsent: unsent && unsentPanel(unsent, operator, url, wrong),
    actions: [],
    handling,
  };
}

function pageResponse(page: Html, { status = 200, headers = {} }: Partial<Answer<never>>): Response {
  return new Response(page, { status, headers: { ...headers, 'content-type': 'text/html; charset=utf-8' } });
}

/** Answers with JSON, or redirects a browser to another page. */
function otherResponse({ wantsHtml: isBrowser }: Asked, given: Answer<never>): Response {
  const { json, headers = {} } = given;
  if (given.text !== undefined) return new Response(given.text, { headers });
  if (given.seeOther === undefined) return Response.json(json, { status: given.status ?? 200, headers });
  if (!isBrowser) return Response.json(json, { headers });
  const status = given.withForm ? 307 : 303;
  const { seeOther: to } = given;
  const seeOther =
    typeof to === 'string' ? { location: to } : { location: to.path, 'set-cookie': doneCookie(to) };
  return new Response(null, { status, headers: { ...headers, ...seeOther } });
}

/** A query parameter that marks requests from our bounce page. */
const BOUNCED = 'b';

/**
 * A browser that follows a link from a mail or a chat omits the session's cookie, which is `SameSite=Strict`. It sends the
 * cookie when a page of ours opens the same address again, which happens once.
 */
function mayHaveLeftCookieBehind({ request, isBounced, wantsHtml: isBrowser }: Asked): boolean {
  const { method, headers } = request;
  return (
    isBrowser &&
    method === 'GET' &&
    headers.get('sec-fetch-site') === 'cross-site' &&
    (headers.get('sec-fetch-mode') ?? 'navigate') === 'navigate' &&
    !headers.has('authorization') &&
    sessionToken(request) === undefined &&
    !isBounced
  );
}

function bounce({ url }: Asked): Response {
  const again = new URL(url);
  again.searchParams.set(BOUNCED, '1');
  return pageResponse(bouncePage(again), {});
}

function isPublic(route: Route): route is PublicRoute {
  return route.access === 'anyone';
}

interface PlaceAt {
  readonly route: Route;
  readonly parameters: Readonly<Record<string, string>>;
}

function placesAt(pathname: string, routes: readonly Route[]): readonly PlaceAt[] {
  return routes.flatMap((route) => {
    const parameters = parametersAt(pathname, route.path);
    return parameters ? [{ route, parameters }] : [];
  });
}

/** @returns null for a path that does not match, for a malformed escape and for control characters, which no name contains. */
function parametersAt(pathname: string, path: string): Readonly<Record<string, string>> | null {
  const names = path.replaceAll('.', String.raw`\.`).replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)');
  // A function also answers the path of its file, which begins with /api.
  const found = new RegExp(`^(?:/api)?${names}/?$`).exec(pathname);
  if (!found) return null;
  try {
    const values = Object.entries(found.groups ?? {}).map(
      ([name, text]) => [name, decodeURIComponent(text)] as const,
    );
    return values.some(([, value]) => /\p{Cc}/u.test(value)) ? null : Object.fromEntries(values);
  } catch {
    return null;
  }
}
