import type { Warnings } from '../kit/operation-pages.ts';
import { count, quantity } from '../kit/words.ts';
import type { DismissPreview } from './preview.ts';

// What the preview of a dismissal says, for the page and for the command line.

/** Says that halted lanes go on. */
export function haltingWarning({ subscriptions }: DismissPreview): Warnings[number] {
  const halted = subscriptions.reduce((sum, { halting }) => sum + halting, 0);
  return (
    halted > 0 && [
      `${quantity(halted, 'halted lane')} ${halted === 1 ? 'goes' : 'go'} on.`,
      'Deliveries that waited behind these dead letters are delivered.',
    ]
  );
}

/** Says what stays as it is. */
export function untouchedWords({ others, subscriptions }: DismissPreview): string {
  const ofThese = subscriptions.reduce((sum, one) => sum + one.others, 0);
  const dead =
    others === 0
      ? 'No other dead letters'
      : `${quantity(others, 'other dead letter')}, ${count(ofThese)} of ${subscriptions.length === 1 ? 'this subscription' : 'these subscriptions'}`;
  return `${dead}; deliveries that wait or are retried; what dies from now on`;
}
