import type { Config } from '../../platform/config.ts';
import { networkDays } from '../../platform/rate-limit/networks.ts';
import type { VisitorLimit } from '../../platform/rate-limit/visitors.ts';
import { DAY, MINUTE } from '../../platform/time.ts';

/** The limits of one visitor. A whole town hall behind one address may be one visitor. */
export function chatLimits(rates: Config['rates']): readonly VisitorLimit[] {
  const { chatPerMinute, chatPerDay, chatDailyBudget } = rates;
  return [
    { name: 'chat-min', limit: chatPerMinute, windowMs: MINUTE },
    { name: 'chat-day', limit: chatPerDay, windowMs: DAY },
    ...networkDays('chat-day', chatPerDay, chatDailyBudget),
  ];
}
