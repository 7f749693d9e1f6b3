/** Thrown by a handler: trying again can't help, so the delivery is dead-lettered at once. */
export class PermanentError extends Error {
  readonly code = 'permanent';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'PermanentError';
  }
}

/** Thrown by a handler: try again after `ms` milliseconds. It is no failure and burns no attempt. */
export class RetryAfter extends Error {
  readonly code = 'retry_after';
  readonly ms: number;

  constructor(ms: number, message = `try again in ${ms} ms`) {
    if (!Number.isFinite(ms) || ms < 0) throw new RangeError('write the milliseconds to wait, 0 or more');
    super(message);
    this.name = 'RetryAfter';
    this.ms = ms;
  }
}
