import { misused } from './failure.ts';

/** Whether a text looks like the id of a delivery. */
export const isDeliveryId = (written: string) => /^\d{1,18}-\d{1,18}$/.test(written);

/** @throws Failure for text that can't be a delivery id. */
export function requireDeliveryId(written: string): void {
  if (isDeliveryId(written)) return;
  throw misused(
    `'${written}' is not a delivery id.`,
    'npx postbud dead-letters, incidents and why have them, for example 12-345',
  );
}
