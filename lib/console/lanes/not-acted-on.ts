import { Problem } from '../../platform/http/problem.ts';
import type { Database } from '../../platform/db/connect.ts';
import { orEarlier } from '../kit/earlier.ts';

export const UNKNOWN_DELIVERY =
  'Unknown delivery. Copy its id from the held lanes of its topic, for example 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting.';

/** @throws Problem 404 or 409 if the delivery cannot be retried or skipped, with who did so first. */
export async function orProblem<Done>(
  db: Database,
  deliveryId: string,
  acting: Promise<Done>,
): Promise<Done> {
  try {
    return await orEarlier(db, { deliveryIds: [deliveryId] }, acting);
  } catch (error) {
    if (error instanceof Problem && error.code === 'not_found')
      throw new Problem(error.code, { detail: UNKNOWN_DELIVERY, cause: error });
    throw error;
  }
}
