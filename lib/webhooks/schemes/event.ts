/**
 * Returns a field that can be a receipt's key, or `null`. A number is no id: JSON numbers above 2^53 lose digits, and
 * two ids would become one.
 */
export function eventIdFrom(field: unknown): string | null {
  return typeof field === 'string' && /^[\w.:~|/+=@-]{1,255}$/.test(field) ? field : null;
}

/** Returns a field that can be shown and stored as an event's type, visible ASCII, or `null`. */
export function eventTypeFrom(field: unknown): string | null {
  return typeof field === 'string' && /^[!-~]{1,255}$/.test(field) ? field : null;
}
