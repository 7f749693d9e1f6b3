import { readTelemetry } from './config.ts';
import { traceId } from './trace-context.ts';

/** One line of the log. */
export type LogLine = LogFields & { readonly level: string; readonly at: string; readonly message: string };

/** The fields of a line: plain values only, so that no whole body or set of headers slips in. */
export type LogFields = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>;

const RANKS = { info: 0, warn: 1, error: 2 };
export type LogLevel = keyof typeof RANKS;

let sink: ((line: LogLine) => void) | null = null;
let threshold: LogLevel | undefined;

/** Sends the log to a function instead of stdout, for example to format it for a terminal. */
export function logTo(receive: (line: LogLine) => void): void {
  sink = receive;
}

/** Whether `LOG_LEVEL` lets lines of this level through, to save the work of building others. */
export function isLogged(level: LogLevel): boolean {
  threshold ??= readTelemetry().logLevel;
  return RANKS[level] >= RANKS[threshold];
}

/**
 * Writes one line of JSON to stdout, where the host collects it, with the id of the current trace.
 *
 * @param fields never a secret, a signature, a body, an address or a person's words.
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
  if (sink) sink(line);
  else process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Logs an error with the details that may appear in a log. */
export function logError(message: string, error: unknown, fields: LogFields = {}): void {
  log('error', message, { ...errorFields(error), ...fields });
}

/**
 * Collects lines and writes them together: each write is a system call, and there may be thousands of lines a second.
 */
export class LogBatch {
  #text = '';
  #atMs = 0;
  #at = '';

  /** Adds a line as `log` does; the caller adds the trace. @param fields at least one. */
  add(level: LogLevel, message: string, fields: LogFields): void {
    if (!isLogged(level)) return;
    const at = this.#now();
    if (sink) sink({ ...fields, level, at, message });
    // Concatenated: copying the fields for each line would double its cost.
    else
      this.#text += `{"level":"${level}","at":"${at}","message":"${message}",${JSON.stringify(fields).slice(1)}\n`;
  }

  write(): void {
    if (this.#text === '') return;
    process.stdout.write(this.#text);
    this.#text = '';
  }

  /** Formats the instant once for all lines of a millisecond. */
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
 * Selects the details of an error that may appear in a log: its class, its code (SQLSTATE for a driver's error) and its
 * stack. The message only for our own errors: a parser quotes the text that it refuses, a driver the parameters.
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
 * The code of an error, or else of its cause: Drizzle wraps a driver's errors.
 *
 * @returns for a database's error, the five characters of its SQLSTATE.
 */
export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ('code' in error && typeof error.code === 'string') return error.code;
  return codeOf(error.cause);
}

/** Our errors have codes in lower case; Node's, jose's and a database's are in upper case. */
const OWN_CODE = /^[a-z]+(_[a-z]+)*$/;

/** Leaves out the first lines of the stack, which repeat the message. */
function framesOf(error: Error): readonly string[] {
  const frames = (error.stack ?? '').replace(error.message, '').match(/^ +at .*$/gm) ?? [];
  return frames.slice(0, 5).map((frame) => frame.trim());
}
