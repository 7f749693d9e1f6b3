/** Exit codes. */
export const EXIT = {
  ok: 0,
  /** The doctor found a broken promise, or the request was not carried out. */
  failed: 1,
  usage: 2,
  /** No answer from the server, or from its database. */
  unreachable: 3,
  /** No valid token, or one without the required scope. */
  denied: 4,
} as const;

/** Ends a command with a message, advice and an exit code. */
export class Failure extends Error {
  readonly exitCode: number;
  /** Tells the operator what to do; null where nothing helps. */
  readonly advice: string | null;

  constructor(exitCode: number, message: string, advice: string | null = null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Failure';
    this.exitCode = exitCode;
    this.advice = advice;
  }
}

/** The command line is wrong. */
export function misused(message: string, advice: string | null = null): Failure {
  return new Failure(EXIT.usage, message, advice);
}
