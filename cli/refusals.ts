import type { IncomingHttpHeaders } from 'node:http';

import { duration, timeOfDay } from '../lib/console/kit/instants.ts';
import type { problem as problemSchema } from '../lib/platform/http/problem-shape.ts';
import { DAY, SECOND } from '../lib/platform/time.ts';
import { EXIT, Failure, misused } from './failure.ts';
import { inZone } from './times.ts';
import { unknownSubscriber, unknownTopic } from './known-names.ts';

type Problem = (typeof problemSchema)['_output'];

/** An answer other than the requested one. */
export interface Refused {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Null for an answer that is no problem of ours: from a proxy, or a server other than Postbud. */
  readonly problem: Problem | null;
  readonly url: URL;
  /** The parameters in the request's path. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The fields of the request. */
  readonly sent: Readonly<Record<string, unknown>>;
  /** Maps them to options of other names. */
  readonly named: Readonly<Record<string, string>>;
  /** The cron was called: it takes a secret instead of a token. */
  readonly isCron: boolean;
}

/** The server can’t answer now, but may answer later. */
export class Unavailable extends Failure {
  /** The wait that the server asked for; null for none. */
  readonly retryAfterMs: number | null;

  constructor(
    exitCode: number,
    message: string,
    advice: string | null,
    retryAfterMs: number | null,
    options?: ErrorOptions,
  ) {
    super(exitCode, message, advice, options);
    this.name = 'Unavailable';
    this.retryAfterMs = retryAfterMs;
  }
}

/** Makes a failure of a refusal, with advice. */
export async function refusal(refused: Refused): Promise<Failure> {
  const { status, headers, problem, url, sent, named, isCron } = refused;
  const said = problem?.detail || `${url.origin} answered ${status}.`;
  if (status === 401) return denied(said, isCron ? CRON : MINT);
  if (status === 403) return denied(said, scopeAdvice(headers));
  if (status === 429 || (status >= 500 && status !== 501)) {
    const retryAfterMs = retryAfterOf(headers);
    const exitCode = problem?.code === 'database_unavailable' ? EXIT.unreachable : EXIT.failed;
    return new Unavailable(exitCode, said, tryAgain(retryAfterMs, problem), retryAfterMs);
  }
  const location = headers.location;
  if (status >= 300 && status < 400 && location !== undefined) return elsewhere(url, location);
  if (problem === null) return noPostbud(url, status);
  if (status === 400) return await misusedThere(problem, sent, named);
  // The command line named it: a misspelt name is a wrong command line, like an unknown topic among the options.
  const { subscriber } = refused.parameters;
  if (status === 404 && subscriber !== undefined) return await unknownSubscriber(subscriber);
  if (status === 404 && typeof sent['subscriber'] === 'string')
    return await unknownSubscriber(sent['subscriber']);
  if (problem.code === 'count_changed') {
    const [, verb = 'replay'] = /before you (\w+)\./.exec(said) ?? [];
    const done = { dismiss: 'dismissed', skip: 'skipped' }[verb] ?? 'replayed';
    const nothing = said.startsWith('Nothing was ') ? '' : `Nothing was ${done}. `;
    return new Failure(EXIT.failed, nothing + said, 'Run it again to see what matches now.');
  }
  return new Failure(EXIT.failed, said, problem.code === 'not_first' ? WHY : null);
}

const WHY = 'npx postbud why <id> says what it waits for.';

/** The answer is not one of Postbud’s: it comes from a proxy or another server. */
export function noPostbud(url: URL, status: number): Failure {
  return new Failure(
    EXIT.unreachable,
    `${url.origin} answered ${status}, but not as a Postbud server does.`,
    'Set the server’s address with --url or POSTBUD_URL.',
  );
}

function elsewhere(url: URL, location: string): Failure {
  const to = URL.canParse(location, url.href) ? new URL(location, url).origin : url.origin;
  if (to === url.origin) return new Failure(EXIT.unreachable, `${url.origin} redirects to itself.`);
  return new Failure(
    EXIT.unreachable,
    `${url.origin} redirects to ${to}.`,
    `If that is your server, use --url ${to}`,
  );
}

/** Tells an operator without a token how to get one. */
export const MINT =
  'Mint one with npm run -s token, or get one from your identity provider. Then set POSTBUD_TOKEN or use --token-file <file>.';
/** Tells an operator without the cron’s secret where it is. */
export const CRON = 'Set CRON_SECRET to the server’s value.';

function denied(message: string, advice: string): Failure {
  return new Failure(EXIT.denied, message, advice);
}

/** @see https://www.rfc-editor.org/rfc/rfc6750#section-3 */
function scopeAdvice(headers: IncomingHttpHeaders): string {
  const scope = /scope="([\w: .-]+)"/.exec(headers['www-authenticate'] ?? '')?.[1];
  if (scope === undefined) return 'Ask the person who issues your tokens.';
  const scopes = [...new Set(['event-bus:read', scope])].join(' ');
  return `Mint one that has it: npm run -s token -- --scope "${scopes}"`;
}

function tryAgain(retryAfterMs: number | null, problem: Problem | null): string | null {
  if (retryAfterMs === null) {
    return problem ? requestLine(problem) : 'A proxy in front of Postbud says so. Is Postbud running?';
  }
  const at = timeOfDay(new Date(Date.now() + retryAfterMs).toISOString());
  return `Try again in ${duration(retryAfterMs)}, at ${inZone(at)}.`;
}

/** Reads seconds or a date. More than a day counts as none: nobody waits that long. */
function retryAfterOf(headers: IncomingHttpHeaders): number | null {
  const after = headers['retry-after'];
  if (after === undefined) return null;
  const ms = /^\d+$/.test(after) ? Number(after) * SECOND : Date.parse(after) - Date.now();
  return ms <= DAY ? Math.max(SECOND, ms) : null;
}

/** A longer value would hide the message behind it. */
const LONGEST_REPEATED = 60;

/** Reports a wrong field by the option that set it. */
async function misusedThere(
  { detail, issues = [] }: Problem,
  sent: Refused['sent'],
  named: Refused['named'],
): Promise<Failure> {
  const isWrong = (field: string) => issues.some(({ path }) => path === field);
  const { topic, subscriber } = sent;
  if (typeof topic === 'string' && isWrong('topic')) return await unknownTopic(topic);
  if (typeof subscriber === 'string' && isWrong('subscriber')) return await unknownSubscriber(subscriber);
  const optionOf = (path: string) => {
    const [field = ''] = path.split('.');
    const value = sent[field];
    const option = named[field] ?? `--${field}`;
    return typeof value === 'string' && value.length <= LONGEST_REPEATED ? `${option} '${value}'` : option;
  };
  return misused(issues.map(({ path, message }) => `${optionOf(path)}: ${message}`).join('\n') || detail);
}

const requestLine = ({ requestId }: Problem) => `Look for request ${requestId} in the server’s log.`;

const CAUSES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens on this port',
  ECONNRESET: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed',
  ENOTFOUND: 'the host is unknown',
  EAI_AGAIN: 'the host’s name can’t be resolved',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no network',
  ETIMEDOUT: 'it does not answer',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  EPROTO: 'it does not speak HTTPS as expected on this port',
  Z_DATA_ERROR: 'its compressed answer is damaged',
  Z_BUF_ERROR: 'its compressed answer is cut off',
};

/** Explains a code of `reasonOf`. */
export const causeWords = (reason: string) => CAUSES[reason] ?? reason;

/** Makes a failure of a request without an answer. */
export function unreachable(error: unknown, url: URL, timeoutMs: number): Failure {
  const advice = 'Is it running (npm start)? To use another server, set --url or POSTBUD_URL.';
  if (error instanceof Error && error.name === 'TimeoutError') {
    const message = `${url.origin} did not answer within ${duration(timeoutMs)}.`;
    const maybe = 'It may have carried out the request all the same.';
    return new Unavailable(EXIT.unreachable, message, maybe, null, { cause: error });
  }
  const reason = reasonOf(error);
  const why = causeWords(reason);
  return new Unavailable(EXIT.unreachable, `${url.origin} can’t be reached: ${why}.`, advice, null, {
    cause: error,
  });
}

/** Finds an error’s code, or its message without one: in the cause of an error of `fetch`, or the first of several. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error.cause === undefined ? error.message : reasonOf(error.cause);
}
