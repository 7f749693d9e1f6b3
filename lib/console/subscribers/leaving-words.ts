import type { Warning } from '../kit/operation-pages.ts';
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

/** Warns of what a rename would not move. */
export function duplicatesWarning({
  to,
  duplicates,
}: {
  readonly to: string;
  readonly duplicates: number;
}): Warning | false {
  if (duplicates === 0) return false;
  const [are, they] = duplicates === 1 ? ['is of an event', 'It is'] : ['are of events', 'They are'];
  return [
    `${quantity(duplicates, 'delivery')} ${are} that ${to} has already.`,
    `${they} not moved but dismissed, so that ${to} gets nothing twice.`,
  ];
}
