/** Begins the names of the query parameters that say what was done: `?done=retry&done.deliveryId=12-345`. */
export const DONE = 'done';
export const DONE_TO = `${DONE}.`;

/** Whether a query parameter says what was done. */
export function isOfAction(name: string): boolean {
  return name === DONE || name.startsWith(DONE_TO);
}
