/**
 * Returns a field if it can be a receipt's key, else `null`. Integers are ids up to 2^53: above, JSON numbers lose
 * digits, and two ids would become one.
 */
export function eventIdFrom(field: unknown): string | null {
  if (Number.isSafeInteger(field)) return String(field);
  return typeof field === 'string' && /^[\w.:~|/+=@-]{1,255}$/.test(field) ? field : null;
}

/** Returns a field if it can be stored and shown as an event's type (visible ASCII), else `null`. */
export function eventTypeFrom(field: unknown): string | null {
  return typeof field === 'string' && /^[!-~]{1,255}$/.test(field) ? field : null;
}
