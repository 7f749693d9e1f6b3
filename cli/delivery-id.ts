import { readDeliveryId } from '../lib/bus/deliveries/delivery-id.ts';
import { misused } from './failure.ts';

/** Whether a text looks like the id of a delivery. */
export const isDeliveryId = (written: string) => readDeliveryId(written) !== null;

/** @throws Failure for text that can't be a delivery id. */
export function requireDeliveryId(written: string): void {
  if (isDeliveryId(written)) return;
  throw misused(
    `'${written}' is not a delivery id.`,
    'npx postbud dead-letters, incidents and why have them, for example 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting',
  );
}
