/** What the process ends with. */
export const EXIT = {
  ok: 0,
  /** The doctor found something, or what was asked for was not done. */
  failed: 1,
  usage: 2,
  /** No token, none that is valid, or one that does not allow it. */
  denied: 3,
  unreachable: 4,
} as const;

/** Ends a command: what went wrong, what to do about it, and what to end with. */
export class Failure extends Error {
  readonly exitCode: number;
  /** What to do; null where nothing helps. */
  readonly advice: string | null;

  constructor(exitCode: number, message: string, advice: string | null = null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Failure';
    this.exitCode = exitCode;
    this.advice = advice;
  }
}

/** The command line can't be understood. */
export function misused(message: string, advice: string | null = null): Failure {
  return new Failure(EXIT.usage, message, advice);
}
