import type { IncomingHttpHeaders } from 'node:http';

import { duration } from '../lib/console/kit/words.ts';
import type { problem as problemSchema } from '../lib/platform/http/problem-shape.ts';
import { DAY, SECOND } from '../lib/platform/time.ts';
import { EXIT, Failure, misused } from './arguments.ts';

type Problem = (typeof problemSchema)['_output'];

/** An answer other than the requested one. */
export interface Refused {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Null for an answer that is no problem of ours: from a proxy, or a server other than Postbud. */
  readonly problem: Problem | null;
  readonly url: URL;
  /** The fields of the request, and the parameters in its path. */
  readonly sent: Readonly<Record<string, unknown>>;
  /** Maps them to options of other names. */
  readonly named: Readonly<Record<string, string>>;
}

/** The server can’t answer now, but may answer later. */
export class Unavailable extends Failure {
  /** The wait that the server asked for; null for none. */
  readonly retryAfterMs: number | null;

  constructor(exitCode: number, message: string, advice: string | null, retryAfterMs: number | null = null) {
    super(exitCode, message, advice);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Makes a failure of a refusal, with advice. */
export function refusal({ status, headers, problem, url, sent, named }: Refused): Failure {
  const said = inCommands(problem?.detail || `${url.origin} answered ${status}.`);
  if (status === 401) return denied(said, MINT);
  if (status === 403) return denied(said, scopeAdvice(headers));
  if (status === 429 || (status >= 500 && status !== 501)) {
    const retryAfterMs = retryAfterOf(headers);
    const exitCode = problem?.code === 'database_unavailable' ? EXIT.unreachable : EXIT.failed;
    return new Unavailable(exitCode, said, tryAgain(retryAfterMs, problem), retryAfterMs);
  }
  const location = headers.location;
  if (problem === null) return noPostbud(url, status, location);
  if (status === 400) return misusedThere(problem, sent, named);
  // The command line named it: a misspelt name is a wrong command line, like an unknown topic among the options.
  if (status === 404 && (sent['subscriber'] ?? sent['topic']) !== undefined) return misused(said);
  const why = problem.code === 'not_first' ? 'npx postbud why <id> says what it waits for.' : null;
  return new Failure(EXIT.failed, said, why);
}

/** The commands that show what pages show, where they have other names. */
const COMMANDS = new Map([
  ['backfills', 'backfill --stop'],
  ['events', 'why'],
  ['replays', 'log'],
  ['subscribers', 'subscriber'],
  ['topics', 'topic'],
]);

/** Names the commands in the place of the pages that a message names. */
function inCommands(text: string): string {
  const said = text.replace('/platform/event-bus?show=all', 'npx postbud topics --show all');
  return said.replaceAll(
    /\/platform\/event-bus\/([\w-]+)((?:\/[\w.-]*\w)?)/g,
    (_, page: string, id: string) => {
      const command = (id !== '' || page === 'replays' ? COMMANDS.get(page) : undefined) ?? page;
      return `npx postbud ${command}${command === 'log' ? '' : id.replace('/', ' ')}`;
    },
  );
}

/** The answer is not one of Postbud’s: it comes from a proxy or another server. */
export function noPostbud(url: URL, status: number, location = ''): Failure {
  const there = URL.canParse(location, url.href) ? new URL(location, url).origin : url.origin;
  return new Failure(
    EXIT.unreachable,
    `${url.origin} answered ${status}, but not as a Postbud server does.`,
    there === url.origin
      ? 'Set the server’s address with --url or POSTBUD_URL.'
      : `If it is your server to which it leads, use --url ${there}`,
  );
}

/** Tells an operator without a token how to get one. */
export const MINT =
  'Mint one with npm run -s token, or get one from your identity provider. Then set POSTBUD_TOKEN or use --token-file <file>.';

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
    return problem
      ? `Look for request ${problem.requestId} in the server’s log.`
      : 'A proxy in front of Postbud says so. Is Postbud running?';
  }
  return `Try again in ${duration(retryAfterMs)}.`;
}

/** Reads seconds, as the bus sends them. More than a day counts as none: nobody waits that long. */
function retryAfterOf({ 'retry-after': after }: IncomingHttpHeaders): number | null {
  const ms = Number(after) * SECOND;
  return ms <= DAY ? Math.max(SECOND, ms) : null;
}

/** A longer value would hide the message behind it. */
const LONGEST_REPEATED = 60;

/** Reports a wrong field by the option that set it. */
function misusedThere(
  { detail, issues = [] }: Problem,
  sent: Refused['sent'],
  named: Refused['named'],
): Failure {
  const optionOf = (path: string) => {
    const [field = ''] = path.split('.');
    const value = sent[field];
    const option = named[field] ?? `--${field}`;
    return typeof value === 'string' && value.length <= LONGEST_REPEATED ? `${option} '${value}'` : option;
  };
  const said = issues.map(({ path, message }) => `${optionOf(path)}: ${inOptions(message, named)}`);
  return misused(said.join('\n') || detail);
}

/** Names fields by their options where these have other names. */
function inOptions(message: string, named: Refused['named']): string {
  return message.replaceAll(/\w+/g, (word) =>
    Object.hasOwn(named, word) && !named[word]!.includes(word) ? named[word]! : word,
  );
}

const CAUSES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens on this port',
  ECONNRESET: 'the connection was closed',
  ENOTFOUND: 'the host is unknown',
  EAI_AGAIN: 'the host’s name can’t be resolved',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no network',
  ETIMEDOUT: 'it does not answer',
  EPROTO: 'it does not speak HTTPS as expected on this port',
  Z_DATA_ERROR: 'its compressed answer is damaged',
  Z_BUF_ERROR: 'its compressed answer is cut off',
};

/** Explains a code of `reasonOf`. */
export const causeWords = (reason: string) => CAUSES[reason] ?? reason;

/** Makes a failure of a request without an answer. */
export function unreachable(error: unknown, { origin }: URL, timeoutMs: number): Failure {
  if (error instanceof Error && error.name === 'TimeoutError') {
    const message = `${origin} did not answer within ${duration(timeoutMs)}.`;
    return new Unavailable(EXIT.unreachable, message, 'It may have carried out the request all the same.');
  }
  const message = `${origin} can’t be reached: ${causeWords(reasonOf(error))}.`;
  const advice = 'Is it running (npm start)? To use another server, set --url or POSTBUD_URL.';
  return new Unavailable(EXIT.unreachable, message, advice);
}

/** Finds an error’s code, or its message without one: in the cause of an error of `fetch`, or the first of several. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error.cause === undefined ? error.message : reasonOf(error.cause);
}
