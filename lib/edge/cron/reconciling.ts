import pTimeout from 'p-timeout';

import { STATING_TYPES } from '../../components/payments/provider-statements.ts';
import type { Config } from '../../platform/config.ts';
import { SECOND } from '../../platform/time.ts';
import { reconcile } from '../webhooks/reconcile/step.ts';
import type { SteppedWork } from './keep-stepping.ts';

/** After a step's own limit: one that begins at the end of the cron's budget of 70 seconds ends within the life of 90. */
const LIMIT_MS = 17 * SECOND;

/**
 * Makes the work that asks providers for webhooks that never came. It is taken in steps and is no duty, because an API may
 * take seconds to answer, and duties share two places.
 */
export function reconciling(settings: () => Config['reconciliations']): SteppedWork {
  return {
    name: 'reconciliation',
    step: (db, { signal }) =>
      pTimeout(reconcile(db, { settings: settings(), types: STATING_TYPES, ...(signal && { signal }) }), {
        milliseconds: LIMIT_MS,
      }),
  };
}
