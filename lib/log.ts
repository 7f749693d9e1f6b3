import { readObserved } from './config.ts';
import { traceId } from './trace-context.ts';

/** One line of the log. */
export type LogLine = LogFields & { readonly level: string; readonly at: string; readonly message: string };

/** What a line may carry besides its message: plain values only, so that no body or header set slips in whole. */
export type LogFields = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>;

const RANKS = { info: 0, warn: 1, error: 2 };
export type LogLevel = keyof typeof RANKS;

let told: ((line: LogLine) => void) | null = null;
let threshold: LogLevel | undefined;

/** Sends the log elsewhere than to stdout as JSON: to a person's terminal, say. */
export function logTo(sink: (line: LogLine) => void): void {
  told = sink;
}

/** Whether lines of a level are written, which `LOG_LEVEL` says: to spare the work of making one that is not. */
export function isLogged(level: LogLevel): boolean {
  threshold ??= readObserved().logLevel;
  return RANKS[level] >= RANKS[threshold];
}

/**
 * Writes one line of JSON to stdout, where the host collects it, with the id of the trace that it is part of.
 *
 * @param fields never a secret, a signature, a body, an address or what a person wrote.
 */
export function log(level: LogLevel, message: string, fields: LogFields = {}): void {
  if (!isLogged(level)) return;
  const trace = traceId();
  const line = {
    ...(trace !== null && { traceId: trace }),
    ...fields,
    level,
    at: new Date().toISOString(),
    message,
  };
  if (told) told(line);
  else process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Writes that something failed, with what may be told of the error. */
export function logError(message: string, error: unknown, fields: LogFields = {}): void {
  log('error', message, { ...errorFields(error), ...fields });
}

/** Lines that are written together: a write to stdout is a system call, and there may be thousands of lines a second. */
export class LogBatch {
  #text = '';
  #atMs = 0;
  #at = '';

  /** As `log` does, but for the trace, which the caller knows. @param fields one at least. */
  add(level: LogLevel, message: string, fields: LogFields): void {
    if (!isLogged(level)) return;
    const at = this.#now();
    if (told) told({ ...fields, level, at, message });
    // Put together by hand: a copy of the fields for each line would cost as much as all the rest of it.
    else
      this.#text += `{"level":"${level}","at":"${at}","message":"${message}",${JSON.stringify(fields).slice(1)}\n`;
  }

  write(): void {
    if (this.#text === '') return;
    process.stdout.write(this.#text);
    this.#text = '';
  }

  /** Of the lines of one millisecond, the first one has the instant written. */
  #now(): string {
    const ms = Date.now();
    if (ms !== this.#atMs) {
      this.#atMs = ms;
      this.#at = new Date(ms).toISOString();
    }
    return this.#at;
  }
}

/**
 * Tells of an error what may stand in a log: its class, its code (of a driver's error the SQLSTATE) and where it was
 * thrown. Its message only when it is our own: a parser quotes the text that it refuses, a driver the parameters.
 */
function errorFields(error: unknown): LogFields {
  if (!(error instanceof Error)) return { error: typeof error };
  const code = codeOf(error);
  return {
    error: error.name,
    ...(code !== undefined && { code }),
    ...(OWN_CODE.test(code ?? '') && { detail: error.message }),
    stack: framesOf(error),
  };
}

/**
 * The code of an error, or else of what caused it: Drizzle wraps a driver's errors in its own.
 *
 * @returns for what a database reports, the five characters of its SQLSTATE.
 */
export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ('code' in error && typeof error.code === 'string') return error.code;
  return codeOf(error.cause);
}

/** Our errors have codes in lower case; Node's, jose's and a database's are in upper case. */
const OWN_CODE = /^[a-z]+(_[a-z]+)*$/;

/** Without the first lines of the stack, which repeat the message. */
function framesOf(error: Error): readonly string[] {
  const frames = (error.stack ?? '').replace(error.message, '').match(/^ +at .*$/gm) ?? [];
  return frames.slice(0, 5).map((frame) => frame.trim());
}
