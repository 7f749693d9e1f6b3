/** A delivery's id: the event's, a dot, and the subscriber. It says what it is, and no crash gives it to another. */
export function deliveryIdOf(eventId: string, subscriber: string): string {
  return `${eventId}.${subscriber}`;
}

/** Its form. */
export const DELIVERY_ID = /^([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})\.([a-z][a-z\d-]*)$/;

/** @returns null where the text is not the id of a delivery. */
export function readDeliveryId(id: string): { readonly eventId: string; readonly subscriber: string } | null {
  const found = DELIVERY_ID.exec(id);
  return found && { eventId: found[1]!, subscriber: found[2]! };
}
