import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { SECOND } from '../../platform/time.ts';
import { Malformed } from './event.ts';
import type { ReceivedEvent } from './event.ts';
import { NotBegun } from './transaction.ts';

/** A request that is answered without, or in place of, calling a handler. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether nothing went wrong here: the handler, or the request, asked for the refusal. */
  readonly isAskedFor: boolean;

  constructor(
    status: number,
    code: string,
    message: string,
    headers: Readonly<Record<string, string>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'Refused';
    this.status = status;
    this.code = code;
    this.headers = headers;
    this.isAskedFor = options === undefined || code === 'permanent' || code === 'retry_after';
  }
}

/** Turns an error into the refusal whose status makes the bus do the right thing. @param event it was thrown for. */
export function refusalOf(error: unknown, event?: ReceivedEvent): Refused {
  if (error instanceof Refused) return error;
  if (error instanceof Malformed) return new Refused(400, 'malformed', error.message);
  if (error instanceof NotBegun) {
    // Without Retry-After: the bus then takes it for an outage, waits and probes, and tells its operators.
    return new Refused(
      503,
      'database_unreachable',
      'The receiver’s database cannot be reached.',
      {},
      { cause: error },
    );
  }
  const { code, ms, message, name } = fieldsOf(error);
  const said = event ? masked(message, event) : '';
  const because = { cause: error };
  // By their codes, because a component may have another copy of the classes, as in lib/bus/relay/failure.ts.
  if (code === 'permanent') return new Refused(410, 'permanent', said, {}, because);
  if (code === 'retry_after' && ms !== null) {
    const seconds = String(Math.max(1, Math.ceil(ms / SECOND)));
    return new Refused(503, 'retry_after', said, { 'retry-after': seconds }, because);
  }
  if (isTableMissing(error)) {
    const advice =
      'Create it: RECEIVED_TABLE of postbud/receive is its SQL. Or name its schema in the search_path of the role.';
    return new Refused(500, 'no_table', `The table postbud_received is missing. ${advice}`, {}, because);
  }
  // Not its message, which may repeat anything that the handler read.
  const kind = [name, code].filter(Boolean).join(' ');
  return new Refused(500, 'handler_failed', `The handler threw ${kind}.`, {}, because);
}

/** Answers with a problem (RFC 9457), which the bus keeps with the attempt. */
export function answerOf({ status, code, message, headers }: Refused): Response {
  const body = JSON.stringify({ type: 'about:blank', status, code, detail: message });
  return new Response(body, { status, headers: { 'content-type': 'application/problem+json', ...headers } });
}

/** Removes the event's personal data, and whatever looks like some, from a text that a handler wrote. */
export function masked(text: string, { topic, payload, version }: ReceivedEvent): string {
  return maskPersonalData(text.slice(0, LONGEST_TEXT), personalTexts(topic, payload, version));
}

/** The bus keeps 2 KiB. */
const LONGEST_TEXT = 1000;

/** Lists an error and what caused it: Drizzle wraps a driver's error in one that says only which statement failed. */
export function withCauses(error: unknown): readonly unknown[] {
  const chain = [error];
  for (let last = error; last instanceof Error && last.cause !== undefined; last = last.cause) {
    // Of one that has itself as a cause.
    if (chain.includes(last.cause)) break;
    chain.push(last.cause);
  }
  return chain;
}

function isTableMissing(error: unknown): boolean {
  const coded = withCauses(error).find(
    (one) => one instanceof Error && 'code' in one && one.code === '42P01',
  );
  return coded instanceof Error && coded.message.includes('postbud_received');
}

function fieldsOf(error: unknown) {
  const isError = error instanceof Error;
  const code = isError && 'code' in error && typeof error.code === 'string' ? error.code : null;
  const ms = isError && 'ms' in error && typeof error.ms === 'number' ? error.ms : null;
  // A class is named in the source; whatever else stands in `name` may be anything.
  const name = isError ? error.constructor.name : 'something that is no Error';
  return {
    code: code !== null && /^\w{1,40}$/.test(code) ? code : null,
    ms,
    message: isError ? error.message : '',
    name,
  };
}
