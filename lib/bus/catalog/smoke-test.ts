/**
 * The event of a smoke test. It is no topic of the catalog: nobody else may emit it, it is addressed to the subscribers that
 * are attached in one deployment, and no figure counts it. A component elsewhere answers 2xx and does nothing.
 */
export const SMOKE_TEST = {
  topic: 'system.smoke_test.started',
  producer: 'system',
  version: 1,
  /** The last come after the cron has ended the test: it leaves no dead letter. */
  maxAttempts: 6,
} as const;
