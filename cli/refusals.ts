import { duration } from '../lib/operators/page/instants.ts';
import { DAY, SECOND } from '../lib/time.ts';
import type { Problem } from './answers.ts';
import { EXIT, Failure } from './failure.ts';
import { timeOfDay } from './instants.ts';

/** An answer that is none of what was asked for. */
export interface Refused {
  readonly status: number;
  readonly headers: Headers;
  /** Null where it is no `application/problem+json`: a proxy's page, or no Postbud at all. */
  readonly problem: Problem | null;
  readonly url: URL;
  /** What the command line calls the fields whose names are not its options’. */
  readonly named: Readonly<Record<string, string>>;
  /** Whether the cron was called, which has a secret of its own. */
  readonly isCron: boolean;
}

/** A server that can't take a request now, and may in a while. */
export class Unavailable extends Failure {
  /** When to come again; null where it is not known. */
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

/** Says in words what the server refused, and what to do about it. */
export function refusal(refused: Refused): Failure {
  const { status, headers, problem, url, named, isCron } = refused;
  const said = problem?.detail || `${url.origin} answered ${status}.`;
  if (status === 401) return denied(said, isCron ? CRON : MINT);
  if (status === 403) return denied(said, scopeAdvice(headers));
  if (status === 429 || (status >= 500 && status !== 501)) {
    const retryAfterMs = retryAfterOf(headers);
    return new Unavailable(EXIT.failed, said, tryAgain(retryAfterMs, problem), retryAfterMs);
  }
  const location = headers.get('location');
  if (status >= 300 && status < 400 && location !== null) return elsewhere(url, location);
  if (problem === null) return noPostbud(url, status);
  if (status === 400) return misusedThere(problem, named);
  if (problem.code === 'count_changed') {
    return new Failure(EXIT.failed, `Nothing was replayed. ${said}`, 'Run it again to see what matches now.');
  }
  return new Failure(EXIT.failed, said);
}

/** For what something else has answered: a proxy's page, or another server's. */
export function noPostbud(url: URL, status: number): Failure {
  return new Failure(
    EXIT.unreachable,
    `${url.origin} answered ${status}, and not as Postbud does.`,
    'Name the server with --url or POSTBUD_URL.',
  );
}

function elsewhere(url: URL, location: string): Failure {
  const to = URL.canParse(location, url.href) ? new URL(location, url).origin : url.origin;
  if (to === url.origin) return new Failure(EXIT.unreachable, `${url.origin} sends one round in circles.`);
  return new Failure(
    EXIT.unreachable,
    `${url.origin} sends one on to ${to}.`,
    `If that is the server: --url ${to}`,
  );
}

const MINT =
  'Make a token with npm run -s token, or take one of your identity provider’s, and give it as POSTBUD_TOKEN or in a file: --token-file <file>.';
const CRON = 'Set CRON_SECRET to the one that the server has.';

function denied(message: string, advice: string): Failure {
  return new Failure(EXIT.denied, message, advice);
}

/** @see https://www.rfc-editor.org/rfc/rfc6750#section-3 */
function scopeAdvice(headers: Headers): string {
  const scope = /scope="([\w: .-]+)"/.exec(headers.get('www-authenticate') ?? '')?.[1];
  if (scope === undefined) return 'Ask whoever gives out tokens.';
  const scopes = [...new Set(['event-bus:read', scope])].join(' ');
  return `Use one with it: npm run -s token -- --scope "${scopes}"`;
}

function tryAgain(retryAfterMs: number | null, problem: Problem | null): string | null {
  if (retryAfterMs === null) {
    return problem ? requestLine(problem) : 'That says what stands before Postbud: does it run behind it?';
  }
  const at = timeOfDay(new Date(Date.now() + retryAfterMs).toISOString());
  return `Try again in ${duration(retryAfterMs)}, at ${at}.`;
}

/** Seconds, or a date. Nobody waits for more than a day: that is no time to come again. */
function retryAfterOf(headers: Headers): number | null {
  const after = headers.get('retry-after');
  if (after === null) return null;
  const ms = /^\d+$/.test(after) ? Number(after) * SECOND : Date.parse(after) - Date.now();
  return ms <= DAY ? Math.max(SECOND, ms) : null;
}

/** The server's word on what was written: its fields are our options. */
function misusedThere({ detail, issues }: Problem, named: Refused['named']): Failure {
  const optionOf = (path: string) => {
    const [field = ''] = path.split('.');
    return named[field] ?? `--${field}`;
  };
  const told = issues.map(({ path, message }) => `${optionOf(path)}: ${message}`).join('\n');
  const isTopicWrong = issues.some(({ path }) => path === 'topic');
  return new Failure(
    EXIT.usage,
    told || detail,
    isTopicWrong ? 'npx postbud topics --all lists them.' : null,
  );
}

const requestLine = ({ requestId }: Problem) =>
  requestId === undefined ? null : `The server’s log has it as request ${requestId}.`;

const CAUSES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  ENOTFOUND: 'there is no host of that name',
  EAI_AGAIN: 'the host’s address can’t be looked up',
  EHOSTUNREACH: 'there is no way to the host',
  ENETUNREACH: 'there is no network',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak HTTPS there',
  Z_DATA_ERROR: 'what it answered can’t be unpacked',
};

/** Why a server can't be reached, by what `reasonOf` found. */
export const causeWords = (reason: string) => CAUSES[reason] ?? reason;

/** Says why there was no answer at all. */
export function unreachable(error: unknown, url: URL, timeoutMs: number): Failure {
  const advice = 'Is it running (npm start)? Or name another one with --url or POSTBUD_URL.';
  if (error instanceof Error && error.name === 'TimeoutError') {
    const message = `${url.origin} has not answered within ${duration(timeoutMs)}.`;
    const maybe = 'What it was asked for may be done all the same.';
    return new Unavailable(EXIT.unreachable, message, maybe, null, { cause: error });
  }
  const reason = reasonOf(error);
  const why = causeWords(reason);
  return new Unavailable(EXIT.unreachable, `${url.origin} can’t be reached: ${why}.`, advice, null, {
    cause: error,
  });
}

/** A code, or a message without one. fetch hides it in the cause of its error, those of several addresses together. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error.cause === undefined ? error.message : reasonOf(error.cause);
}
