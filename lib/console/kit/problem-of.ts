import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import { Problem } from '../../platform/http/problem.ts';

/** Gives the problem that says why an operator's action was refused; any other error as it is. */
export function problemOf(error: unknown): unknown {
  return error instanceof NotActedOn
    ? new Problem(error.code, { detail: error.message, cause: error })
    : error;
}
