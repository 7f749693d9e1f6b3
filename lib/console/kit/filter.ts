/** Said where nothing but a time span selects dead letters: that would be all of them. */
export const NO_FILTER =
  'no filter; expected a topic, a subscriber, a group, q or deliveryIds; or, for all of a time, until beside since';

interface Filters {
  readonly topic?: string | undefined;
  readonly subscriber?: string | undefined;
  readonly group?: string | undefined;
  readonly q?: string | undefined;
  readonly until?: string | undefined;
}

/** Whether a request selects dead letters by more than how long ago they died. */
export function hasFilter({ topic, subscriber, group, q, until }: Filters): boolean {
  return [topic, subscriber, group, q, until].some(Boolean);
}
