import { backfilling } from '../../lib/console/backfills/operations.ts';
import { operationCommand } from '../operation-command.ts';
import { subscriptionsOf } from '../subscriptions.ts';

export const command = operationCommand(backfilling, async (fields, call) => {
  // Says which name was meant.
  await subscriptionsOf(call, { subscriber: String(fields['subscriber']), topic: String(fields['topic']) });
  return fields;
});
