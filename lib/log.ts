/** One line of the log. */
export type LogLine = LogFields & { readonly level: string; readonly at: string; readonly message: string };

let write = (line: LogLine): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};

/** Sends the log elsewhere than to stdout as JSON: to a person's terminal, say. */
export function logTo(sink: (line: LogLine) => void): void {
  write = sink;
}

/** What a line may carry besides its message: plain values only, so that no body or header set slips in whole. */
export type LogFields = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>;

/**
 * Writes one line of JSON to stdout, where the host collects it.
 *
 * @param fields never a secret, a signature, a body, an address or what a person wrote.
 */
export function log(level: 'info' | 'warn' | 'error', message: string, fields: LogFields = {}): void {
  write({ ...fields, level, at: new Date().toISOString(), message });
}

/** Writes that something failed, with what may be told of the error. */
export function logError(message: string, error: unknown, fields: LogFields = {}): void {
  log('error', message, { ...errorFields(error), ...fields });
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
