/** Begins the names of the query parameters that say what was done: `?done=retry&done.deliveryId=019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting`. */
export const DONE = 'done';
export const DONE_TO = `${DONE}.`;

/** Whether a query parameter says what was done. */
export function isOfAction(name: string): boolean {
  return name === DONE || name.startsWith(DONE_TO);
}
