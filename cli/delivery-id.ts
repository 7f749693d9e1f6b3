import { misused } from './failure.ts';

/** Whether a text looks like the id of a delivery. */
export const isDeliveryId = (written: string) => /^\d{1,18}-\d{1,18}$/.test(written);

/** @throws Failure for text that can't be a delivery id. */
export function requireDeliveryId(written: string): void {
  if (isDeliveryId(written)) return;
  throw misused(
    `'${written}' is not a delivery id.`,
    'Copy one from npx postbud dead-letters, for example 12-345',
  );
}
