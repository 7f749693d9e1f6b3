/** Thrown by a handler when a retry cannot help: the delivery is dead-lettered at once. */
export class PermanentError extends Error {
  readonly code = 'permanent';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'PermanentError';
  }
}

/** Thrown by a handler to be called again after `ms` milliseconds. It does not count as an attempt. */
export class RetryAfter extends Error {
  readonly code = 'retry_after';
  readonly ms: number;

  constructor(ms: number, message = `try again in ${ms} ms`) {
    if (!Number.isFinite(ms) || ms < 0)
      throw new RangeError(
        `RetryAfter: expected the milliseconds to wait, 0 or more, not ${ms}. For a minute: new RetryAfter(60_000)`,
      );
    super(message);
    this.name = 'RetryAfter';
    this.ms = ms;
  }
}

/** An event was not taken. `code` tells how its handler answered, or that nobody did. */
export class NotDelivered extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NotDelivered';
    this.code = code;
  }
}
