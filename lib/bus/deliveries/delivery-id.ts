import type { ClaimedDelivery, ClaimedLane } from './claim.ts';

/** A delivery's id. It keeps the lane that it was fanned out to, even when its key has moved to another lane. */
export function deliveryIdOf({ home }: ClaimedLane, { position }: ClaimedDelivery): string {
  return `${home}-${position}`;
}
