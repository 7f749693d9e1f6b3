import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import { Problem } from '../../platform/http/problem.ts';
import { problemOf } from '../kit/problem-of.ts';

export const UNKNOWN_DELIVERY =
  'Unknown delivery. Copy its id from the held lanes of its topic, for example 12-345.';

/** @throws Problem 404 or 409 if the delivery cannot be retried or skipped. */
export async function orProblem<Done>(acting: Promise<Done>): Promise<Done> {
  try {
    return await acting;
  } catch (error) {
    if (error instanceof NotActedOn && error.code === 'not_found')
      throw new Problem(error.code, { detail: UNKNOWN_DELIVERY, cause: error });
    throw problemOf(error);
  }
}
