import type { Config } from '../config.ts';
import { OUTCOME_TYPES } from '../subscribers/payments/provider-outcome.ts';
import { reconcile } from '../webhooks/reconcile/step.ts';
import type { SteppedWork } from './keep-stepping.ts';

/**
 * Makes the work that asks providers for webhooks that never came. It is taken in steps and is no duty, because an API may
 * take seconds to answer, and duties share two places.
 */
export function reconciling(settings: () => Config['reconciliations']): SteppedWork {
  return {
    name: 'reconciliation',
    step: (db, { signal }) =>
      reconcile(db, { settings: settings(), types: OUTCOME_TYPES, ...(signal && { signal }) }),
  };
}
