import { deliveriesWait, quantity } from '../kit/words.ts';

/** What waits under a name and what died. */
export function standingWords({
  waiting,
  deadLettered,
}: {
  readonly waiting: number;
  readonly deadLettered: number;
}): string {
  return `${deliveriesWait(waiting)}, ${quantity(deadLettered, 'dead letter')}`;
}
