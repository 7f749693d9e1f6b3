/** The number of matching deliveries has changed since the operator saw it; nothing was done. */
export class CountChanged extends Error {
  readonly code = 'count_changed';
  readonly expected: number;
  readonly matched: number;

  /** @param action what was not done. */
  constructor(expected: number, matched: number, action: 'replay' | 'dismiss' = 'replay') {
    const match = matched === 1 ? 'delivery matches' : 'deliveries match';
    super(`${matched} ${match}, not ${expected}: check them again before you ${action}`);
    this.name = 'CountChanged';
    this.expected = expected;
    this.matched = matched;
  }
}

/** This release's catalog does not list the subscription, so no relay of it would deliver; nothing was replayed. */
export class NoSuchSubscription extends Error {
  readonly code = 'no_such_subscription';

  /**
   * @param subscription for example `accounting for payment.captured`.
   * @param consequence a sentence.
   */
  constructor(subscription: string, consequence = 'Nothing was replayed.') {
    super(
      `This release’s catalog does not list ${subscription}: ask a release that does, or list it again. ${consequence}`,
    );
    this.name = 'NoSuchSubscription';
  }
}
